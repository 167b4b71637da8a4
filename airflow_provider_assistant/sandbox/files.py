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

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []
        self._hidden = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002
        self._hidden += tag in self._HIDDEN
        self.parts.append("\n" if tag in {"p", "br", "li", "tr", "div", "h1", "h2", "h3"} else " ")

    def handle_endtag(self, tag: str) -> None:
        self._hidden -= tag in self._HIDDEN and self._hidden > 0

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self.parts.append(data)


def _html(text: str) -> str:
    page = _Text()
    page.feed(text)
    page.close()
    lines = (" ".join(line.split()) for line in "".join(page.parts).splitlines())
    return "\n".join(line for line in lines if line)


def _csv(text: str) -> str:
    rows = list(csv.reader(io.StringIO(text, newline="")))
    if not rows:
        return ""
    header, *body = rows
    if not body:
        return ", ".join(header)
    return "\n".join("; ".join(f"{name}: {cell}" for name, cell in zip(header, row, strict=False)) for row in body)


def _leaves(value: Any, path: str = "") -> Iterator[str]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _leaves(inner, f"{path} {name}".strip())
    elif isinstance(value, list):
        for inner in value:
            yield from _leaves(inner, path)
    else:
        yield f"{path}: {value}" if path else str(value)


def _json(text: str) -> str:
    return "\n".join(_leaves(from_json(text)))


_READERS = {".html": _html, ".csv": _csv, ".json": _json}


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
        text = _READERS.get(suffix, str)(text)
        text.encode()  # a lone surrogate such as \ud800 in JSON cannot be encoded
    except (ValueError, AssertionError, csv.Error) as error:
        what = "UTF-8 text" if isinstance(error, UnicodeError) else f"valid {suffix[1:].upper()}"
        raise ApiError(400, f"The file is not {what}.", code="undecodable_file", field="file") from None
    if not text.strip():
        raise ApiError(400, "The file holds no text.", code="empty_file", field="file")
    return name, text
