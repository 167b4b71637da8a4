"""The sandbox's tenants, their sites, and the development API keys.

The keys are public constants, like the well-known account key of a storage emulator. They are valid for the sandbox
only.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Plan:
    """Define the limits of a plan.

    :param documents: maximum number of documents of the tenant.
    :param messages: maximum number of chat messages of the tenant per calendar month (UTC).
    """

    name: str
    documents: int
    messages: int
    async_chat: bool


@dataclass(frozen=True, slots=True)
class Tenant:
    """A workspace and the sites it owns."""

    tenant_id: str
    sites: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Key:
    """An API key.

    :param value: secret value that the client sends; never printed, logged or recorded in the journal.
    :param name: name that the journal shows instead.
    """

    value: str = field(repr=False)
    name: str
    tenant: Tenant
    plan: Plan
    read_only: bool = False


BUSINESS = Plan("business", documents=1_000_000, messages=1_000_000, async_chat=True)
BASIC = Plan("basic", documents=10_000, messages=10_000, async_chat=False)

# Five characters or more: Airflow cannot mask a shorter value in a connection and warns about it in every log.
ACME = Tenant("acme-inc", ("acme-docs", "acme-shop"))
GLOBEX = Tenant("globex", ("globex-help", "globex-labs"))
TENANTS = (ACME, GLOBEX)

ACME_FULL_KEY = "dev-acme-full"
ACME_READONLY_KEY = "dev-acme-readonly"
ACME_BASIC_KEY = "dev-acme-basic"
GLOBEX_FULL_KEY = "dev-globex-full"
GLOBEX_READONLY_KEY = "dev-globex-readonly"
GLOBEX_BASIC_KEY = "dev-globex-basic"

DEFAULT_KEY = ACME_FULL_KEY
DEFAULT_TENANT = ACME.tenant_id
DEFAULT_SITE = ACME.sites[0]

KEYS: dict[str, Key] = {
    key.value: key
    for key in (
        Key(ACME_FULL_KEY, "acme-full", ACME, BUSINESS),
        Key(ACME_READONLY_KEY, "acme-readonly", ACME, BUSINESS, read_only=True),
        Key(ACME_BASIC_KEY, "acme-basic", ACME, BASIC),
        Key(GLOBEX_FULL_KEY, "globex-full", GLOBEX, BUSINESS),
        Key(GLOBEX_READONLY_KEY, "globex-readonly", GLOBEX, BUSINESS, read_only=True),
        Key(GLOBEX_BASIC_KEY, "globex-basic", GLOBEX, BASIC),
    )
}
