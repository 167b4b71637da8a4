"""
Find fields in the JSON of a reply.

A service may wrap its replies in envelopes. An id or an answer is only read at the top level and in
objects with the name of an envelope: the id of a ``site`` or a ``user`` is not that of the reply.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

# Depth of nested objects in which a field is searched: the reply and the envelopes around it.
LEVELS = 5
# Names of the objects in which services wrap a reply. An envelope may contain another one.
ENVELOPES = ("data", "result", "response", "payload", "body", "item", "record", "attributes")
# Names of envelopes around a chat. The field ``id`` of such an object is not that of a document.
CHAT_ENVELOPES = (
    *("chat", "request", "chat_request"),
    *("answer", "reply", "output", "message"),
)
ALL_ENVELOPES = (*ENVELOPES, "document", *CHAT_ENVELOPES)
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


def reply_objects(
    raw: Any,
    envelopes: tuple[str, ...] = ALL_ENVELOPES,
) -> list[Mapping[str, Any]]:
    """
    Return the JSON object itself, then the objects in its envelopes, level by level.

    :param envelopes: Names of envelopes. Default: all known ones.
    """
    objects: list[Mapping[str, Any]] = []
    level = [raw] if isinstance(raw, dict) else []
    for _ in range(LEVELS):
        if not level:
            break
        objects += level
        inner = []
        for parent in level:
            for name in envelopes:
                value = parent.get(name)
                if isinstance(value, dict):
                    inner.append(value)
        level = inner
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


def document_id_of(raw: Any) -> str | None:
    """Return the first ``document_id``, or else the id of a ``document``, or else of the reply."""
    document_id = first_text(reply_objects(raw), ("document_id",))
    if document_id:
        return document_id
    for json_object in reply_objects(raw):
        document = json_object.get("document")
        if isinstance(document, dict):
            document_id = first_text(reply_objects(document, ENVELOPES), ("id", "uuid"))
            break
    return document_id or first_text(reply_objects(raw, ENVELOPES), ("id", "uuid"))


def is_acknowledgement(word: str) -> bool:
    """Return whether a word only acknowledges the HTTP call."""
    return word.strip().casefold() in ACKNOWLEDGEMENTS
