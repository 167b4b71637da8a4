"""PDF files as Markdown."""

from __future__ import annotations

import io
from collections import defaultdict
from typing import Any

from airflow_provider_assistant.parsing.limits import MOST_PAGES, Text, UnreadableFileError
from airflow_provider_assistant.parsing.markdown import escaped, heading

MOST_BOOKMARKS = 10_000


def parse_pdf(content: bytes) -> dict[str, Any]:
    """
    Return title and text of a PDF file. Its bookmarks become headings above the page to which they lead.

    :raises UnreadableFileError: The file is encrypted or too large.
    """
    import pypdf

    reader = pypdf.PdfReader(io.BytesIO(content))
    # Many files are encrypted with an empty password, only to forbid printing.
    if reader.is_encrypted and not reader.decrypt(""):
        raise UnreadableFileError("is encrypted")
    if len(reader.pages) > MOST_PAGES:
        raise UnreadableFileError(f"has more than {MOST_PAGES:,} pages")
    headings_by_page = _bookmark_headings(reader)
    text = Text()
    scanned = 0
    for page_number, page in enumerate(reader.pages):
        for page_heading in headings_by_page.get(page_number, ()):
            text.add(page_heading)
        page_text = page.extract_text()
        text.add(escaped(page_text))
        if not page_text.strip():
            scanned += _has_image(page)
    left_out = [("page", "has a picture and no text, like a scan", False, scanned)] if scanned else []
    return {"title": _title(reader), "text": str(text), "left_out": left_out}


def _has_image(page: Any) -> bool:
    try:
        objects = page["/Resources"]["/XObject"].values()
        return any(found.get_object()["/Subtype"] == "/Image" for found in objects)
    except Exception:  # noqa: BLE001 (pypdf raises many types for invalid resources)
        return False


def _title(reader: Any) -> str | None:
    title = ""
    if reader.metadata and reader.metadata.title:
        title = str(reader.metadata.title)
    # Word's export writes the name of its own file here.
    if title.startswith("Microsoft "):
        return None
    return title


def _bookmark_headings(reader: Any) -> dict[int, list[str]]:
    """Return the bookmarks of each page as headings. A file with invalid bookmarks is still read, without them."""
    headings_by_page: dict[int, list[str]] = defaultdict(list)
    try:
        # The outline is a list of bookmarks. After one, there may be the list of those below it.
        # The last iterator is that of the innermost list, so their number is the level.
        open_lists = [iter(reader.outline)]
        for _ in range(MOST_BOOKMARKS):
            item = next(open_lists[-1], None)
            if item is None:
                open_lists.pop()
                if not open_lists:
                    break
            elif isinstance(item, list):
                open_lists.append(iter(item))
            else:
                page_number = reader.get_destination_page_number(item)
                if page_number is not None:
                    level = len(open_lists)
                    headings_by_page[page_number].append(heading(str(item.title), level))
    except Exception:  # noqa: BLE001 (pypdf raises many types for invalid bookmarks)
        return {}
    return headings_by_page
