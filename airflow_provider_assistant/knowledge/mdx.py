"""MDX, which is Markdown with components of JSX, as Markdown."""

from __future__ import annotations

import re
from itertools import islice, pairwise
from textwrap import dedent

from airflow_provider_assistant.knowledge.markdown import masked, notes_of, without_comments
from airflow_provider_assistant.parsing.pages import Note


def names(text: str) -> frozenset[str]:
    """Return the names in a text with blanks between them."""
    return frozenset(text.split())


# Fields that no reader sees: names, addresses and looks.
NOT_SHOWN = names(
    "alias aliases class classname color cover d file href icon id image img key lang layout link logo path permalink "
    "rel slug src srcset style tag target template theme to type url value variant viewbox"
)
# Fields that are the title of what is below them.
TITLES = names("header heading label name question subtitle title")
# One word in lower case, a path or an address.
_IDENTIFIER = re.compile(r"[a-z0-9_./:#?=&%@+~-]*|https?://\S*|[/.#]\S*")

_STRING = r"""(?>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|`(?:[^`\\]|\\.)*`)"""
_BRACES = r"(?>\{[^{}]*\})"
for _ in range(4):
    # With brackets in brackets.
    _BRACES = rf"(?>\{{(?:[^{{}}]|{_BRACES})*\}})"
_ATTRIBUTE = re.compile(rf"\s+(?:([\w:.-]+)(?:\s*=\s*({_STRING}|{_BRACES}))?|{_BRACES})", re.DOTALL)
# A fragment has no name.
_TAG = re.compile(rf"</?(?P<name>[A-Za-z][\w.:-]*|(?=>))(?P<attributes>(?>{_ATTRIBUTE.pattern})*+)\s*/?>", re.DOTALL)
_IMPORT = re.compile(
    r"""^import\s+(?:[\w$*][\w$*,\ ]*)?(?:\{[\w$,\s]*\}\s*)?(?:from\s*)?(?:"[^"\n]+"|'[^'\n]+')[ \t]*;?[ \t]*$""",
    re.MULTILINE,
)
_EXPORT = re.compile(
    r"^export\s+(?:[{*]|default\s+(?:async\b|class\b|function\b|[({\[]|[\w$.]+[ \t]*;?[ \t]*$)"
    r"|(?:async\s+function|class|const|function|let|var)\b\s*\*?\s*[\w$]*\s*(?:[={(:<\[]|extends\b))",
    re.MULTILINE,
)
_BLANK_LINE = re.compile(r"\n[ \t]*(?=\n)|\Z")
# Of one export.
_MOST_PARAGRAPHS = 200
_SPACE = re.compile(r"""\{\s*(["'`])\s*\1\s*\}""")
_ESCAPED = re.compile(r"\\([\\'\"`])")
# A text of several words in an expression.
_PROSE = re.compile(r"""["'`>][^"'`<>]*\w[ ][^"'`<>]*\w[^"'`<>]*["'`<]""")
# Where a component on a line of its own begins or ends. The text between two of these is indented as a whole.
_BORDER = "\0"


def is_shown(name: str, value: str) -> bool:
    """Return whether the value of an attribute or of a field in front matter is text for readers."""
    plain_name = name.lower().replace("-", "").replace("_", "")
    if plain_name in TITLES and plain_name != "name":
        return True
    return plain_name not in NOT_SHOWN and not _IDENTIFIER.fullmatch(value.strip())


def without_jsx(text: str) -> tuple[str, list[Note]]:
    """
    Return MDX as Markdown, and the count of the words that are left out.

    Imports, exports, comments and the tags of components are left out. Attributes that readers see become paragraphs or
    words of their line. Code stays as it is.
    """
    notes: list[Note] = []
    text = text.replace(_BORDER, "\ufffd")
    text = _without(_IMPORT, text, "in an import", notes)
    text = _without(_EXPORT, text, "in an export", notes)
    text, found = without_comments(text, "{/*", "*/}", masked(text, has_indented_code=False))
    notes += found
    parts = [dedent(part).strip("\n") for part in _without_tags(text, notes).split(_BORDER)]
    return "\n\n".join(part for part in parts if part.strip()) + "\n", notes


def _without(pattern: re.Pattern[str], text: str, reason: str, notes: list[Note]) -> str:
    mask = masked(text, has_indented_code=False)
    kept = []
    position = 0
    while found := pattern.search(mask, position):
        end = _end_of_script(text, found.start()) if pattern is _EXPORT else found.end()
        kept.append(text[position : found.start()])
        part = text[found.start() : end]
        notes += notes_of(part, reason, is_expected=not (pattern is _EXPORT and _PROSE.search(part)))
        position = end
    return "".join(kept) + text[position:]


def _end_of_script(text: str, start: int) -> int:
    """Return where an export ends: at a blank line outside of brackets, or the first one if nothing closes them."""
    ends = [found.start() for found in islice(_BLANK_LINE.finditer(text, start), _MOST_PARAGRAPHS)]
    depth = 0
    for before, end in pairwise([start, *ends]):
        part = text[before:end]
        depth += sum(map(part.count, "{[(")) - sum(map(part.count, ")]}"))
        if depth <= 0:
            return end
    return ends[0]


def _without_tags(text: str, notes: list[Note]) -> str:
    mask = masked(text, has_indented_code=False)
    parts = []
    position = 0
    for tag in _TAG.finditer(mask):
        if not _is_component(tag, mask):
            continue
        before = _SPACE.sub(" ", text[position : tag.start()])
        line_start = text.rfind("\n", 0, tag.start()) + 1
        is_in_line = bool(text[line_start : tag.start()].strip())
        parts.append(before if is_in_line else before.rstrip(" \t") + _BORDER)
        for found in _ATTRIBUTE.finditer(text, *tag.span("attributes")):
            name, value = found.groups("")
            shown = _shown(name, value, notes)
            if shown and is_in_line:
                parts.append(f" {' '.join(shown.split())} ")
            elif shown:
                is_title = name.lower() in TITLES and "\n" not in shown
                parts.append(f"**{shown}**{_BORDER}" if is_title else shown + _BORDER)
        position = tag.end()
    return "".join(parts) + _SPACE.sub(" ", text[position:])


def _is_component(tag: re.Match[str], text: str) -> bool:
    name, attributes = tag["name"], tag["attributes"]
    if name[:1].islower() and "." not in name:
        # HTML, unless it has attributes that only JSX knows.
        return "={" in attributes or "className=" in attributes
    # The brackets of `Map<String>` are a type.
    is_type = tag[0] == f"<{name}>" and text[: tag.start()][-1:].isalnum()
    return not is_type


def _shown(name: str, value: str, notes: list[Note]) -> str:
    """Return what readers see of the value of an attribute; count its words if they see nothing."""
    inner = value[1:-1].strip()
    if value.startswith("{"):
        if inner.startswith("<"):
            return _without_tags(inner, notes)
        if not re.fullmatch(_STRING, inner, re.DOTALL):
            notes += notes_of(inner, "in braces", is_expected=not _PROSE.search(inner))
            return ""
        inner = inner[1:-1]
    if not is_shown(name, inner):
        notes += notes_of(inner, "in an attribute of a component", is_expected=True)
        return ""
    return _ESCAPED.sub(r"\1", inner)
