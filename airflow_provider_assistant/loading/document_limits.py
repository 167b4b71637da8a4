"""
What the limits of a tenant say about documents, without I/O.

The specification shows neither the fields nor the values of the limits. The service's documentation names
``reference_documents`` and ``active_documents``; a load creates documents of both kinds. The usage may be in the limits
or in the reply of another route.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.lake import Metric, flatten
from airflow_provider_assistant.lake.limits import PARTS, limit_of, without_envelopes
from airflow_provider_assistant.texts import counted, shortened

# What a load creates: each of them may be limited separately.
DOCUMENTS: Final = ("documents", "reference_documents", "active_documents")
# Fields of a limit that comes back with time: a load that reaches it waits.
RESET_FIELDS: Final = ("resets_at", "reset_at", "period")
# Characters of the fields in an error.
LISTED = 1000

_Values = Mapping[str, Metric]


@dataclass(frozen=True, slots=True)
class DocumentLimits:
    """
    Hold what a tenant's limits say about documents.

    :param left: Number of documents that the tenant may still create. None if not known or not limited.
    :param limit: Number of documents that it may have. None if not known or not limited.
    :param used: Number of documents that it has. None if not known.
    :param name: What is limited, such as ``active_documents``. Default: ``documents``.
    """

    left: int | None = None
    limit: int | None = None
    used: int | None = None
    name: str = "documents"

    @property
    def needs_usage(self) -> bool:
        """Whether there is a limit, and only how much of it is used is not known."""
        return self.left is None and self.limit is not None

    def __str__(self) -> str:
        things = self.name.replace("_", " ")
        if self.needs_usage:
            return f"The tenant may have {self.limit:,} {things}. Neither its limits nor its usage say how many it has."
        if self.left is None:
            return "The limits do not say how many documents may still be created; limits_field names the field."
        usage = ""
        if self.limit is not None and self.used is not None:
            used_things = "" if self.name == "documents" else f" {things}"
            usage = f" ({self.used:,} of {self.limit:,}{used_things} used)"
        return f"The tenant may create {counted(self.left, 'more document')}{usage}."


def document_limits(raw: Any, field: str | None = None, usage: Any = None) -> DocumentLimits:
    """
    Return what the limits of a tenant say about documents; of several limits, the one that leaves the least room.

    A limit that is null, 0, negative or text means "no limit".

    :param raw: The reply of ``GET …/tenants/{tenant_id}/limits``, of any shape.
    :param field: Path of the limit of documents, such as ``limits.documents``. It has fields such as ``limit`` and
        ``used``, or ``remaining``, or is itself the number that is left. ``documents`` also finds ``documents_limit``.
        Default: None, the limits of ``documents``, ``reference_documents`` and ``active_documents``, unless these have
        a time at which they reset.
    :param usage: The reply of ``GET …/tenants/{tenant_id}/usage``, for used amounts that the limits lack. Default:
        None, not read.
    :return: The limits; None where the replies say nothing that is understood.
    :raises AssistantInputError: The reply does not have the given field.
    """
    limits = _all_limits(raw, field, usage)
    with_room = [limit for limit in limits if limit.left is not None]
    if with_room:
        return min(with_room, key=lambda limit: limit.left or 0)
    without_usage = [limit for limit in limits if limit.needs_usage]
    return next(iter([*without_usage, *limits]), DocumentLimits())


def needs_usage(raw: Any, field: str | None = None) -> bool:
    """
    Return whether the limits have a limit of documents without how much of it is used.

    :param raw: As for :func:`document_limits`.
    :param field: As for :func:`document_limits`.
    :raises AssistantInputError: The reply does not have the given field.
    """
    return any(limit.needs_usage for limit in _all_limits(raw, field, None))


def _all_limits(raw: Any, field: str | None, usage: Any) -> list[DocumentLimits]:
    values = _values(raw)
    usage_values = _values(usage)
    if field is not None:
        return [_named_limits(values, field, usage_values)]
    values_by_name = _by_name(values)
    found = []
    for name in DOCUMENTS:
        if _is_reset_regularly(values, name):
            continue
        limits = _limits_of(values_by_name.get(name, {}), name, usage_values)
        if limits is not None:
            found.append(limits)
    return found


def _values(raw: Any) -> _Values:
    return {value.metric: value for value in flatten(raw)}


def _named_limits(values: _Values, field: str, usage_values: _Values) -> DocumentLimits:
    if field in values:
        # The field is itself the number of documents that are left.
        return DocumentLimits(left=_count(values[field]))
    parts: dict[str, Metric] = {}
    for metric, value in values.items():
        # The fields are below the given one or beside it: documents.limit or documents_limit.
        word = metric.removeprefix(field)[1:]
        if metric.startswith((f"{field}.", f"{field}_")) and word in PARTS:
            parts.setdefault(PARTS[word], value)
    limits = _limits_of(parts, field.rpartition(".")[2], usage_values)
    if limits is None:
        present_fields = shortened(", ".join(values), LISTED)
        raise AssistantInputError(
            f"limits_field: the tenant's limits have no {field!r} with a limit. They have {present_fields}",
            field="limits_field",
        )
    return replace(limits, name=DOCUMENTS[0])


def _by_name(values: _Values) -> dict[str, dict[str, Metric]]:
    """Return the values by the name of what is limited, and by part: ``limit``, ``used`` or ``remaining``."""
    values_by_name: dict[str, dict[str, Metric]] = {}
    for metric, value in values.items():
        found = limit_of(metric)
        if found is None:
            continue
        name, part = found
        parts = values_by_name.setdefault(name, {})
        if part not in parts or parts[part].type == "null":
            parts[part] = value
    return values_by_name


def _limits_of(parts: Mapping[str, Metric], name: str, usage_values: _Values) -> DocumentLimits | None:
    """Return the limits of a name; None if there is none. The used amount may be in the usage."""
    if not parts.keys() & {"limit", "remaining"}:
        return None
    limit = _count(parts.get("limit"))
    left = _count(parts.get("remaining"))
    used = _count(parts.get("used"))
    if used is None:
        used = _used_in(usage_values, name)
    if "limit" in parts and not limit:
        # A limit that is null, 0, negative or text means "no limit".
        return DocumentLimits(used=used, name=name)
    if left is None and limit is not None and used is not None:
        left = max(0, limit - used)
    return DocumentLimits(left=left, limit=limit, used=used, name=name)


def _used_in(usage_values: _Values, name: str) -> int | None:
    """Return how many documents the reply of the usage says that there are."""
    if _is_reset_regularly(usage_values, name):
        return None
    for metric, value in usage_values.items():
        # In the usage, an amount needs no word for it.
        found = limit_of(metric) or limit_of(f"usage.{without_envelopes(metric)}")
        if found in {(name, "used"), (f"{name}.total", "used")}:
            return _count(value)
    return None


def _is_reset_regularly(values: _Values, name: str) -> bool:
    fields = "|".join(RESET_FIELDS)
    pattern = re.compile(rf"(?:.*\.)?{re.escape(name)}[._](?:{fields})", re.DOTALL)
    return any(value.type != "null" and pattern.fullmatch(metric) for metric, value in values.items())


def _count(value: Metric | None) -> int | None:
    """Return a whole number of documents; None if a field has none."""
    if value is None or value.type not in {"number", "string"}:
        return None
    text = value.text.strip().removesuffix(".0")
    # A number of 19 or more digits may not fit into 64 bits.
    if text.isascii() and text.isdigit() and len(text) < 19:
        return int(text)
    return None
