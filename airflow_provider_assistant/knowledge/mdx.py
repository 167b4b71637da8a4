"""MDX, which is Markdown with components of JSX, as Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from textwrap import dedent

from airflow_provider_assistant.knowledge.markdown import masked, notes_of
from airflow_provider_assistant.parsing.pages import Note

# Fields that no reader sees: names, addresses and looks.
NOT_SHOWN = frozenset(
    "alias aliases class classname color cover d file href href2 icon id image img key lang layout link logo path "
    "permalink rel slug src srcset style tag tags target template theme to type url value variant viewbox".split()
)
# Fields that are the title of what is below them.
TITLES = frozenset("header heading label name question subtitle summary title".split())
# One word in lower case, a path or an address.
_IDENTIFIER = re.compile(r"[a-z0-9_./:#?=&%@+~-]*|https?://\S*|[/.#]\S*")

_QUOTED = r'"(?:[^"\\]|\\.)*"|(?<!\w)\'(?:[^\'\\\n]|\\.)*\'|`(?:[^`\\]|\\.)*`'
_STRING = re.compile(_QUOTED, re.DOTALL)
_TOKEN = re.compile(rf"[{{}}<>]|{_QUOTED}", re.DOTALL)
_IMPORT = re.compile(r"^import\s+(?:[\w$*{][\w$*{},\s]{0,5000}\bfrom\s*|[\w$*{][\w$*{},\s]{0,5000}\}\s*from\s*)?"
                     r"(?:\"[^\"\n]+\"|'[^'\n]+')[ \t]*;?[ \t]*$", re.MULTILINE)  # fmt: skip
_EXPORT = re.compile(
    r"^export\s+(?:[{*]|default\s+(?:async\b|class\b|function\b|[({\[]|[\w$.]+[ \t]*;?[ \t]*$)"
    r"|(?:async\s+function|class|const|function|let|var)\b\s*\*?\s*[\w$]*\s*(?:[={(:<\[]|extends\b))",
    re.MULTILINE,
)
_SCRIPT_TOKEN = re.compile(rf"[{{}}()\[\]]|\n[ \t]*(?:\n|\Z)|{_QUOTED}", re.DOTALL)
_COMMENT = re.compile(r"\{/\*.*?\*/\s*\}", re.DOTALL)
_SPACE = re.compile(r"""\{\s*(["'`])\s*\1\s*\}""")
# A component begins with a capital letter, and a fragment has no name.
_TAG = re.compile(r"</?([A-Za-z][\w.:-]*|(?=>))")
_FIELD_NAME = re.compile(r"([\w:.-]+)\s*=\s*\Z")
_ESCAPED = re.compile(r"\\([\\'\"`])")
# A text of several words in an expression.
_PROSE = re.compile(r"""["'`>][^"'`<>]*\w[ ][^"'`<>]*\w[^"'`<>]*["'`<]""")
# Tags that never end, of one text. Each is searched for its end.
_MOST_OPEN_TAGS = 100
_DEEPEST = 50
# Where a component on a line of its own begins or ends. The text between two of these is indented as a whole.
_BORDER = "\0"


def is_shown(name: str, value: str) -> bool:
    """Return whether the value of an attribute or of a field in front matter is text for readers."""
    plain_name = name.lower().replace("-", "").replace("_", "")
    return plain_name not in NOT_SHOWN and not _IDENTIFIER.fullmatch(value.strip())


def without_jsx(text: str) -> tuple[str, list[Note]]:
    """
    Return MDX as Markdown, and the count of the words that are left out.

    Imports, exports, comments and the tags of components are left out. Attributes that readers see become paragraphs or
    words of their line. Code stays as it is.
    """
    notes: list[Note] = []
    text = text.replace(_BORDER, "\ufffd")
    for pattern, reason, is_expected in (
        (_IMPORT, "in an import", True),
        (_EXPORT, "in an export", False),
        (_COMMENT, "in a comment", True),
    ):
        text = _without(text, pattern, reason, notes, is_expected=is_expected)
    text = "".join(_without_tags(text, notes))
    parts = [dedent(part).strip("\n") for part in text.split(_BORDER)]
    return "\n\n".join(part for part in parts if part.strip()) + "\n", notes


def _without(text: str, pattern: re.Pattern[str], reason: str, notes: list[Note], *, is_expected: bool) -> str:
    mask = masked(text, has_indented_code=False)
    kept = []
    position = 0
    while found := pattern.search(mask, position):
        end = _end_of_script(text, found.start()) if pattern is _EXPORT else found.end()
        kept.append(text[position : found.start()])
        notes += notes_of(text[found.start() : end], reason, is_expected=is_expected)
        position = end
    return "".join(kept) + text[position:]


def _end_of_script(text: str, start: int) -> int:
    """Return where an export ends: at a blank line outside of brackets; if none closes them, at a blank line."""
    first_blank_line = len(text)
    depth = 0
    for token in _SCRIPT_TOKEN.finditer(text, start):
        mark = token[0]
        if mark.startswith("\n"):
            first_blank_line = min(first_blank_line, token.start())
            if depth <= 0:
                return token.start()
        elif len(mark) == 1:
            depth += 1 if mark in "{[(" else -1
    return len(text) if depth <= 0 else first_blank_line


def _without_tags(text: str, notes: list[Note]) -> Iterator[str]:
    mask = masked(text, has_indented_code=False)
    position = end_of_last = 0
    open_tags = 0
    while open_tags < _MOST_OPEN_TAGS and (tag := _TAG.search(mask, position)):
        position = tag.end()
        attributes = _attributes(text, tag.end())
        if attributes is None:
            open_tags += 1
            continue
        end = attributes.end
        if not _is_component(text, tag, end):
            continue
        before = _SPACE.sub(" ", text[end_of_last : tag.start()])
        line_start = text.rfind("\n", 0, tag.start()) + 1
        is_in_line = bool(text[line_start : tag.start()].strip())
        yield before if is_in_line else before.rstrip(" \t") + _BORDER
        for name, value in attributes.values:
            shown = _shown(name, value, notes)
            if shown and is_in_line:
                yield f" {' '.join(shown.split())} "
            elif shown:
                yield f"**{shown}**{_BORDER}" if name.lower() in TITLES and "\n" not in shown else shown + _BORDER
        end_of_last = position = end
    yield _SPACE.sub(" ", text[end_of_last:])


def _is_component(text: str, tag: re.Match[str], end: int) -> bool:
    attributes = text[tag.end() : end]
    if tag[1][:1].islower() and "." not in tag[1]:
        # HTML, unless it has attributes that only JSX knows.
        return "={" in attributes or "className=" in attributes
    # The brackets of `Map<String>` are a type.
    is_type = attributes == ">" and not tag[0].startswith("</") and text[: tag.start()][-1:].isalnum()
    return not is_type


@dataclass
class _Attributes:
    """
    The attributes of a tag.

    :param end: Where the tag ends.
    :param values: Name and value of each. A value is between quotes or braces.
    """

    end: int
    values: list[tuple[str, str]]


def _attributes(text: str, start: int) -> _Attributes | None:
    """Return the attributes of the tag whose name ends here; None if it is not a tag."""
    values = []
    depth = 0
    opening = start
    for token in _TOKEN.finditer(text, start):
        mark = token[0]
        if depth == 0 and mark != "}":
            opening = token.start()
        if mark == "{":
            depth += 1
        elif mark == "}":
            depth -= 1
        elif depth == 0 and mark == ">":
            return _Attributes(token.end(), values)
        if depth < 0 or depth > _DEEPEST or (depth == 0 and mark == "<"):
            return None
        if depth == 0:
            name = _FIELD_NAME.search(text, max(start, opening - 100), opening)
            values.append((name[1] if name else "", text[opening : token.end()]))
    return None


def _shown(name: str, value: str, notes: list[Note]) -> str:
    """Return what readers see of the value of an attribute; count its words if they see nothing."""
    inner = value[1:-1].strip()
    if value.startswith("{"):
        if inner.startswith("<"):
            return "".join(_without_tags(inner, notes))
        if not _STRING.fullmatch(inner):
            notes += notes_of(inner, "in braces", is_expected=not _PROSE.search(inner))
            return ""
        inner = inner[1:-1]
    if not is_shown(name, inner):
        notes += notes_of(inner, "in an attribute of a component", is_expected=True)
        return ""
    return _ESCAPED.sub(r"\1", inner)
