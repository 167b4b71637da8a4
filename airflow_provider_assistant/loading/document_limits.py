"""
What the limits of a tenant say about documents, without I/O.

The specification shows neither the fields nor the values of the limits. The service's documentation names
``reference_documents`` and ``active_documents``; a load creates documents of both kinds. The usage may be in the limits
or in the reply of another route.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any, Final

from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.lake import Metric, flatten
from airflow_provider_assistant.texts import shortened

# What a load creates: each of them may be limited separately.
DOCUMENTS: Final = ("documents", "reference_documents", "active_documents")
# Fields next to each other: the limit, how much of it is used, and how much is left.
LIMIT_FIELDS: Final = ("limit", "max", "maximum", "quota", "allowed")
USED_FIELDS: Final = ("used", "usage", "current", "count")
LEFT_FIELDS: Final = ("remaining", "left", "available")
# Fields of a limit that comes back with time: a load that reaches it waits.
RESET_FIELDS: Final = ("resets_at", "reset_at", "period")
# Objects around the limits and the usage, and objects that have a number for each thing that is limited.
ENVELOPES: Final = ("", "data.", "result.", "tenant.", "plan.", "data.tenant.", "data.plan.")
LIMIT_GROUPS: Final = ("limits.", "quotas.", "quota.")
USED_GROUPS: Final = ("usage.", "used.", "current.")
LEFT_GROUPS: Final = ("remaining.", "left.", "available.")
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
            return f"The tenant may have {self.limit} {things}. Neither its limits nor its usage say how many it has."
        if self.left is None:
            return "The limits do not say how many documents may still be created; limits_field names the field."
        usage = ""
        if self.limit is not None and self.used is not None:
            used_things = "" if self.name == "documents" else f" {things}"
            usage = f" ({self.used} of {self.limit}{used_things} are used)"
        return f"The tenant may create {self.left} more documents{usage}."


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
    found = []
    for name in DOCUMENTS:
        limits = _usual_limits(values, name, usage_values)
        if limits is not None:
            found.append(limits)
    return found


def _values(raw: Any) -> _Values:
    return {value.metric: value for value in flatten(raw)}


def _named_limits(values: _Values, field: str, usage_values: _Values) -> DocumentLimits:
    if field in values:
        # The field is itself the number of documents that are left.
        return DocumentLimits(left=_count(values[field]))
    used = _used_in(usage_values, field.rpartition(".")[2])
    limits = _limits_below(values, field, "documents", used)
    if limits is None:
        present_fields = shortened(", ".join(values), LISTED)
        raise AssistantInputError(
            f"limits_field: the tenant's limits have no {field!r} with a limit. They have {present_fields}",
            field="limits_field",
        )
    return limits


def _usual_limits(values: _Values, name: str, usage_values: _Values) -> DocumentLimits | None:
    """Return the limits of a name at one of the usual places; None if there are none."""
    used = _number_in(values, USED_GROUPS, name, USED_FIELDS) or _used_in(usage_values, name)
    for place in _places((*LIMIT_GROUPS, "")):
        path = f"{place}{name}"
        if _is_reset_regularly(values, path):
            continue
        limits = _limits_below(values, path, name, used)
        if limits is not None:
            return limits
    limit_value = _number_in(values, LIMIT_GROUPS, name, ()) or _max_of(values, name)
    left_value = _number_in(values, LEFT_GROUPS, name, ())
    return _limits_of(limit_value, used, left_value, name)


def _limits_below(values: _Values, path: str, name: str, used: Metric | None) -> DocumentLimits | None:
    """
    Return the limits below a path of the reply; None if it has none.

    :param used: The used amount from another place, if there is none below the path.
    """
    limit_value = _first_value(values, path, LIMIT_FIELDS)
    used_value = _first_value(values, path, USED_FIELDS)
    left_value = _first_value(values, path, LEFT_FIELDS)
    if _count(used_value) is None:
        used_value = used
    return _limits_of(limit_value, used_value, left_value, name)


def _limits_of(
    limit_value: Metric | None, used_value: Metric | None, left_value: Metric | None, name: str
) -> DocumentLimits | None:
    if limit_value is None and left_value is None:
        return None
    limit = _count(limit_value)
    used = _count(used_value)
    left = _count(left_value)
    if limit_value is not None and not limit:
        # A limit that is null, 0, negative or text means "no limit".
        return DocumentLimits(used=used, name=name)
    if left is None and limit is not None and used is not None:
        left = max(0, limit - used)
    return DocumentLimits(left=left, limit=limit, used=used, name=name)


def _used_in(usage_values: _Values, name: str) -> Metric | None:
    """Return how many documents the reply of the usage says that there are."""
    groups = (*USED_GROUPS, *LIMIT_GROUPS, "")
    return _number_in(usage_values, groups, name, (*USED_FIELDS, "total"))


def _number_in(values: _Values, groups: tuple[str, ...], name: str, fields: tuple[str, ...]) -> Metric | None:
    """
    Return the value of a name in one of these groups: the value itself, or one of its fields.

    :param fields: Names of the fields, in order.
    """
    for place in _places(groups):
        path = f"{place}{name}"
        if _is_reset_regularly(values, path):
            continue
        value = values.get(path) or _first_value(values, path, fields)
        if value is not None:
            return value
    return None


def _max_of(values: _Values, name: str) -> Metric | None:
    return _number_in(values, (*LIMIT_GROUPS, ""), f"max_{name}", ())


def _places(groups: tuple[str, ...]) -> Iterator[str]:
    for envelope, group in product(ENVELOPES, groups):
        yield envelope + group


def _is_reset_regularly(values: _Values, path: str) -> bool:
    reset_value = _first_value(values, path, RESET_FIELDS)
    return reset_value is not None and reset_value.type != "null"


def _first_value(values: _Values, path: str, names: tuple[str, ...]) -> Metric | None:
    """Return the first of these fields below a path, such as ``documents.limit`` or ``documents_limit``."""
    for name in names:
        for separator in (".", "_"):
            value = values.get(f"{path}{separator}{name}")
            if value is not None:
                return value
    return None


def _count(value: Metric | None) -> int | None:
    """Return a whole number of documents; None if a field has none."""
    if value is None or value.type not in {"number", "string"}:
        return None
    text = value.text.strip().removesuffix(".0")
    # A number of 19 or more digits may not fit into 64 bits.
    if text.isascii() and text.isdigit() and len(text) < 19:
        return int(text)
    return None
