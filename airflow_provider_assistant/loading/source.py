"""
Sources of rows: dataframes, lists of mappings, and files, read in batches.

A load reads its source twice: once for the preflight, once to send the rows. A source that can be read only once is
buffered in a temporary file. Neither pass keeps more than one batch in memory.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import pickle
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Self

from airflow.providers.common.compat.sdk import ObjectStoragePath

from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.lineage import Data
from airflow_provider_assistant.loading.columns import (
    BATCH,
    Batch,
    Wanted,
    batches_of,
    batches_of_parts,
    is_rows,
    number,
)
from airflow_provider_assistant.loading.file_readers import CsvOptions, Path_, read_file
from airflow_provider_assistant.loading.rooted import check_inside

__all__ = [
    "BATCH",
    "Batch",
    "CsvOptions",
    "Given",
    "Path_",
    "Source",
    "Wanted",
    "as_given",
    "files_in",
    "open_source",
    "row_group_shards",
    "storage_files",
    "storage_path",
]

# Characters of the column names in the short description of a source.
NAMES_LENGTH = 200


class Source:
    """
    Provide rows that can be read repeatedly. Use it as a context manager.

    :param batches: Returns a new iterator over all batches.
    :param close: Releases the resources of the source, such as a temporary file.
    """

    def __init__(self, batches: Callable[[], Iterator[Batch]], close: Callable[[], None] = lambda: None) -> None:
        self.batches = batches
        self._close = close

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()


class Given:
    """
    Wrap a source so that Airflow neither renders, calls nor displays it in full.

    :param value: Rows, a dataframe, a callable or an iterator.
    """

    def __init__(self, value: Any) -> None:
        self.value = value

    def serialize(self) -> str:
        """Return a short description for Airflow's rendered fields: type, number of rows and columns."""
        source, kind = self.value, type(self.value).__name__
        if _is_dataframe(source):
            names = source.column_names if hasattr(type(source), "column_names") else source.columns
        elif isinstance(source, list | tuple):
            # Ignore elements that are not mappings; the load refuses them later.
            names = dict.fromkeys(name for row in source[:BATCH] if isinstance(row, Mapping) for name in row)
        else:
            return f"{getattr(source, '__qualname__', kind)}()" if callable(source) else kind
        count = f"{len(source):,} row{'' if len(source) == 1 else 's'}"
        listed = ", ".join(map(str, names))
        return f"{kind}, {count}: {listed if len(listed) <= NAMES_LENGTH else f'{listed[: NAMES_LENGTH - 1]}…'}"


def as_given(source: Any) -> Any:
    """
    Wrap a source in :class:`Given` unless it is a template.

    Airflow would render rows as templates, although a row about Jinja must be sent unchanged, and would call a
    callable with its context.

    :param source: Any source that :func:`open_source` takes.
    :return: The wrapped source; paths, URLs and templates unchanged.
    """
    is_several = isinstance(source, list | tuple) and any(map(_is_content, source))
    return Given(source) if is_several or _is_content(source) or callable(source) else source


def _is_content(source: Any) -> bool:
    is_rows = isinstance(source, list | tuple) and any(isinstance(row, Mapping) for row in source)
    return is_rows or hasattr(type(source), "__arrow_c_stream__") or isinstance(source, Iterator)


def open_source(
    source: Any,
    wanted: Wanted,
    root: str | None = None,
    *,
    csv_options: Mapping[str, str] | CsvOptions | None = None,
    allow_empty: bool = False,
) -> Source:
    """
    Open a source for reading.

    :param source: One of:

        - a dataframe or any other object with the Arrow C stream interface (pandas, polars, pyarrow, DuckDB)
        - a list of mappings
        - a path, object storage URL, glob or folder of Parquet, CSV or JSON lines files, or a list of these
        - a mapping with ``path`` and ``row_groups``, see :func:`row_group_shards`
        - several dataframes or lists of mappings, such as the output of a mapped task
        - a callable that returns any of these, or yields batches of them
        - any of these wrapped in :class:`Given`
    :param wanted: Columns to read.
    :param root: Folder that must contain all files after symbolic links are resolved. None allows every folder.
    :param csv_options: Format of CSV files, see :class:`CsvOptions`.
    :param allow_empty: Whether a folder or glob may match no files. Default: False.
    :return: The source. Close it with a ``with`` block.
    :raises AssistantInputError: The source is of another type or lacks a required column, or a file is outside
        ``root``.
    """
    options = CsvOptions.of(csv_options)
    if isinstance(source, Given):
        source = source.value
    if callable(source) and not hasattr(source, "__arrow_c_stream__"):
        source = source()
    source = _in_memory(source)
    if _is_dataframe(source) or is_rows(source):
        return Source(lambda: number(batches_of(source, wanted)))
    files = _files_of(source, root, allow_empty)
    if files is not None:
        return Source(lambda: number(_batches_of_files(files, wanted, options, root)))
    if hasattr(source, "__arrow_c_stream__"):
        return _kept(batches_of(source, wanted))
    if isinstance(source, list | tuple) and all(_is_dataframe(part) or _is_part(part) for part in source):
        return Source(lambda: number(batches_of_parts(source, wanted)))
    if isinstance(source, Iterator):
        return _kept(batches_of_parts(source, wanted))
    raise AssistantInputError(
        "source must be a dataframe (pandas, polars, pyarrow, DuckDB, …), a list of mappings, a path of Parquet, CSV "
        f"or JSON lines, several of these, or a callable that returns one of these, not {type(source).__name__}",
        field="source",
    )


def _in_memory(source: Any) -> Any:
    """
    Convert a lazy sequence, such as the XComs of a mapped task, to a list or an iterator.

    Rows and paths are small and fit into a list. Dataframes and lists of rows are fetched one after the other.
    """
    if not isinstance(source, Sequence) or isinstance(source, str | bytes | list | tuple):
        return source
    parts = iter(source)
    first = next(parts, None)
    if first is None or isinstance(first, Mapping | str | Path | ObjectStoragePath):
        return list(source)
    return itertools.chain([first], parts)


def _is_part(source: Any) -> bool:
    return isinstance(source, Mapping) or (isinstance(source, list | tuple) and is_rows(source))


def row_group_shards(path: str, rows: int = 100_000) -> list[dict[str, Any]]:
    """
    Split Parquet files into shards of whole row groups, for ``.expand(source=…)``.

    :param path: Path, object storage URL, glob or folder.
    :param rows: Approximate number of rows per shard; row groups are never split. Default: 100,000.
    :return: One mapping per shard, with the keys ``path`` and ``row_groups``.
    :raises AssistantInputError: There are no files.
    """
    import pyarrow.parquet as pq

    shards: list[dict[str, Any]] = []
    for file, _ in _files_of(path) or ():
        with file.open("rb") as opened:
            metadata = pq.ParquetFile(opened).metadata
        taken = 0
        for group in range(metadata.num_row_groups):
            if not taken:
                shards.append({"path": str(file), "row_groups": []})
            shards[-1]["row_groups"].append(group)
            taken += metadata.row_group(group).num_rows
            if taken >= rows:
                taken = 0
    return shards


def storage_files(source: Any, root: str | None = None, *, allow_empty: bool = False) -> list[tuple[str, Path_]]:
    """
    List the files of a path, object storage URL, glob or folder, in order.

    Files whose names start with a dot or an underscore, such as ``_SUCCESS``, are skipped.

    :param source: Path, URL, glob or folder, or a list of these.
    :param root: Folder that must contain all files after symbolic links are resolved. None allows every folder.
    :param allow_empty: Whether folders and globs may match no files. Default: False.
    :return: Pairs of name and path, each file once. The name of a file in a folder or glob is its path relative to
        that folder, so that it does not change when the folder moves.
    :raises AssistantInputError: A file does not exist, there are no files, or a file is outside ``root``.
    """
    found: list[tuple[str, Path_]] = []
    for path in map(storage_path, source if isinstance(source, list | tuple) else [source]):
        if path.is_dir():
            found += _below(path, path.rglob("*"))
        elif (split := _split_glob(str(path)))[1]:
            folder = storage_path(split[0])
            found += _below(folder, folder.glob(split[1]))
        elif path.is_file():
            found.append((str(path), path))
        else:
            raise AssistantInputError(f"file {str(path)!r} does not exist", field="source")
    if not found and not allow_empty:
        raise AssistantInputError(
            f"there are no files in {source!r}; nothing was sent. If it may be empty, set allow_empty=True",
            field="source",
        )
    for _, path in found:
        check_inside(path, _root(root))
    # A file that is listed twice counts once, under its first name.
    once: dict[str, tuple[str, Path_]] = {}
    for name, path in found:
        once.setdefault(str(path), (name, path))
    return list(once.values())


def files_in(source: Any) -> list[Data]:
    """
    Return the files that a source refers to, without accessing them, for lineage.

    :param source: Any source that :func:`open_source` takes.
    :return: One entry per path, URL or folder; a glob is represented by its folder. Empty for rows and dataframes.
    """
    if isinstance(source, Mapping) and "row_groups" in source:
        source = source["path"]
    paths = source if isinstance(source, list | tuple) else [source]
    named = (str(path) for path in paths if isinstance(path, str | Path | ObjectStoragePath))
    return [Data(uri) for uri in dict.fromkeys(_split_glob(path)[0] for path in named)]


def _split_glob(path: str) -> tuple[str, str]:
    """Split a glob into folder and pattern; the pattern is empty if the path is not a glob."""
    parts = path.split("/")
    first = next((number for number, part in enumerate(parts) if "*" in part or "?" in part), None)
    if first is None:
        return path, ""
    return "/".join(parts[:first]) or ("/" if path.startswith("/") else "."), "/".join(parts[first:])


def _root(root: str | None) -> Path_ | None:
    return None if root is None else storage_path(root)


def storage_path(path: Any) -> Path_:
    """
    Return a path object for a local path or an object storage URL.

    :param path: Text or a path object.
    :return: An ``ObjectStoragePath`` for a URL, otherwise a ``Path``.
    :raises AssistantInputError: The value is neither a path nor a URL, or no installed package reads such URLs.
    """
    if isinstance(path, ObjectStoragePath | Path):
        return path
    if isinstance(path, str) and path.strip():
        return _object_storage_path(path) if "://" in path else Path(path)
    if isinstance(path, os.PathLike):
        return Path(path)
    raise AssistantInputError(
        f"a file must be a path or an object storage URL, not {type(path).__name__}", field="file"
    )


def _object_storage_path(url: str) -> ObjectStoragePath:
    try:
        path = ObjectStoragePath(url)
        # Without this, a load would learn that it cannot write its findings only after its requests.
        _ = path.fs
    except (ValueError, ImportError) as error:
        raise AssistantInputError(f"{url!r} cannot be used as a file: {error}", field="file") from error
    return path


def _below(root: Path_, entries: Iterable[Path_]) -> list[tuple[str, Path_]]:
    """Return name and path of the files among the entries, sorted by name, without hidden files."""
    named = ((_name_below(root, entry), entry) for entry in entries if entry.is_file())
    return sorted(
        ((name, entry) for name, entry in named if not any(part.startswith((".", "_")) for part in name.split("/"))),
        key=lambda found: found[0],
    )


def _name_below(root: Path_, entry: Path_) -> str:
    # Check for ObjectStoragePath first: on Airflow 3.1 it is also a Path, and its relative_to returns the whole URL.
    if isinstance(root, ObjectStoragePath):
        return str(entry)[len(str(root)) :].lstrip("/")
    return str(entry.relative_to(root))


def _is_dataframe(source: Any) -> bool:
    """Return whether a source is a table in memory, which can be streamed repeatedly."""
    kind = type(source)
    package = kind.__module__.partition(".")[0]
    return hasattr(source, "__arrow_c_stream__") and (package, kind.__name__) in {
        ("pandas", "DataFrame"),
        ("polars", "DataFrame"),
        ("pyarrow", "Table"),
    }


def _files_of(
    source: Any, root: str | None = None, allow_empty: bool = False
) -> list[tuple[Path_, list[int] | None]] | None:
    """Return pairs of file and row groups to read, or None if the source does not consist of files."""
    if isinstance(source, Mapping) and set(source) == {"path", "row_groups"}:
        path = storage_path(source["path"])
        check_inside(path, _root(root))
        return [(path, list(source["row_groups"]))]
    is_path = isinstance(source, str | Path | ObjectStoragePath)
    is_paths = isinstance(source, list | tuple) and all(isinstance(p, str | Path | ObjectStoragePath) for p in source)
    if not is_path and not (is_paths and source):
        return None
    return [(path, None) for _, path in storage_files(source, root, allow_empty=allow_empty)]


def _batches_of_files(
    files: Sequence[tuple[Path_, list[int] | None]], wanted: Wanted, options: CsvOptions, root: str | None
) -> Iterator[Batch]:
    for path, row_groups in files:
        # Check in each pass: a symbolic link may have changed since the first one.
        check_inside(path, _root(root))
        yield from read_file(path, wanted, options, row_groups)


def _kept(batches: Iterator[Batch]) -> Source:
    """Buffer a source that can be read only once in a temporary file."""
    file: BinaryIO = tempfile.TemporaryFile(prefix="assistant-source-")  # noqa: SIM115
    try:
        for batch in batches:
            pickle.dump(batch, file, protocol=pickle.HIGHEST_PROTOCOL)
    except BaseException:
        file.close()
        raise

    def buffered() -> Iterator[Batch]:
        file.seek(0)
        with contextlib.suppress(EOFError):
            while True:
                yield pickle.load(file)  # noqa: S301 (written above, to an unnamed file)

    return Source(lambda: number(buffered()), file.close)
