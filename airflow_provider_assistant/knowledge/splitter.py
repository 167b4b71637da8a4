"""
Chunks of documents, with keys that an edit elsewhere does not change.

The API can neither update nor delete documents, so every key that changes leaves a document behind. A key therefore
contains no position: it consists of the parent, the headings above the chunk, and the hash of its text. Each section
is split on its own, so an edit moves no boundary in another section.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator

from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.knowledge.documents import DocumentRow, DocumentRows
from airflow_provider_assistant.knowledge.headings import Section, sections_of
from airflow_provider_assistant.source_account import AccountedRows, SourceAccount

SEPARATOR = " > "


def split_documents(
    rows: Iterable[DocumentRow],
    size: int = 2000,
    *,
    overlap: int = 0,
    length: Callable[[str], int] | None = None,
) -> DocumentRows:
    """
    Split documents at their Markdown headings, and long sections at paragraphs, sentences or words.

    A section that fits is one chunk. The title of a chunk is the title of the document and the headings above the
    chunk. Equal texts below the same headings of one parent are one chunk. Needs the extra ``knowledge``.

    :param rows: The documents.
    :param size: Maximum length of a chunk's text, in characters or what ``length`` counts. Default: 2,000.
    :param overlap: Length of the end of a chunk that the next one of the same section repeats. Default: 0.
    :param length: Function that returns the length of a text, for example in tokens. Default: characters.
    :return: The chunks.
    :raises AssistantInputError: ``size`` or ``overlap`` is invalid, or the extra is not installed.
    """
    chunks_of = _splitter(size, overlap, length)
    return AccountedRows(lambda account: _chunks(rows, chunks_of, account), source=rows)


def _splitter(size: int, overlap: int, length: Callable[[str], int] | None) -> Callable[[str], list[str]]:
    if size < 1 or not 0 <= overlap < size:
        raise AssistantInputError(
            f"size must be at least 1, and overlap at least 0 and below size, not {size} and {overlap}", field="size"
        )
    try:
        from semantic_text_splitter import MarkdownSplitter
    except ImportError as error:
        raise AssistantInputError(
            "semantic-text-splitter is not installed",
            todo="Run pip install 'airflow-provider-assistant[knowledge]'.",
            field="size",
        ) from error
    if length is None:
        length = len
        splitter = MarkdownSplitter(size, overlap)
    else:
        splitter = MarkdownSplitter.from_callback(length, size, overlap)

    def chunks_of(text: str) -> list[str]:
        if length(text) <= size:
            return [text]
        chunks: list[str] = splitter.chunks(text)
        return chunks

    return chunks_of


def _chunks(
    rows: Iterable[DocumentRow], chunks_of: Callable[[str], list[str]], account: SourceAccount
) -> Iterator[DocumentRow]:
    for row in rows:
        parent = row["parent"] or row["key"]
        yielded_keys: set[str] = set()
        for section in sections_of(row["content"]):
            title = SEPARATOR.join(_path(row["title"], section)) or None
            for text in chunks_of(section.text):
                key = chunk_key(row["key"], section.headings, text)
                if key in yielded_keys:
                    account.leave_out("chunk", "repeats an equal chunk of its page", title or key, is_expected=True)
                else:
                    yielded_keys.add(key)
                    account.read("chunk")
                    yield DocumentRow(**{**row, "key": key, "parent": parent, "title": title, "content": text})


def _path(title: str | None, section: Section) -> Iterator[str]:
    """Return the title and the headings; a title that is the first heading as well counts once."""
    if title and section.headings[:1] != (title,):
        yield title
    yield from section.headings


def chunk_key(parent: str | None, headings: tuple[str, ...], text: str) -> str:
    """
    Return the key of a chunk.

    :param headings: The headings above the chunk, the outermost first.
    :return: The parent, the headings and a hash of 64 bits of the text.
    """
    digest = hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
    return "#".join((parent or "", SEPARATOR.join(headings), digest))
