"""Rows of documents from a folder of files, such as a Git checkout or a shared drive."""

from __future__ import annotations

import codecs
import posixpath
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import quote, unquote, urljoin, urlsplit

from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.knowledge.chunks import first_heading
from airflow_provider_assistant.knowledge.documents import DocumentRow, DocumentRows, check_on_error, row_without_key
from airflow_provider_assistant.knowledge.file_kinds import MARKDOWN, reason_hidden, reason_unread
from airflow_provider_assistant.knowledge.front_matter import TITLE, split_front_matter, unpublished
from airflow_provider_assistant.knowledge.markdown import (
    from_plain_text,
    plain_notes,
    with_absolute_links,
    without_comments,
)
from airflow_provider_assistant.knowledge.mdx import without_jsx
from airflow_provider_assistant.parsing.child import ChildParser
from airflow_provider_assistant.parsing.limits import LARGEST_FILE, UnreadableFileError
from airflow_provider_assistant.parsing.pages import Fields, Note
from airflow_provider_assistant.source_account import AccountedRows, SourceAccount
from airflow_provider_assistant.storage.listing import storage_files
from airflow_provider_assistant.storage.opening import StoragePath, open_inside, usable_path

# Bytes of a file that is text. A person writes less.
LARGEST_TEXT = 10_000_000
HTML = frozenset({".htm", ".html", ".xhtml"})
TEXTS = MARKDOWN | HTML | {".ipynb", ".rst"}
# Names of fields without spaces, - and _.
CATEGORY = ("category", "categories")
DATE = ("date", "updated", "lastmod", "lastmodified")
URL = ("url", "canonicalurl", "permalink")
# Files that one error names.
MOST_PROBLEMS = 20


def file_documents(
    source: Any,
    *,
    base_url: str | None = None,
    url_of: Callable[[str], str | None] | None = None,
    allowed_root: str | None = None,
    on_error: str = "fail",
    strict: bool = False,
    now: datetime | None = None,
) -> DocumentRows:
    """
    Read Markdown, text, HTML, PDF, Word, PowerPoint and Excel files, one after the other. Each file is one document.

    The text is Markdown, without comments. Front matter, the head of an HTML page, or the properties of a file give
    title, category, date and URL. Otherwise the title is the first heading, or the name of the file. The key is the
    path below the folder, or the name of a file that is the source itself.

    Drafts, pages that have expired or are published later, and pages that ask not to be indexed are left out, as are
    hidden files, and files of other formats. All of them are counted.

    Formats other than Markdown and text need the extra ``files``. They are parsed in another process, with at most two
    minutes and 2 GiB of memory for a file.

    :param source: Folder, glob, path or object storage URL, or a list of these. The formats are Markdown (``.md``,
        ``.mdx``, ``.qmd`` and others), ``.txt``, ``.rst``, ``.ipynb``, ``.html``, ``.pdf``, ``.docx``, ``.pptx`` and
        ``.xlsx``.
    :param base_url: Address of the folder on the web, with a slash at its end. A document has the address of its path
        below it, unless the file names one. Relative links become absolute. Default: None, only documents whose file
        names an absolute address have one.
    :param url_of: Function that returns the address of a file on the web from its key, or None if it has none. The
        address may be relative to ``base_url``. Links to other files of the folder become these addresses. Default:
        the key itself.
    :param allowed_root: Folder that must contain all files after symbolic links are resolved. Default: the source, if
        it is one folder.
    :param on_error: What to do with a file that is damaged, encrypted, not UTF-8 or over a limit. ``fail``: raise an
        error that names all of them. ``skip``: return a row whose key is None, so that a load rejects it and keeps all
        documents that it may have; its parent is the key of the file.
    :param strict: Whether files that are left out and could hold content are an error, after the last document.
        Default: False, they are a warning.
    :param now: Time for dates of publication and expiry, with a time zone. Default: now.
    :return: The documents. Their attribute ``account`` counts the files that were read, and those that were left out by
        reason.
    :raises AssistantInputError: There is no such file, two files have the same key, a file is outside
        ``allowed_root``, the extra is not installed, or a file cannot be read and ``on_error`` is ``fail``: it is over
        a limit of 10 MB of text or HTML, 100 MB of other files, or 20,000 characters of front matter, for example.
    """
    check_on_error(on_error)
    is_one = not isinstance(source, list | tuple)
    if allowed_root is None and is_one and usable_path(source).is_dir():
        allowed_root = str(source)
    addresses = _Addresses(base_url, url_of)

    def rows(account: SourceAccount) -> Iterator[DocumentRow]:
        files = _files(source, allowed_root, account)
        with ChildParser() as parser:
            reader = _Reader(parser, account, now or datetime.now(UTC), allowed_root)
            yield from _documents(files, reader, addresses, skips_unreadable=on_error == "skip")

    return AccountedRows(rows, strict=strict)


def _files(source: Any, allowed_root: str | None, account: SourceAccount) -> dict[str, StoragePath]:
    """Return the files that may be pages by their key."""
    listed = storage_files(source, allowed_root, account=account, reason_skipped=reason_hidden)
    is_file = not isinstance(source, list | tuple) and usable_path(source).is_file()
    files: dict[str, StoragePath] = {}
    for name, path in listed:
        key = path.name if is_file else name
        if key in files:
            raise AssistantInputError(
                f"files {str(files[key])!r} and {str(path)!r} have the same key {key!r}",
                todo="Read and load each folder separately, as another source.",
                field="source",
            )
        files[key] = path
    return files


@dataclass
class _Page:
    """
    What a file says.

    :param redirect: Address to which an HTML file leads; empty if it does not.
    :param obstacle: Why an HTML file shows no content, as a predicate; empty if it does.
    """

    fields: Fields
    text: str
    redirect: str = ""
    obstacle: str = ""


class _Reader:
    """Reads files."""

    def __init__(self, parser: ChildParser, account: SourceAccount, now: datetime, allowed_root: str | None) -> None:
        self.account = account
        self._parser = parser
        self._now = now
        self._allowed_root = allowed_root

    def page(self, name: str, path: StoragePath) -> _Page | None:
        """
        Return the page of a file; None if it is left out.

        :raises UnreadableFileError: It cannot be read.
        """
        suffix = PurePosixPath(name).suffix.lower()
        try:
            if suffix in MARKDOWN:
                page = self._markdown_page(name, _decoded(self._content(path, suffix)))
            else:
                page = self._parsed_page(name, path, suffix)
            reason = unpublished(page.fields, self._now)
        except ValueError as error:
            raise UnreadableFileError(str(error)) from None
        is_expected = True
        if page.redirect:
            reason = "leads to another page"
        elif not reason and page.obstacle:
            is_expected = False
            reason = page.obstacle
        elif not reason and not page.text.strip():
            # An empty file has no content that could be lost.
            is_expected = suffix in MARKDOWN
            reason = "is empty" if is_expected else "has no text"
        if reason:
            self.account.leave_out("file", reason, name, is_expected=is_expected)
            return None
        return page

    def _content(self, path: StoragePath, suffix: str) -> bytes:
        limit = LARGEST_TEXT if suffix in TEXTS else LARGEST_FILE
        with open_inside(path, self._allowed_root) as file:
            content = file.read(limit + 1)
        if len(content) > limit:
            raise UnreadableFileError(f"is larger than {limit:,} bytes")
        return content

    def _markdown_page(self, name: str, text: str) -> _Page:
        if name.lower().endswith(".txt"):
            return _Page({}, from_plain_text(text))
        notes: list[Note] = []
        fields, text, found = split_front_matter(text)
        notes += found
        text = plain_notes(text)
        if name.lower().endswith(".mdx"):
            text, found = without_jsx(text)
            notes += found
        text, found = without_comments(text)
        for note in (*notes, *found):
            self.account.leave_out(note.unit, note.reason, name, is_expected=note.is_expected, count=note.count)
        return _Page(fields, text)

    def _parsed_page(self, name: str, path: StoragePath, suffix: str) -> _Page:
        content = self._content(path, suffix)
        front_matter: Fields = {}
        if suffix in HTML:
            front_matter, content = _front_matter_of_html(content)
        try:
            fields = self._parser.parse(suffix, content)
        except ModuleNotFoundError as error:
            raise AssistantInputError(
                f"file {str(path)!r} cannot be read, because {error.name} is not installed",
                todo="Run pip install 'airflow-provider-assistant[files]', or name only other files.",
                field="source",
            ) from None
        for unit, reason, is_expected, count in fields.pop("left_out", []):
            self.account.leave_out(unit, reason, name, is_expected=is_expected, count=count)
        text = fields.pop("text", "")
        if suffix == ".ipynb":
            return self._markdown_page(name, text)
        redirect, obstacle = fields.pop("redirect", ""), fields.pop("obstacle", "")
        return _Page({**fields, **front_matter}, text, redirect, obstacle)


def _documents(
    files: Mapping[str, StoragePath], reader: _Reader, addresses: _Addresses, *, skips_unreadable: bool
) -> Iterator[DocumentRow]:
    problems: list[str] = []
    for name, path in files.items():
        unread = reason_unread(name)
        if unread:
            reader.account.leave_out("file", unread.text, name, is_expected=unread.is_expected)
            continue
        try:
            page = reader.page(name, path)
        except (UnreadableFileError, OSError) as error:
            if skips_unreadable:
                reader.account.leave_out("file", "cannot be read", f"{name} {error}", is_expected=False)
                yield row_without_key(name)
            elif isinstance(error, OSError):
                raise
            else:
                problems.append(f"file {str(path)!r} {error}")
        else:
            # After an error, the other files are only read to name all that have one.
            if page and not problems:
                reader.account.read("file")
                yield _row(name, page, addresses)
        if len(problems) == MOST_PROBLEMS:
            break
    if problems:
        raise AssistantInputError(
            "; ".join(problems),
            todo="Repair what is named, leave it out, or upload it with AssistantUploadFilesOperator. "
            "With on_error='skip', the other files are loaded without it.",
            field="source",
        )


def _row(name: str, page: _Page, addresses: _Addresses) -> DocumentRow:
    url = addresses.of(name, _first_text(page.fields, URL))
    text = page.text
    if url:
        text = with_absolute_links(text, partial(addresses.of_link, name, url))
    title = _first_text(page.fields, TITLE) or first_heading(page.text) or _title_of(name)
    return DocumentRow(
        key=name,
        parent=name,
        title=title,
        content=text,
        category=_first_text(page.fields, CATEGORY),
        url=url,
        date=_first_text(page.fields, DATE),
    )


def joined(base: str, target: str) -> str:
    """Return the absolute address of a target; the target itself if it is not an address."""
    try:
        return urljoin(base, target)
    except ValueError:  # such as "http://[", which is no address
        return target


def _title_of(name: str) -> str:
    path = PurePosixPath(name)
    title = path.stem.lstrip("_")
    if title.lower() in {"index", "readme"} and path.parent.name:
        return path.parent.name
    return title or path.stem


def _first_text(fields: Fields, names: tuple[str, ...]) -> str | None:
    """Return the first value that is not empty; of a list, its first item."""
    for name in names:
        value = fields.get(name, "")
        texts = [value] if isinstance(value, str) else value
        for text in texts:
            if text.strip():
                return text.strip()
    return None


@dataclass
class _Addresses:
    """
    Finds the addresses of files on the web.

    :param base_url: See :func:`file_documents`, as the other parameter.
    """

    base_url: str | None
    url_of: Callable[[str], str | None] | None

    def of(self, name: str, named: str | None) -> str | None:
        """
        Return the address of a file, if it is absolute.

        :param named: What the file names as its address.
        """
        address = self._by_name(name)
        if named:
            address = joined(address or "", named)
        if address and "://" in address:
            return address
        return None

    def of_link(self, name: str, url: str, target: str) -> str:
        """
        Return the absolute address of a link.

        :param name: Key of the file that has the link.
        :param url: Address of this file.
        """
        if self.url_of is None:
            return joined(url, target)
        try:
            parts = urlsplit(target)
        except ValueError:
            return target
        is_file = reason_unread(parts.path) is None
        if parts.scheme or parts.netloc or not is_file:
            return joined(url, target)
        folder = "" if parts.path.startswith("/") else posixpath.dirname(name)
        linked = posixpath.normpath(posixpath.join(folder, unquote(parts.path).lstrip("/")))
        address = self._by_name(linked)
        if not address or linked.startswith(".."):
            return joined(url, target)
        return joined(address, target[target.index(parts.path) + len(parts.path) :])

    def _by_name(self, name: str) -> str | None:
        address = self.url_of(name) if self.url_of else quote(name)
        if address is None:
            return None
        return joined(self.base_url or "", address)


def _front_matter_of_html(content: bytes) -> tuple[Fields, bytes]:
    """Return what Jekyll and Hugo read above the HTML of a page, and the HTML."""
    if not content.removeprefix(codecs.BOM_UTF8).lstrip().startswith((b"---", b"+++")):
        return {}, content
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return {}, content
    fields, text, _ = split_front_matter(text.replace("\r\n", "\n"))
    return fields, text.encode()


def _decoded(content: bytes) -> str:
    # What Windows calls Unicode begins with one of these marks.
    is_utf_16 = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    encoding = "utf-16" if is_utf_16 else "utf-8-sig"
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError as error:
        raise UnreadableFileError(f"is not UTF-8 at byte {error.start}") from None
    return text.replace("\r\n", "\n").replace("\r", "\n")
