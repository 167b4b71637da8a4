"""Uploaded files: supported types, and extraction of their text."""

from __future__ import annotations

import csv
import io
from html.parser import HTMLParser
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from pydantic_core import from_json

from airflow_provider_assistant.sandbox.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Iterator

SUPPORTED = (".txt", ".md", ".html", ".csv", ".json")


class _Text(HTMLParser):
    """Extract the visible text of an HTML page."""

    _HIDDEN = frozenset({"script", "style", "template", "head"})
    _BLOCKS = frozenset({"p", "br", "li", "tr", "div", "h1", "h2", "h3"})

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []
        self._open_hidden_tags = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002
        if tag in self._HIDDEN:
            self._open_hidden_tags += 1
        separator = " "
        if tag in self._BLOCKS:
            separator = "\n"
        self.parts.append(separator)

    def handle_endtag(self, tag: str) -> None:
        # A page may close a tag that it has not opened.
        if tag in self._HIDDEN and self._open_hidden_tags > 0:
            self._open_hidden_tags -= 1

    def handle_data(self, data: str) -> None:
        if not self._open_hidden_tags:
            self.parts.append(data)


def _text_of_html(text: str) -> str:
    page = _Text()
    page.feed(text)
    page.close()
    lines = "".join(page.parts).splitlines()
    single_spaced = [" ".join(line.split()) for line in lines]
    return "\n".join(line for line in single_spaced if line)


def _text_of_csv(text: str) -> str:
    rows = list(csv.reader(io.StringIO(text, newline="")))
    if not rows:
        return ""
    header, *body = rows
    if not body:
        return ", ".join(header)
    lines = []
    for row in body:
        named_cells = [f"{name}: {cell}" for name, cell in zip(header, row, strict=False)]
        lines.append("; ".join(named_cells))
    return "\n".join(lines)


def _json_lines(value: Any, path: str = "") -> Iterator[str]:
    if isinstance(value, dict):
        for name, inner_value in value.items():
            yield from _json_lines(inner_value, f"{path} {name}".strip())
    elif isinstance(value, list):
        for inner_value in value:
            yield from _json_lines(inner_value, path)
    elif path:
        yield f"{path}: {value}"
    else:
        yield str(value)


def _text_of_json(text: str) -> str:
    return "\n".join(_json_lines(from_json(text)))


# The text of a file of another type is used as it is.
_READER_BY_SUFFIX = {".html": _text_of_html, ".csv": _text_of_csv, ".json": _text_of_json}


def read_file(filename: str, content: bytes) -> tuple[str, str]:
    """Return an uploaded file's name without directories, and its text."""
    name = PurePosixPath(filename.replace("\\", "/")).name
    suffix = PurePosixPath(name).suffix.lower()
    if suffix not in SUPPORTED:
        known = ", ".join(SUPPORTED)
        raise ApiError(
            400,
            f"Files of this type are not supported; supported are {known}.",
            code="unsupported_file_type",
            field="file",
        )
    try:
        text = content.decode("utf-8-sig")
        if suffix in _READER_BY_SUFFIX:
            read = _READER_BY_SUFFIX[suffix]
            text = read(text)
        text.encode()  # a lone surrogate such as \ud800 in JSON cannot be encoded
    except (ValueError, AssertionError, csv.Error) as error:
        expected = f"valid {suffix[1:].upper()}"
        if isinstance(error, UnicodeError):
            expected = "UTF-8 text"
        message = f"The file is not {expected}."
        raise ApiError(400, message, code="undecodable_file", field="file") from None
    if not text.strip():
        raise ApiError(400, "The file holds no text.", code="empty_file", field="file")
    return name, text
