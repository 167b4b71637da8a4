"""
Find fields in the JSON of a reply.

A service may wrap its replies in envelopes, so a field is searched for in all nested objects, level
by level.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

# Depth of nested objects in which a field is searched: the reply and the envelopes around it.
LEVELS = 5
# Words with which an envelope acknowledges the HTTP call: neither an answer nor the status of a
# chat request.
ACKNOWLEDGEMENTS = frozenset({"ok", "success", "successful", "true"})


def nested_objects(raw: Any) -> list[Mapping[str, Any]]:
    """Return the JSON object itself, then the objects nested in it, level by level."""
    objects: list[Mapping[str, Any]] = []
    # Decoded JSON objects are dicts. To check for any Mapping would take five times as long, for
    # every value.
    level = [raw] if isinstance(raw, dict) else []
    for _ in range(LEVELS):
        if not level:
            break
        objects += level
        # A comprehension, because the loads and the polls do this for every reply.
        level = [value for parent in level for value in parent.values() if isinstance(value, dict)]
    return objects


def text_of(value: Any) -> str | None:
    """Return a JSON string or integer as text, because ids may be numbers; otherwise None."""
    if isinstance(value, str):
        return value or None
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return None


def first_text(objects: Sequence[Mapping[str, Any]], names: tuple[str, ...]) -> str | None:
    """Return the first text of these fields, ordered by name as given, and then by level."""
    # Loops, because every row of a load needs its id, and nested generators take twice as long.
    for name in names:
        for json_object in objects:
            if name in json_object:
                text = text_of(json_object[name])
                if text:
                    return text
    return None


def document_id_of(objects: Sequence[Mapping[str, Any]]) -> str | None:
    """Return the first ``document_id``, or else the id of a ``document``, or else of any object."""
    document_id = first_text(objects, ("document_id",))
    if document_id:
        return document_id
    for json_object in objects:
        document = json_object.get("document")
        if isinstance(document, dict):
            document_id = first_text(nested_objects(document), ("id", "uuid"))
            break
    return document_id or first_text(objects, ("id", "uuid"))


def is_acknowledgement(word: str) -> bool:
    """Return whether a word only acknowledges the HTTP call."""
    return word.strip().casefold() in ACKNOWLEDGEMENTS
