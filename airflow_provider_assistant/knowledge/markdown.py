"""Rows of documents from a folder of Markdown and text files, such as a Git checkout."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import quote, urljoin

from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.knowledge.documents import DocumentRow, first_text
from airflow_provider_assistant.knowledge.headings import HEADING, heading_text, outside_code
from airflow_provider_assistant.storage.paths import StoragePath, storage_files

SUFFIXES = (".md", ".markdown", ".txt")
# Bytes of a file, and characters of its front matter. People write less.
LARGEST_FILE, LONGEST_FRONT_MATTER = 10_000_000, 20_000
FRONT_MATTER_END = re.compile(r"^(?:---|\.\.\.)[ \t]*$", re.MULTILINE)
FIRST_FIELD = re.compile(r"---[ \t]*\n[ \t]*(?:#.*\n)*[\w-]+[ \t]*:")
# The target of a link or an image: inline, and of a reference on a line of its own.
LINKS = (re.compile(r"(\]\([ \t]*<?)([^()<>\s]+)"), re.compile(r"(\n {0,3}\[[^\]\n]+\]:[ \t]*<?)([^<>\s]+)"))
URL, DATE = ("url", "canonical_url", "permalink"), ("date", "updated", "lastmod", "last_modified")
YES = frozenset({"true", "yes", "on", "1"})


def markdown_documents(
    source: Any, *, base_url: str | None = None, allowed_root: str | None = None
) -> Iterator[DocumentRow]:
    """
    Read Markdown and text files, one after the other.

    Front matter gives title, category, date and URL; a file with ``draft: true`` is skipped. Otherwise the title is the
    first heading, or the name of the file. The key is the path below the folder. Files and folders whose names start
    with a dot or an underscore are skipped.

    :param source: Folder, glob, path or object storage URL, or a list of these. Files other than ``.md``,
        ``.markdown`` and ``.txt`` are skipped.
    :param base_url: Address of the folder on the web, with a slash at its end. A document has the address of its path
        below it, unless front matter has one. Relative links become absolute. Default: None, only documents whose front
        matter has an absolute address have one.
    :param allowed_root: Folder that must contain all files after symbolic links are resolved. Default: the source, if
        it is one folder.
    :return: The documents.
    :raises AssistantInputError: There is no such file, a file is outside ``allowed_root``, is larger than 10 MB or not
        UTF-8, or its front matter is longer than 20,000 characters or not valid YAML. The message names the file.
    """
    if allowed_root is None and not isinstance(source, list | tuple) and "*" not in str(source):
        allowed_root = str(source)
    for name, path in storage_files(source, allowed_root):
        if PurePosixPath(name).suffix.lower() in SUFFIXES:
            fields, text = _front_matter(_read(path), path)
            if fields.get("draft", "").lower() not in YES and text.strip():
                yield _row(name, fields, text, base_url)


def _row(name: str, fields: dict[str, str], text: str, base_url: str | None) -> DocumentRow:
    url = first_text(fields, URL)
    if base_url:
        url = _joined(base_url, url or quote(name))
    return DocumentRow(
        key=name,
        parent=name,
        title=first_text(fields, ("title",)) or _first_heading(text) or PurePosixPath(name).stem,
        content=_absolute_links(text, url) if url and "://" in url else text,
        category=first_text(fields, ("category",)),
        url=url if url and "://" in url else None,
        date=first_text(fields, DATE),
    )


def _read(path: StoragePath) -> str:
    with path.open("rb") as file:
        content: bytes = file.read(LARGEST_FILE + 1)
    if len(content) > LARGEST_FILE:
        raise AssistantInputError(
            f"file {str(path)!r} is larger than {LARGEST_FILE:,} bytes. Split it, or leave it out", field="source"
        )
    try:
        return content.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise AssistantInputError(
            f"file {str(path)!r} is not UTF-8 at byte {error.start}. Convert it, or leave it out", field="source"
        ) from None


def _front_matter(text: str, path: StoragePath) -> tuple[dict[str, str], str]:
    """Return the fields of the front matter, and the text after it."""
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


def _first_heading(text: str) -> str | None:
    """Return the first heading, if nothing but blank lines is above it."""
    heading = HEADING.match(f"\n{text.lstrip()}")
    return heading_text(heading[2] or "") or None if heading else None


def _absolute_links(text: str, url: str) -> str:
    def absolute(link: re.Match[str]) -> str:
        return f"{link[1]}{_joined(url, link[2])}"

    text = f"\n{text}"
    parts, at = [], 0
    for start, end in outside_code(text):
        part = text[start:end]
        for links in LINKS:
            part = links.sub(absolute, part)
        parts += [text[at:start], part]
        at = end
    return "".join([*parts, text[at:]])[1:]


def _joined(base: str, target: str) -> str:
    try:
        return urljoin(base, target)
    except ValueError:  # such as "http://[", which is no address
        return target
