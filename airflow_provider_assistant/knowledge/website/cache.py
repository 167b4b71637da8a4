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

from airflow_provider_assistant import lake
from airflow_provider_assistant.knowledge.website.extraction import PageText

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

log = logging.getLogger(__name__)

VALIDATORS = {"etag": "If-None-Match", "last_modified": "If-Modified-Since"}
COLUMNS = ("url", *VALIDATORS, *PageText._fields)
# Pages of a row group, which is read as a whole.
GROUP = 64


class PageCache:
    """
    Pages with an ETag or a time of modification, by address.

    Use it as a context manager. The file is replaced by :meth:`save`, and otherwise stays as it is.

    :param path: Local path or object storage URL. None: nothing is kept.
    """

    def __init__(self, path: str | Path | ObjectStoragePath | None) -> None:
        self._path = None if path is None else ObjectStoragePath(str(path))
        self._open = contextlib.ExitStack()
        self._earlier: pq.ParquetFile | None = None
        # Row group of a page, and the headers of a conditional request. The texts stay in the file.
        self._groups: dict[str, int] = {}
        self._headers: dict[str, dict[str, str]] = {}
        self._read: tuple[int, dict[str, dict[str, Any]]] = (-1, {})
        self._new: list[dict[str, Any]] = []

    def __enter__(self) -> Self:
        import pyarrow.parquet as pq

        if self._path is not None:
            self._read_earlier(self._path)
            self._file = self._open.enter_context(_temporary())
            self._writer = self._open.enter_context(pq.ParquetWriter(self._file, _schema(), compression="zstd"))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.__exit__(kind, error, trace)

    def _read_earlier(self, path: ObjectStoragePath) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        # Pages are read over hours, so the file is copied first.
        copy = self._open.enter_context(_temporary())
        try:
            with path.open("rb") as file:
                shutil.copyfileobj(file, copy)
            earlier = pq.ParquetFile(copy)
            for group in range(earlier.num_row_groups):
                for row in earlier.read_row_group(group, ["url", *VALIDATORS]).to_pylist():
                    self._groups[row["url"]] = group
                    self._headers[row["url"]] = {name: row[key] for key, name in VALIDATORS.items() if row[key]}
            self._earlier = earlier
        except FileNotFoundError:
            return
        except (pa.ArrowException, KeyError, ValueError) as error:
            self._groups, self._headers = {}, {}
            log.warning("%s is not a cache of pages, so all pages are read again: %s", path, error)

    def validators(self, url: str) -> Mapping[str, str]:
        """
        Return the headers of a conditional request.

        :return: Value by header name; empty if the page is not known.
        """
        return self._headers.get(url, {})

    def text(self, url: str) -> PageText:
        """
        Return the text of a page that has not been modified.

        :param url: Address of a page that has :meth:`validators`.
        """
        row = self._row(url)
        return PageText(**{name: row[name] for name in PageText._fields})

    def _row(self, url: str) -> dict[str, Any]:
        group = self._groups[url]
        if group != self._read[0] and self._earlier is not None:
            rows = self._earlier.read_row_group(group, list(COLUMNS)).to_pylist()
            self._read = (group, {row["url"]: row for row in rows})
        return self._read[1][url]

    def add(self, url: str, headers: Mapping[str, str], text: PageText) -> None:
        """
        Keep a page for the next run, if the next request can be conditional.

        :param headers: Headers of the response. A header that is missing after "not modified" stays as it was.
        """
        if self._path is None:
            return
        known = self._headers.get(url, {})
        row = {
            "etag": headers.get("etag") or known.get(VALIDATORS["etag"]),
            "last_modified": headers.get("last-modified") or known.get(VALIDATORS["last_modified"]),
        }
        if any(row.values()):
            self._new.append({"url": url, **row, **text._asdict()})
        if len(self._new) == GROUP:
            self._flush()

    def save(self) -> None:
        """Replace the file with the pages that were added."""
        if self._path is not None:
            self._flush()
            self._writer.close()
            self._file.seek(0)
            lake.replace_bytes(self._file.read(), self._path)

    def _flush(self) -> None:
        import pyarrow as pa

        if self._new:
            self._writer.write_table(pa.Table.from_pylist(self._new, schema=_schema()))
            self._new.clear()


def _temporary() -> IO[bytes]:
    return tempfile.TemporaryFile(prefix="assistant-website-")


def _schema() -> pa.Schema:
    import pyarrow as pa

    return pa.schema([(name, pa.string()) for name in COLUMNS])
