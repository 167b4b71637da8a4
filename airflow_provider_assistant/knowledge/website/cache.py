"""
The pages of the last run, in a Parquet file.

A page that has not been modified has no content in the response, so its text is taken from here.
"""

from __future__ import annotations

import contextlib
import logging
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, Self

from airflow.providers.common.compat.sdk import ObjectStoragePath

from airflow_provider_assistant.knowledge.website.extraction import PageText
from airflow_provider_assistant.storage.write import replace_bytes
from airflow_provider_assistant.texts import escaped

if TYPE_CHECKING:
    import pyarrow.parquet as pq

log = logging.getLogger(__name__)

# Header of a conditional request, by the column with its value.
VALIDATORS = {"etag": "If-None-Match", "last_modified": "If-Modified-Since"}
COLUMNS = ("url", *VALIDATORS, *PageText._fields)
# Characters of an ETag or a time of modification. Servers refuse requests with long headers.
LONGEST_VALIDATOR = 500
# Pages of a row group of the file, which is read as a whole.
GROUP_SIZE = 64


class PageCache:
    """
    Pages with an ETag or a time of modification, by address.

    Use it as a context manager. The file is replaced by :meth:`save`, and otherwise stays as it is.

    :param path: Local path or object storage URL. None: nothing is kept.
    :param parser: What the texts depend on besides the pages. The file of another parser is not used.
    """

    def __init__(self, path: str | Path | ObjectStoragePath | None, parser: str = "") -> None:
        self._schema = _schema(parser)
        self._path = None if path is None else ObjectStoragePath(str(path))
        self._open_files = contextlib.ExitStack()
        self._earlier_file: pq.ParquetFile | None = None
        # The row group of each page, and the headers of a conditional request for it.
        # The texts stay in the file.
        self._group_by_url: dict[str, int] = {}
        self._headers_by_url: dict[str, dict[str, str]] = {}
        # Only the group that was read last is kept in memory.
        self._read_group = -1
        self._row_by_url: dict[str, dict[str, Any]] = {}
        self._new_rows: list[dict[str, Any]] = []

    def __enter__(self) -> Self:
        import pyarrow.parquet as pq

        if self._path is not None:
            self._read_earlier_file(self._path)
            self._new_file = self._open_files.enter_context(_temporary_file())
            writer = pq.ParquetWriter(self._new_file, self._schema, compression="zstd")
            self._writer = self._open_files.enter_context(writer)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open_files.__exit__(kind, error, trace)

    def _read_earlier_file(self, path: ObjectStoragePath) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        # Pages are read over hours, so the file is copied first.
        copy = self._open_files.enter_context(_temporary_file())
        try:
            with path.open("rb") as file:
                shutil.copyfileobj(file, copy)
            earlier_file = pq.ParquetFile(copy)
            if not earlier_file.schema_arrow.equals(self._schema, check_metadata=True):
                log.warning("%s is not a cache of pages of this version, so all pages are read again", path)
                return
            for group in range(earlier_file.num_row_groups):
                table = earlier_file.read_row_group(group, ["url", *VALIDATORS])
                for row in table.to_pylist():
                    self._group_by_url[row["url"]] = group
                    self._headers_by_url[row["url"]] = _conditional_headers(row)
            self._earlier_file = earlier_file
        except FileNotFoundError:
            return
        except (pa.ArrowException, KeyError, ValueError) as error:
            self._group_by_url.clear()
            self._headers_by_url.clear()
            problem = escaped(str(error))
            log.warning("%s is not a cache of pages, so all pages are read again: %s", path, problem)

    def validators(self, url: str) -> Mapping[str, str]:
        """
        Return the headers of a conditional request.

        :return: Value by header name; empty if the page is not known.
        """
        return self._headers_by_url.get(url, {})

    def text(self, url: str) -> PageText:
        """
        Return the text of a page that has not been modified.

        :param url: Address of a page that has :meth:`validators`.
        """
        row = self._row(url)
        return PageText(**{name: row[name] for name in PageText._fields})

    def _row(self, url: str) -> dict[str, Any]:
        group = self._group_by_url[url]
        if group != self._read_group and self._earlier_file is not None:
            rows = self._earlier_file.read_row_group(group, list(COLUMNS)).to_pylist()
            self._row_by_url = {row["url"]: row for row in rows}
            self._read_group = group
        return self._row_by_url[url]

    def add(self, url: str, headers: Mapping[str, str], text: PageText) -> None:
        """
        Keep a page for the next run, if the next request can be conditional.

        :param headers: Headers of the response. A header that is missing after "not modified" stays as it was.
        """
        if self._path is None:
            return
        earlier = self._headers_by_url.get(url, {})
        etag = _sendable(headers.get("etag", earlier.get(VALIDATORS["etag"])))
        last_modified = _sendable(headers.get("last-modified", earlier.get(VALIDATORS["last_modified"])))
        if etag or last_modified:
            row = {"url": url, "etag": etag, "last_modified": last_modified, **text._asdict()}
            self._new_rows.append(row)
        if len(self._new_rows) == GROUP_SIZE:
            self._flush()

    def save(self) -> None:
        """Replace the file with the pages that were added."""
        if self._path is not None:
            self._flush()
            self._writer.close()
            self._new_file.seek(0)
            replace_bytes(self._new_file.read(), self._path)

    def _flush(self) -> None:
        import pyarrow as pa

        if self._new_rows:
            table = pa.Table.from_pylist(self._new_rows, schema=self._schema)
            self._writer.write_table(table)
            self._new_rows.clear()


def _sendable(value: str | None) -> str | None:
    """Return the value of a header if a request may repeat it: websites send any bytes of any length."""
    if value and value.isascii() and value.isprintable() and len(value) <= LONGEST_VALIDATOR:
        return value
    return None


def _conditional_headers(row: Mapping[str, str | None]) -> dict[str, str]:
    headers = {}
    for column, header in VALIDATORS.items():
        value = _sendable(row[column])
        if value:
            headers[header] = value
    return headers


def _temporary_file() -> IO[bytes]:
    return tempfile.TemporaryFile(prefix="assistant-website-")


def _schema(parser: str) -> Any:
    import pyarrow as pa

    return pa.schema([(name, pa.string()) for name in COLUMNS], metadata={"parser": parser})
