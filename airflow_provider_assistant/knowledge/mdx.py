"""MDX, which is Markdown with components of JSX, as Markdown."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from textwrap import dedent

from airflow_provider_assistant.knowledge.markdown import Spans, code_of_mdx

# A component begins with a capital letter, and a fragment has no name. Other tags are those of HTML.
_TAG = re.compile(r"</?([A-Za-z][\w.:-]*|(?=>))")
_SCRIPT = re.compile(
    r"""(?:import\s+(?:["'{*]|[^\n]*?\bfrom\b)|export\s+(?:async|class|const|default|function|let|var|[{*]))"""
)
_TOKEN = re.compile(r"""[{}<>]|"[^"]*"|'[^'\n]*'|`[^`]*`""")
# Attributes that readers see.
_SHOWN = re.compile(
    r"""\b(?:answer|caption|description|header|heading|label|question|subtitle|summary|title)\s*[:=]\s*"""
    r"""\{?\s*(?:"([^"]*)"|'([^']*)'|`([^`]*)`)"""
)
_SPACE = re.compile(r"""\{\s*(["'`])\s*\1\s*\}""")
# Characters of a tag, and pairs of brackets in it that are open at once.
_LONGEST_TAG, _DEEPEST = 5_000, 20
# Where a component on a line of its own begins or ends. The text between two of these is indented as a whole.
_BORDER = "\0"


def without_jsx(mdx: str) -> str:
    """
    Return MDX without imports, exports and the tags of components.

    The text between the tags stays, and the titles and labels among their attributes become paragraphs. Code stays as
    it is.
    """
    text = mdx.replace(_BORDER, "\ufffd")
    code = Spans(code_of_mdx(text))
    text = "".join(_without_scripts(text, code))
    text = "".join(_without_tags(text, code))
    parts = [dedent(part).strip("\n") for part in text.split(_BORDER)]
    return "\n\n".join(part for part in parts if part.strip()) + "\n"


def _without_scripts(text: str, code: Spans) -> Iterator[str]:
    """
    Yield the lines, with spaces in those that are an import or export, so that all places stay.

    An import or export goes on to a blank line outside of brackets.
    """
    position = 0
    is_script = False
    is_after_blank = True
    depth = 0
    for line in text.splitlines(keepends=True):
        if not line.strip() and depth <= 0:
            is_script = False
        elif (is_after_blank or is_script) and _SCRIPT.match(line) and not code.at(position):
            is_script = True
            depth = 0
        if is_script:
            depth += sum(line.count(bracket) for bracket in "{[(")
            depth -= sum(line.count(bracket) for bracket in ")]}")
            yield " " * (len(line) - 1) + "\n"
        else:
            yield line
        is_after_blank = not line.strip()
        position += len(line)


def _without_tags(text: str, code: Spans) -> Iterator[str]:
    end_of_last = 0
    position = 0
    # Names of HTML tags whose end is to be removed, too.
    open_names: Counter[str] = Counter()
    while tag := _TAG.search(text, position):
        position = tag.end()
        end = None
        if not code.at(tag.start()):
            end = _end_of_tag(text, tag.end())
        if end is None:
            continue
        attributes = text[tag.end() : end]
        if tag[0].startswith("</") and open_names[tag[1]]:
            open_names[tag[1]] -= 1
        elif not _is_component(tag[1], attributes):
            continue
        elif tag[1][:1].islower() and not attributes.endswith("/>"):
            open_names[tag[1]] += 1
        before = text[end_of_last : tag.start()]
        shown = [" ".join("".join(found.groups("")).split()) for found in _SHOWN.finditer(attributes)]
        line_start = text.rfind("\n", 0, tag.start()) + 1
        if text[line_start : tag.start()].strip():
            yield _SPACE.sub(" ", before)
            yield " ".join(["", *shown, ""]) if shown else ""
        else:
            yield _SPACE.sub(" ", before.rstrip(" \t"))
            yield from (f"{_BORDER}**{title}**" for title in shown if title)
            yield _BORDER
        end_of_last = position = end
    yield _SPACE.sub(" ", text[end_of_last:])


def _end_of_tag(text: str, start: int) -> int | None:
    depth = 0
    for token in _TOKEN.finditer(text, start, start + _LONGEST_TAG):
        if token[0] == "{":
            depth += 1
        elif token[0] == "}":
            depth -= 1
        elif token[0] == ">" and depth <= 0:
            return token.end()
        if depth > _DEEPEST or (token[0] == "<" and depth <= 0):
            return None
    return None


def _is_component(name: str, attributes: str) -> bool:
    is_html = name[:1].islower() and "." not in name
    return not is_html or "={" in attributes or "className=" in attributes
