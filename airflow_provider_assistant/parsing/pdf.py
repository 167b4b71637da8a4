"""PDF files as Markdown."""

from __future__ import annotations

import io
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pypdf

from airflow_provider_assistant.parsing.child import MOST_PAGES, UnreadableFileError, library_call
from airflow_provider_assistant.parsing.markdown import escaped, heading
from airflow_provider_assistant.parsing.pages import Note, Page

MOST_BOOKMARKS = 10_000


def page(content: bytes) -> Page:
    """
    Return a PDF file. Its bookmarks become headings above the page to which they lead.

    :raises UnreadableFileError: The file is damaged, encrypted or too large.
    """
    blocks: list[str] = []
    scans = 0
    with library_call():
        reader = pypdf.PdfReader(io.BytesIO(content))
        # Many files are encrypted with an empty password, only to forbid printing.
        if reader.is_encrypted and not reader.decrypt(""):
            raise UnreadableFileError("is encrypted")
        if len(reader.pages) > MOST_PAGES:
            raise UnreadableFileError(f"has more than {MOST_PAGES:,} pages")
        title = str((reader.metadata and reader.metadata.title) or "")
        pages = [(pdf_page.extract_text(), _has_picture(pdf_page)) for pdf_page in reader.pages]
    headings_by_page = _headings_by_page(reader)
    for number, (text, has_picture) in enumerate(pages):
        blocks += headings_by_page[number]
        blocks.append(escaped(text).strip("\n"))
        scans += has_picture and not text.strip()
    found = Page(text="\n\n".join(block for block in blocks if block.strip()))
    # The export of Word writes the name of its own file here.
    if title.strip() and not title.startswith("Microsoft "):
        found.fields["title"] = title
    if scans:
        found.notes.append(Note("page", "has a picture and no text, like a scan", is_expected=False, count=scans))
    return found


def _has_picture(pdf_page: Any) -> bool:
    try:
        objects = pdf_page["/Resources"]["/XObject"].values()
        return any(found.get_object()["/Subtype"] == "/Image" for found in objects)
    except Exception:  # noqa: BLE001 (pypdf raises many types for invalid resources, and most pages have none)
        return False


def _headings_by_page(reader: pypdf.PdfReader) -> dict[int, list[str]]:
    """Return the bookmarks of each page as headings. A file with invalid bookmarks is read without them."""
    headings: dict[int, list[str]] = defaultdict(list)
    try:
        for item, level in _bookmarks(reader):
            number = reader.get_destination_page_number(item)
            if number is not None:
                headings[number].append(heading(str(item.title), level))
    except Exception:  # noqa: BLE001 (pypdf raises many types for invalid bookmarks)
        headings.clear()
    return headings


def _bookmarks(reader: pypdf.PdfReader) -> Iterator[tuple[Any, int]]:
    """Yield each bookmark with its level, which begins at 1."""
    # After a bookmark, there may be the list of those below it.
    open_lists: list[Iterator[Any]] = [iter(reader.outline)]
    for _ in range(MOST_BOOKMARKS):
        item = next(open_lists[-1], None)
        if isinstance(item, list):
            open_lists.append(iter(item))
        elif item is not None:
            yield item, len(open_lists)
        else:
            open_lists.pop()
            if not open_lists:
                return
