"""Who may talk to the embedded service: its tenants, their sites, and the development keys.

The keys are public constants of a development tool, in the manner of a storage emulator's well-known
account key. They open nothing but the embedded service.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Plan:
    """What a key's plan permits.

    :param name: shown in the limits reply.
    :param documents: how many documents the tenant may hold.
    :param messages: how many chat messages the tenant may send in a calendar month (UTC).
    :param async_chat: whether asynchronous chat is part of the plan.
    """

    name: str
    documents: int
    messages: int
    async_chat: bool


@dataclass(frozen=True, slots=True)
class Tenant:
    """A workspace and the sites it owns.

    :param tenant_id: the identifier in the path of tenant endpoints.
    :param sites: the identifiers in the path of site endpoints.
    """

    tenant_id: str
    sites: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Key:
    """An API key.

    :param value: what the client sends; never printed, logged or journaled.
    :param name: what the journal shows in its place.
    :param tenant: the tenant whose sites it reaches.
    :param plan: what it permits.
    :param read_only: whether it may only read.
    """

    value: str = field(repr=False)
    name: str
    tenant: Tenant
    plan: Plan
    read_only: bool = False


BUSINESS = Plan("business", documents=1_000_000, messages=1_000_000, async_chat=True)
BASIC = Plan("basic", documents=10_000, messages=10_000, async_chat=False)

# Five letters or more: Airflow warns in every log of a shorter value in a connection, which it cannot mask.
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
