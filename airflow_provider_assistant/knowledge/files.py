"""Rows of documents from a folder of files, such as a Git checkout or a shared drive."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import quote

from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.knowledge.documents import DocumentRow, DocumentRows, first_text
from airflow_provider_assistant.knowledge.front_matter import split_front_matter
from airflow_provider_assistant.knowledge.headings import first_heading
from airflow_provider_assistant.knowledge.markdown import absolute_links, joined, without_comments
from airflow_provider_assistant.parsing.child import LIBRARIES, ChildParser
from airflow_provider_assistant.parsing.limits import LARGEST_FILE, UnreadableFileError
from airflow_provider_assistant.source_account import AccountedRows, SourceAccount
from airflow_provider_assistant.storage.paths import StoragePath, storage_files

MARKDOWN = (".md", ".markdown", ".txt")
# Bytes of a file that is text. A person writes less.
LARGEST_TEXT = 10_000_000
TEXTS = (*MARKDOWN, ".htm", ".html")
URL, DATE = ("url", "canonical_url", "permalink"), ("date", "updated", "lastmod", "last_modified")
YES = frozenset({"true", "yes", "on", "1"})


def file_documents(
    source: Any, *, base_url: str | None = None, allowed_root: str | None = None, strict: bool = False
) -> DocumentRows:
    """
    Read Markdown, text, HTML, PDF, Word, PowerPoint and Excel files, one after the other. Each file is one document.

    The text is Markdown, without comments. Front matter, the head of an HTML page, or the
    properties of a file give title, category, date and URL; a Markdown file with ``draft: true`` is
    skipped. Otherwise the title is the first heading, or the name of the file. The key is the path
    below the folder. Files and folders whose names start with a dot or an underscore are skipped;
    files without text, too, with a warning.

    Formats other than Markdown and text need the extra ``files``. They are parsed in another process, with at most two
    minutes and 2 GiB of memory for a file.

    :param source: Folder, glob, path or object storage URL, or a list of these. Files other than ``.md``,
        ``.markdown``, ``.txt``, ``.htm``, ``.html``, ``.pdf``, ``.docx``, ``.pptx`` and ``.xlsx`` are skipped.
    :param base_url: Address of the folder on the web, with a slash at its end. A document has the address of its path
        below it, unless the file names one. Relative links become absolute. Default: None, only documents whose file
        names an absolute address have one.
    :param allowed_root: Folder that must contain all files after symbolic links are resolved. Default: the source, if
        it is one folder.
    :param strict: Whether files that are left out and could hold content are an error, after the last document.
        Default: False, they are a warning.
    :return: The documents. Their attribute ``account`` counts the files by what became of them.
    :raises AssistantInputError: There is no such file, a file is outside ``allowed_root``, damaged, encrypted, not
        UTF-8, or over a limit (10 MB of text or HTML, 100 MB of other files, 20,000 characters of front matter), or
        the extra is not installed. The message names the file.
    """
    if allowed_root is None and not isinstance(source, list | tuple) and "*" not in str(source):
        allowed_root = str(source)
    return AccountedRows(lambda account: _documents(source, base_url, allowed_root, account), strict=strict)


def _documents(
    source: Any, base_url: str | None, allowed_root: str | None, account: SourceAccount
) -> Iterator[DocumentRow]:
    with ChildParser() as parser:
        for name, path in storage_files(source, allowed_root, account=account):
            file_path = PurePosixPath(name)
            suffix = file_path.suffix.lower()
            if file_path.name.startswith("~$"):
                account.leave_out("file", "is the lock of an Office file that is open", name, is_expected=True)
                continue
            if suffix in MARKDOWN:
                fields, text = split_front_matter(_decoded(path, suffix), path)
                text = without_comments(text)
            elif suffix in LIBRARIES:
                fields = _parsed(parser, suffix, path)
                text = fields.pop("text", "")
            else:
                account.leave_out("file", f"has a suffix that is not read ({suffix})", name, is_expected=False)
                continue
            if fields.get("draft", "").lower() in YES:
                account.leave_out("file", "is a draft", name, is_expected=True)
            elif not text.strip():
                account.leave_out("file", "has no text, like a scan", name, is_expected=False)
            else:
                account.read("file")
                yield _row(name, fields, text, base_url)


def _row(name: str, fields: Mapping[str, str], text: str, base_url: str | None) -> DocumentRow:
    title = first_text(fields, ("title",)) or first_heading(text) or PurePosixPath(name).stem
    url = first_text(fields, URL)
    if base_url:
        url = joined(base_url, url or quote(name))
    if url and "://" not in url:
        # Without base_url, only an absolute address can be used.
        url = None
    if url:
        text = absolute_links(text, url)
    return DocumentRow(
        key=name,
        parent=name,
        title=title,
        content=text,
        category=first_text(fields, ("category",)),
        url=url,
        date=first_text(fields, DATE),
    )


def _parsed(parser: ChildParser, suffix: str, path: StoragePath) -> dict[str, str]:
    try:
        return parser.parse(suffix, _read(path, suffix))
    except ModuleNotFoundError as error:
        raise AssistantInputError(
            f"file {str(path)!r} cannot be read, because {error.name} is not installed",
            todo="Run pip install 'airflow-provider-assistant[files]', or name only other files.",
            field="source",
        ) from None
    except UnreadableFileError as error:
        raise _refused(path, str(error)) from None


def _read(path: StoragePath, suffix: str) -> bytes:
    limit = LARGEST_TEXT if suffix in TEXTS else LARGEST_FILE
    with path.open("rb") as file:
        content: bytes = file.read(limit + 1)
    if len(content) > limit:
        raise _refused(path, f"is larger than {limit:,} bytes")
    return content


def _decoded(path: StoragePath, suffix: str) -> str:
    try:
        return _read(path, suffix).decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise AssistantInputError(
            f"file {str(path)!r} is not UTF-8 at byte {error.start}",
            todo="Convert it, or leave it out.",
            field="source",
        ) from None


def _refused(path: StoragePath, problem: str) -> AssistantInputError:
    return AssistantInputError(
        f"file {str(path)!r} {problem}",
        todo="Repair it, leave it out, or upload it with AssistantUploadFilesOperator.",
        field="source",
    )
