"""The fields that a text file may have before its text, in YAML, TOML, JSON or as ``Name: value``."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, TypeAlias

# The items of a list are a list, whatever is in them.
Fields: TypeAlias = dict[str, str | list[str]]

# Characters. People write less.
LONGEST_FRONT_MATTER = 20_000
# Blank lines and comments may be above it.
_ABOVE = re.compile(r"(?:\s|<!--(?>.*?-->))*+", re.DOTALL)
# A file may also begin with a rule, which is a line of --- as well. Front matter begins with a field, or is empty.
_FIELD = r"""[\w. -]{1,100}:\s|"[^"\n]{1,100}" *:|'[^'\n]{1,100}' *:|\{[\s\w"']"""
_YAML_START = re.compile(rf"---(?:ya?ml)?[ \t]*\n(?=(?:[ \t]*(?:#.*)?\n)*(?:{_FIELD}|---[ \t]*$))", re.MULTILINE)
_YAML_END = re.compile(r"^(?:---|\.\.\.)[ \t]*$", re.MULTILINE)
_TOML_START = re.compile(r"(?:\+\+\+|---toml)[ \t]*\n")
_TOML_END = re.compile(r"^(?:\+\+\+|---)[ \t]*$", re.MULTILINE)
_JSON_START = re.compile(r"(?:;;;|---json)[ \t]*\n")
_JSON_END = re.compile(r"^(?:;;;|---)[ \t]*$", re.MULTILINE)
# The first lines of a page for Pelican or MkDocs, up to a blank line. A value goes on in lines that are indented.
_LINES = re.compile(r"(?:[A-Za-z][\w -]{0,40}:(?:[ \t].*)?\n(?:[ \t]+\S.*\n)*)+(?=[ \t]*\n|\Z)")
_SEPARATORS = re.compile(r"[\s_-]")
# What else begins like front matter has none of these fields, and its first name is that of no program.
_KNOWN = frozenset(("category", "date", "draft", "published", "slug", "status", "tags", "title"))
_PROGRAM_NAME = re.compile(r"(?:\s|#.*\n)*\{?\s*[\"']?[a-z][\w-]*[\"']? *[:=]")


def split_front_matter(text: str) -> tuple[Fields, str]:
    """
    Return the fields of the front matter, and the text after it.

    :param text: With line breaks of one character.
    :return: The fields by their name in lower case without spaces, ``-`` and ``_``. The name of a field in a
        mapping follows that of the mapping and a dot.
    :raises ValueError: The front matter is too long or not valid. The message continues "file 'x' …".
    """
    start = _end_of(_ABOVE, text)
    if text.startswith("{", start):
        return _fields_of_object(text, start)
    for begin, finish, parse, language in (
        (_YAML_START, _YAML_END, _yaml_fields, "YAML"),
        (_TOML_START, _TOML_END, _toml_fields, "TOML"),
        (_JSON_START, _JSON_END, _json_fields, "JSON"),
    ):
        opening = begin.match(text, start)
        if not opening:
            continue
        end = finish.search(text, opening.end(), opening.end() + LONGEST_FRONT_MATTER)
        if not end:
            raise ValueError(f"has front matter that does not end within {LONGEST_FRONT_MATTER:,} characters")
        front_matter = text[opening.end() : end.start()]
        try:
            fields = parse(front_matter)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"has front matter that is not valid {language}: {error}") from None
        # Below other lines, a rule with a colon in the next line is more likely.
        is_known = _PROGRAM_NAME.match(front_matter) or not _KNOWN.isdisjoint(fields)
        if start == 0 or is_known:
            return fields, text[end.end() :]
    return _fields_of_lines(text, start)


def _end_of(pattern: re.Pattern[str], text: str) -> int:
    found = pattern.match(text)
    return found.end() if found else 0


def _fields_of_object(text: str, start: int) -> tuple[Fields, str]:
    try:
        value, end = json.JSONDecoder().raw_decode(text[start : start + LONGEST_FRONT_MATTER])
        fields = _flat(value)
    except (ValueError, RecursionError):  # a text that begins with a bracket
        return {}, text
    if _KNOWN.isdisjoint(fields):
        return {}, text
    return fields, text[start + end :]


def _fields_of_lines(text: str, start: int) -> tuple[Fields, str]:
    lines = _LINES.match(text[start : start + LONGEST_FRONT_MATTER])
    if not lines:
        return {}, text
    fields: Fields = {}
    for line in re.split(r"\n(?![ \t])", lines[0].strip()):
        name, _, value = line.partition(":")
        fields[_plain(name)] = " ".join(value.split())
    # One line with a colon may be a sentence.
    if len(fields.keys() & _KNOWN) < 2:
        return {}, text
    return fields, text[start + lines.end() :]


def _plain(name: str) -> str:
    return _SEPARATORS.sub("", name).lower()


def _json_fields(front_matter: str) -> Fields:
    return _flat(json.loads(front_matter))


def _toml_fields(front_matter: str) -> Fields:
    return _flat(tomllib.loads(front_matter))


def _flat(value: dict[str, Any]) -> Fields:
    fields: Fields = {}
    for path, text, is_item in _texts(value, "", False):
        _add(fields, path, text, is_item)
    return fields


def _texts(value: Any, path: str, is_item: bool) -> Iterator[tuple[str, str, bool]]:
    """Yield the texts in a value: the path of their names, the text, and whether it is in a list."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _texts(inner, _joined(path, name), is_item)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner, path, True)
    elif isinstance(value, bool):
        yield path, str(value).lower(), is_item
    elif isinstance(value, date | datetime):
        yield path, value.isoformat(), is_item
    elif value is not None:
        yield path, str(value), is_item


def _add(fields: Fields, path: str, text: str, is_item: bool) -> None:
    if not is_item:
        fields[path] = text
        return
    items = fields.setdefault(path, [])
    if isinstance(items, list):
        items.append(text)


def _joined(path: str, name: str) -> str:
    return f"{path}.{_plain(name)}".strip(".")


@dataclass
class _Collection:
    """
    A mapping or a list that is being read.

    :ivar name: Name of the value that comes next in a mapping; None if a name comes next.
    :ivar is_name: Whether the collection itself is a name in a mapping, as in ``{{ page.title }}: 1``.
    """

    path: str
    is_mapping: bool
    is_in_list: bool
    is_name: bool = False
    name: str | None = None


def _yaml_fields(front_matter: str) -> Fields:
    """
    Return the fields.

    Only the parser of YAML is used. Values stay text, because a title may look like a number, and nothing is built of
    them, because the C loader ends the process if lists are nested too deeply.
    """
    import yaml

    fields: Fields = {}
    text_by_anchor: dict[str, str] = {}
    # The outermost one first.
    collections: list[_Collection] = []
    try:
        for event in yaml.parse(front_matter, getattr(yaml, "CBaseLoader", yaml.BaseLoader)):
            if isinstance(event, yaml.CollectionEndEvent):
                ended = collections.pop()
                if collections:
                    collections[-1].name = "?" if ended.is_name else None
            elif isinstance(event, yaml.NodeEvent):
                _read_node(event, collections, fields, text_by_anchor)
    except yaml.YAMLError as error:
        raise ValueError(getattr(error, "problem", error)) from None
    return fields


def _read_node(
    event: Any,
    collections: list[_Collection],
    fields: Fields,
    text_by_anchor: dict[str, str],
) -> None:
    import yaml

    # What is around the whole has no name.
    parent = collections[-1] if collections else _Collection("", is_mapping=False, is_in_list=False)
    is_name = parent.is_mapping and parent.name is None
    is_in_list = parent.is_in_list or bool(collections and not parent.is_mapping)
    path = _joined(parent.path, parent.name or "")
    if isinstance(event, yaml.CollectionStartEvent):
        is_mapping = isinstance(event, yaml.MappingStartEvent)
        collections.append(_Collection(path, is_mapping, is_in_list, is_name))
        return
    if isinstance(event, yaml.ScalarEvent):
        text = event.value
        if event.anchor:
            text_by_anchor[event.anchor] = text
    else:
        # An alias; that of a mapping or list has no text.
        text = text_by_anchor.get(event.anchor, "")
    if is_name:
        parent.name = text
    elif collections:
        _add(fields, path, text, is_in_list)
        parent.name = None
