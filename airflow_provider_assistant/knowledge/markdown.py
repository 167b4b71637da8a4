"""Markdown: front matter, first heading and links."""

from __future__ import annotations

import re
from urllib.parse import urljoin

from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.knowledge.headings import HEADING, heading_text, outside_code
from airflow_provider_assistant.storage.paths import StoragePath

# Characters. People write less.
LONGEST_FRONT_MATTER = 20_000
FRONT_MATTER_END = re.compile(r"^(?:---|\.\.\.)[ \t]*$", re.MULTILINE)
FIRST_FIELD = re.compile(r"---[ \t]*\n[ \t]*(?:#.*\n)*[\w-]+[ \t]*:")
# The target of a link or an image: inline, and of a reference on a line of its own.
LINKS = (re.compile(r"(\]\([ \t]*<?)([^()<>\s]+)"), re.compile(r"(\n {0,3}\[[^\]\n]+\]:[ \t]*<?)([^<>\s]+)"))


def parse_markdown(content: bytes, path: StoragePath) -> tuple[dict[str, str], str]:
    """
    Return the fields of the front matter, and the text after it.

    :param content: The file.
    :param path: Its path, for messages.
    :raises AssistantInputError: The file is not UTF-8, or its front matter is too long or not valid YAML.
    """
    try:
        text = content.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise AssistantInputError(
            f"file {str(path)!r} is not UTF-8 at byte {error.start}. Convert it, or leave it out", field="source"
        ) from None
    return _split(text, path)


def _split(text: str, path: StoragePath) -> tuple[dict[str, str], str]:
    if not FIRST_FIELD.match(text):
        return {}, text
    begin = text.index("\n") + 1
    end = FRONT_MATTER_END.search(text, begin, begin + LONGEST_FRONT_MATTER)
    if not end:
        raise AssistantInputError(
            f"file {str(path)!r} has front matter that does not end within {LONGEST_FRONT_MATTER:,} characters. End it "
            "with a line of ---",
            field="source",
        )
    return _fields(text[begin : end.start()], path), text[end.end() :]


def _fields(front_matter: str, path: StoragePath) -> dict[str, str]:
    """
    Return the fields of front matter whose value is a text.

    Only the parser of YAML is used. Values stay text, because a title may look like a number, and nothing is nested,
    because the C loader ends the process if lists are nested too deeply.
    """
    import yaml

    fields: dict[str, str] = {}
    depth, name = 0, None
    try:
        for event in yaml.parse(front_matter, getattr(yaml, "CBaseLoader", yaml.BaseLoader)):
            if isinstance(event, yaml.CollectionStartEvent):
                depth += 1
            elif isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
                name = None
            elif isinstance(event, yaml.NodeEvent) and depth == 1:
                value = event.value if isinstance(event, yaml.ScalarEvent) else ""
                if name is None:
                    name = value
                else:
                    fields[name], name = value, None
    except yaml.YAMLError as error:
        raise AssistantInputError(
            f"file {str(path)!r} has front matter that is not valid YAML: {getattr(error, 'problem', error)}. Correct "
            "it, or leave the file out",
            field="source",
        ) from None
    return fields


def first_heading(text: str) -> str | None:
    """Return the first heading of a Markdown text, if nothing but blank lines is above it."""
    heading = HEADING.match(f"\n{text.lstrip()}")
    return heading_text(heading[2] or "") or None if heading else None


def absolute_links(text: str, url: str) -> str:
    """
    Return a Markdown text whose links and images have absolute addresses.

    :param text: The text.
    :param url: Its own address.
    """

    def absolute(link: re.Match[str]) -> str:
        return f"{link[1]}{joined(url, link[2])}"

    text = f"\n{text}"
    parts, at = [], 0
    for start, end in outside_code(text):
        part = text[start:end]
        for links in LINKS:
            part = links.sub(absolute, part)
        parts += [text[at:start], part]
        at = end
    return "".join([*parts, text[at:]])[1:]


def joined(base: str, target: str) -> str:
    """Return the absolute address of a target; the target itself if it is not an address."""
    try:
        return urljoin(base, target)
    except ValueError:  # such as "http://[", which is no address
        return target
