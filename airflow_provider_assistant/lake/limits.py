"""What the paths of limits and usages mean, whose fields the specification does not show."""

from __future__ import annotations

LIMIT_WORDS = ("limit", "limits", "max", "maximum", "quota", "quotas", "allowed")
USED_WORDS = ("used", "usage", "current", "count")
REMAINING_WORDS = ("remaining", "left", "available")
# Part of a limit by word.
PARTS = {
    **dict.fromkeys(LIMIT_WORDS, "limit"),
    **dict.fromkeys(USED_WORDS, "used"),
    **dict.fromkeys(REMAINING_WORDS, "remaining"),
}
# Objects around the limits and the usage.
_ENVELOPES = ("data", "result", "tenant", "plan")


def without_envelopes(metric: str) -> str:
    """Return the path of a metric without the objects around the whole reply."""
    names = metric.split(".")
    while len(names) > 1 and names[0] in _ENVELOPES:
        names = names[1:]
    return ".".join(names)


def limit_of(metric: str) -> tuple[str, str] | None:
    """
    Return the name of a limit and the part of it that a metric is; None if it is neither.

    :param metric: Path in a reply of limits or usage, such as ``limits.documents.used``,
        ``documents_limit``, ``max_documents`` or ``usage.documents``.
    :return: The name, such as ``documents``, and ``limit``, ``used`` or ``remaining``.
    """
    names = without_envelopes(metric).split(".")
    group = PARTS.get(names[0]) if len(names) > 1 else None
    if group is not None:
        names = names[1:]
    part = PARTS.get(names[-1]) if len(names) > 1 else None
    if part is not None:
        return ".".join(names[:-1]), part
    beginning, _, rest = names[-1].partition("_")
    if rest and beginning in PARTS:
        return ".".join([*names[:-1], rest]), PARTS[beginning]
    rest, _, end = names[-1].rpartition("_")
    if rest and end in PARTS:
        return ".".join([*names[:-1], rest]), PARTS[end]
    if group is not None:
        return ".".join(names), group
    return None
