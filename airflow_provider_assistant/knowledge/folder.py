"""Rows of documents from a folder of files, such as a Git checkout or a shared drive."""

from __future__ import annotations

import codecs
import mimetypes
import posixpath
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import quote, unquote

from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.knowledge.addresses import joined
from airflow_provider_assistant.knowledge.front_matter import TITLE, split_front_matter, unpublished
from airflow_provider_assistant.knowledge.markdown import (
    plain_notes,
    with_absolute_links,
    without_comment_targets,
    without_comments,
)
from airflow_provider_assistant.knowledge.mdx import without_jsx
from airflow_provider_assistant.knowledge.rows import DocumentRow, DocumentRows, Item, Unreadable, document_rows
from airflow_provider_assistant.knowledge.sections import first_heading
from airflow_provider_assistant.parsing.child import FORMATS, LARGEST_FILE, ChildParser, UnreadableFileError
from airflow_provider_assistant.parsing.html import DEFAULT_REMOVE, check_selectors
from airflow_provider_assistant.parsing.markdown import escaped
from airflow_provider_assistant.parsing.pages import Note, Page
from airflow_provider_assistant.source_account import SourceAccount
from airflow_provider_assistant.storage.listing import storage_files
from airflow_provider_assistant.storage.opening import (
    StoragePath,
    open_inside,
    reading,
    reason_unreadable,
    usable_path,
)
from airflow_provider_assistant.texts import counted

MARKDOWN = frozenset({".md", ".markdown", ".mdx"})
TEXT = frozenset({".txt"})
HTML = frozenset({".htm", ".html", ".xhtml"})
# Bytes of a file of these. A person writes less.
LARGEST_TEXT = 10_000_000

# Folders in which site generators and package managers keep what is not a page. Other names with an underscore, such
# as _posts and _index.md, are content.
_PROGRAM_FOLDERS = frozenset((
    "__pycache__", "_book", "_build", "_data", "_downloads", "_ext", "_images", "_includes", "_layouts", "_modules",
    "_plugins", "_sass", "_site", "_sources", "_static", "_templates", "bower_components", "node_modules",
))  # fmt: skip
# How front matter above the HTML of a page begins.
_FRONT_MATTER = re.compile(rb"""\s*(?:---|\+\+\+|;;;|\{\s*")""")
# Only the table of Python: those of machines differ.
_TYPES = mimetypes.MimeTypes()
_FONTS = frozenset({".eot", ".otf", ".ttf", ".woff", ".woff2"})

# Names of fields, in lower case without blanks, - and _. The first one that has a text counts.
_CATEGORY = ("category", "categories")
_DATE = ("date", "updated", "lastmod", "lastmodified")
_URL = ("url", "canonical", "canonicalurl", "permalink")

_TODO = "Repair what is named, leave it out, or upload it with AssistantUploadFilesOperator."


def file_documents(
    source: Any,
    *,
    base_url: str = "",
    url_of: Callable[[str], str | None] | None = None,
    remove: str = DEFAULT_REMOVE,
    select: str = "",
    allowed_root: str | None = None,
    on_error: str = "fail",
    strict: bool = False,
    now: datetime | None = None,
) -> DocumentRows:
    """
    Read Markdown, text, HTML, PDF, Word, PowerPoint and Excel files, one after the other. Each file is one document.

    The text is Markdown, without comments. The key is the path below the folder, or the name of a file that is the
    source itself. Front matter, the head of an HTML page, or the properties of a file give title, category, date and
    URL. Otherwise the title is the first heading, or the name of the file.

    Drafts, pages that have expired or are published later, pages that ask not to be indexed, hidden files and files of
    other formats are left out. The account counts them, and the words of a file that are not in its document.

    Formats other than Markdown and text need the extra ``files``. They are parsed in another process, with at most two
    minutes and 2 GiB of memory for a file.

    :param source: Folder, glob, path or object storage URL, or a list of these.
    :param base_url: Address of the folder on the web. A document has the address of its path below it, unless the file
        names one. Relative links become absolute. Default: only documents whose file names an absolute address have
        one.
    :param url_of: Function that returns the address of a file on the web from its key, or None if it has none. The
        address may be relative to ``base_url``. Default: the key itself.
    :param remove: Selector of CSS for the parts of an HTML file that are not content. Default: ``DEFAULT_REMOVE``
        of this package; print it, or add to it.
    :param select: Selector of CSS for the content of an HTML file. Default: the main part.
    :param allowed_root: Folder that must contain all files after symbolic links are resolved. Default: the source, if
        it is one folder.
    :param on_error: What to do with a file that cannot be opened or read: it is damaged, encrypted, not UTF-8, or over
        a limit of 10 MB of text or HTML, or 100 MB of other files, for example. ``fail``: raise an error that names
        all of them. ``skip``: return a row whose key is None, so that a load rejects it and keeps all documents that it
        may have; its parent is the key of the file.
    :param strict: Whether what is left out and could be content is an error, after the last document. Default: False,
        it is a warning.
    :param now: Time for dates of publication and expiry, with a time zone. Default: now.
    :return: The documents. Their attribute ``account`` counts what was read, and what was left out by reason.
    :raises AssistantInputError: There is no such file, two files have the same key, a file is outside
        ``allowed_root``, the extra is not installed, or see ``on_error`` and ``strict``.
    :raises AssistantStorageError: The object storage cannot be reached.
    """
    check_selectors(select=select, remove=remove)
    if base_url and "://" not in base_url:
        raise AssistantInputError(f"base_url must begin with https:// or http://, not {base_url!r}", field="base_url")

    def items() -> Iterator[Item]:
        is_one = not isinstance(source, list | tuple)
        root = allowed_root
        if root is None and is_one and usable_path(source).is_dir():
            root = str(source)
        skipped = SourceAccount()
        files = _files(source, root, skipped)
        yield from skipped.notes()
        addresses = _Addresses(base_url, url_of, frozenset(files))
        with ChildParser() as parser:
            reader = _Reader(parser, {"select": select, "remove": remove}, root, now or datetime.now(UTC), addresses)
            for key, path in files.items():
                yield from reader.items(key, path)

    return document_rows(items(), unit="file", todo=_TODO, on_error=on_error, strict=strict)


def _files(source: Any, allowed_root: str | None, skipped: SourceAccount) -> dict[str, StoragePath]:
    """Return the files of a source by their keys."""
    listed = storage_files(source, allowed_root, account=skipped, reason_skipped=_reason_hidden)
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


def _reason_hidden(name: str) -> str | None:
    """Return why a file or folder is not listed as a page; None if it is."""
    *folders, file = name.lower().split("/")
    if any(part.startswith(".") for part in (*folders, file)):
        return "is hidden, as its name or a folder begins with a dot"
    if not _PROGRAM_FOLDERS.isdisjoint(folders):
        return "is in a folder of a program, such as _templates or node_modules"
    if "_drafts" in folders:
        return "is a draft"
    if file.startswith("~$") or file.endswith("~"):
        return "is the lock or the copy of a file that somebody edits"
    return None


def _note_on_kind(key: str) -> Note | None:
    """Return why files with such a name are not read; None if they are."""
    suffix = _suffix(key)
    if suffix in MARKDOWN | TEXT | FORMATS.keys():
        return None
    kind, _ = _TYPES.guess_type(f"x{suffix}", strict=False)
    is_expected = suffix in _FONTS or (kind or "").startswith(("audio/", "font/", "image/", "text/css", "video/"))
    reason = f"has a suffix that is not read ({suffix})" if suffix else "has no suffix"
    return Note("file", reason, is_expected, name=key)


@dataclass(frozen=True)
class _Reader:
    """
    Reads files.

    :param options: Options of the parser of HTML.
    """

    parser: ChildParser
    options: dict[str, str]
    allowed_root: str | None
    now: datetime
    addresses: _Addresses

    def items(self, key: str, path: StoragePath) -> Iterator[Item]:
        """Yield the document of a file, or why there is none, and notes on what the document does not hold."""
        not_read = _note_on_kind(key)
        if not_read:
            yield not_read
            return
        try:
            page = self._page(key, path)
        except UnreadableFileError as error:
            yield Unreadable(key, f"file {str(path)!r} {error}")
            return
        reason = "leads to another page" if page.field("redirect") else unpublished(page.fields, self.now)
        if reason:
            yield Note("file", reason, is_expected=True, name=key)
            return
        for note in page.notes:
            yield replace(note, name=key)
        obstacle = page.field("obstacle")
        if obstacle:
            yield Note("file", obstacle, is_expected=False, name=key)
        elif page.text.strip():
            yield self._row(key, page)
        else:
            # An empty file of text has no content that could be lost. Another one may be a scan.
            yield Note("file", "has no text", is_expected=_suffix(key) in MARKDOWN | TEXT, name=key)

    def _page(self, key: str, path: StoragePath) -> Page:
        suffix = _suffix(key)
        content = self._content(path, LARGEST_TEXT if suffix in MARKDOWN | TEXT | HTML else LARGEST_FILE)
        if suffix in TEXT:
            return Page(text=escaped(_decoded(content)))
        if suffix in MARKDOWN:
            return _markdown_page(_decoded(content), is_mdx=suffix == ".mdx")
        above = Page()
        if suffix in HTML and _FRONT_MATTER.match(content.removeprefix(codecs.BOM_UTF8)):
            # What Jekyll and Hugo read above the HTML of a page.
            above = _front_matter(_decoded(content))
            content = above.text.encode()
        page = self.parser.parse(suffix, content, **(self.options if suffix in HTML else {}))
        return Page({**page.fields, **above.fields}, page.text, [*above.notes, *page.notes])

    def _content(self, path: StoragePath, limit: int) -> bytes:
        try:
            with reading(path), open_inside(path, self.allowed_root) as file:
                content = file.read(limit + 1)
        except AssistantInputError as error:
            if not isinstance(error.__cause__, OSError):  # it is outside of allowed_root
                raise
            raise UnreadableFileError(f"cannot be opened: {reason_unreadable(path, error.__cause__)}") from None
        if len(content) > limit:
            raise UnreadableFileError(f"is larger than {limit:,} bytes")
        return content

    def _row(self, key: str, page: Page) -> DocumentRow:
        url = self.addresses.of(key, page.field(*_URL))
        text = page.text
        if url:
            text = with_absolute_links(text, partial(self.addresses.of_link, key, url))
        return DocumentRow(
            key=key,
            parent=key,
            title=page.field(*TITLE) or first_heading(page.text) or _title_of(key),
            content=text,
            category=page.field(*_CATEGORY),
            url=url,
            date=page.field(*_DATE),
        )


def _markdown_page(text: str, *, is_mdx: bool) -> Page:
    page = _front_matter(text)
    # Some generators read comments of MDX in Markdown, too.
    text, notes = without_jsx(page.text) if is_mdx else without_comments(plain_notes(page.text), "{/*", "*/}")
    text, notes_on_comments = without_comments(text)
    text, notes_on_targets = without_comment_targets(text)
    return Page(page.fields, text, [*page.notes, *notes, *notes_on_comments, *notes_on_targets])


def _front_matter(text: str) -> Page:
    try:
        return Page(*split_front_matter(text))
    except ValueError as error:
        raise UnreadableFileError(str(error)) from None


def _decoded(content: bytes) -> str:
    # What Windows calls Unicode begins with one of these marks.
    is_utf_16 = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    try:
        text = content.decode("utf-16" if is_utf_16 else "utf-8-sig")
    except UnicodeDecodeError as error:
        raise UnreadableFileError(f"is not UTF-8 at byte {error.start}") from None
    zeros = text.count("\0")
    if zeros:
        raise UnreadableFileError(f"is not text: it has {counted(zeros, 'NUL byte')}")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _suffix(key: str) -> str:
    return PurePosixPath(key).suffix.lower()


def _title_of(key: str) -> str:
    path = PurePosixPath(key)
    title = path.stem.lstrip("_")
    if title.lower() in {"index", "readme"} and path.parent.name:
        return path.parent.name
    return title or path.stem


@dataclass(frozen=True)
class _Addresses:
    """
    Finds the addresses of files on the web.

    :param base_url: See :func:`file_documents`, as ``url_of``.
    :param keys: Keys of all files of the folder.
    """

    base_url: str
    url_of: Callable[[str], str | None] | None
    keys: frozenset[str]

    def of(self, key: str, named: str | None = None) -> str | None:
        """
        Return the address of a file, if it is absolute.

        :param named: What the file names as its address.
        """
        address = self.url_of(key) if self.url_of else quote(key)
        if address is not None:
            # urljoin() replaces what follows the last slash.
            folder = self.base_url and self.base_url.rstrip("/") + "/"
            address = joined(folder, address)
        if named:
            address = joined(address or "", named)
        return address if address and "://" in address else None

    def of_link(self, key: str, url: str, target: str) -> str:
        """
        Return the absolute address of a link.

        :param key: Key of the file that has the link.
        :param url: Address of this file.
        """
        path = re.split("[?#]", target, maxsplit=1)[0]
        folder = "" if path.startswith("/") else posixpath.dirname(key)
        linked = posixpath.normpath(posixpath.join(folder, unquote(path).lstrip("/")))
        address = self.of(linked) if path and linked in self.keys else None
        if address:
            return address + target.removeprefix(path)
        return joined(url, target)
