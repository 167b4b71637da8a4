"""
Any dataframe, and files of rows, as batches.

A load reads its source twice: once to look at all of it before the first request, once to send. Sources that
can be read only once are kept in a temporary file in between. Neither pass holds more than a batch.
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

# So much is said of the columns where a source is only described.
NAMES_LENGTH = 200


class Source:
    """
    Rows that can be read more than once.

    :param batches: Starts reading from the beginning.
    :param close: Removes what was kept meanwhile.
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
    A source as it was given: Airflow neither renders its texts nor calls it, and shows it in a few words.

    :param value: Rows, a dataframe, a callable or an iterator.
    """

    def __init__(self, value: Any) -> None:
        self.value = value

    def serialize(self) -> str:
        """Return the words; Airflow asks for them under this name."""
        source, kind = self.value, type(self.value).__name__
        if _is_dataframe(source):
            names = source.column_names if hasattr(type(source), "column_names") else source.columns
        elif isinstance(source, list | tuple):
            # What else is among them, the load will say.
            names = dict.fromkeys(name for row in source[:BATCH] if isinstance(row, Mapping) for name in row)
        else:
            return f"{getattr(source, '__qualname__', kind)}()" if callable(source) else kind
        count = f"{len(source):,} row{'' if len(source) == 1 else 's'}"
        said = ", ".join(map(str, names))
        return f"{kind}, {count}: {said if len(said) <= NAMES_LENGTH else f'{said[: NAMES_LENGTH - 1]}…'}"


def as_given(source: Any) -> Any:
    """
    Keep Airflow from rendering, calling or showing at length what is no template.

    Rows are content: one about Jinja must arrive as it is. A callable would be called with Airflow's context.
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
    Prepare any source for reading.

    :param source: A dataframe or anything else that speaks the Arrow C stream protocol (pandas, polars, pyarrow,
        DuckDB); a list of mappings; a path, object storage URL, glob, folder, or list of these, of Parquet, CSV
        or JSON lines; a mapping with ``path`` and ``row_groups``, see :func:`row_group_shards`; several dataframes
        or lists of mappings, such as the output of a mapped task; or a callable that returns any of these, or
        yields batches of them. Any of these may be :class:`Given`.
    :param wanted: The columns to read.
    :param root: Folder that all files have to lie in, once symbolic links are followed.
    :param csv_options: How CSV files are written, see :class:`CsvOptions`.
    :param allow_empty: Whether a folder or glob may have no files.
    :raises AssistantInputError: It is none of these, has not the columns, or a file lies elsewhere.
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
    Return a sequence that fetches its items one by one as what it stands for.

    Airflow gives the outputs of a mapped task as such a sequence. Rows and paths are small; tables and lists of rows
    are fetched one after the other.
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
    Cut Parquet files into shards of whole row groups, for ``.expand(source=…)``.

    :param path: Path, object storage URL, glob or folder.
    :param rows: About how many rows a shard has; a row group is never cut.
    :return: One mapping per shard: ``path`` and ``row_groups``.
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
    Return the files that a path, object storage URL, glob, folder, or list of these stands for, in order.

    Hidden files and those that writers leave beside their data (``_SUCCESS``) are no data.

    :param source: The path, URL, glob, folder or list.
    :param root: Folder that all of them have to lie in, once symbolic links are followed.
    :param allow_empty: Whether folders and globs may have no files.
    :return: Name and path of each file, each file once; the name of a file in a folder or glob is its path from
        there, so that it stays the same when the folder moves.
    :raises AssistantInputError: There are none, or one lies elsewhere.
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
            f"there are no files in {source!r}; nothing was sent. If that may be so: allow_empty=True", field="source"
        )
    for _, path in found:
        check_inside(path, _root(root))
    # A file that is named twice counts once, under its first name.
    once: dict[str, tuple[str, Path_]] = {}
    for name, path in found:
        once.setdefault(str(path), (name, path))
    return list(once.values())


def files_in(source: Any) -> list[Data]:
    """
    Return the files that a source names, without looking at them; rows and dataframes name none.

    A glob stands for the folder that it looks in.
    """
    if isinstance(source, Mapping) and "row_groups" in source:
        source = source["path"]
    paths = source if isinstance(source, list | tuple) else [source]
    named = (str(path) for path in paths if isinstance(path, str | Path | ObjectStoragePath))
    return [Data(uri) for uri in dict.fromkeys(_split_glob(path)[0] for path in named)]


def _split_glob(path: str) -> tuple[str, str]:
    """Return the folder that a glob looks in, and the pattern; the path itself and nothing, where it is none."""
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

    :raises AssistantInputError: It is neither.
    """
    if isinstance(path, ObjectStoragePath | Path):
        return path
    if isinstance(path, str) and path.strip():
        return ObjectStoragePath(path) if "://" in path else Path(path)
    if isinstance(path, os.PathLike):
        return Path(path)
    raise AssistantInputError(
        f"a file must be a path or an object storage URL, not {type(path).__name__}", field="file"
    )


def _below(root: Path_, entries: Iterable[Path_]) -> list[tuple[str, Path_]]:
    """Return the files among these, by their paths from the root, without the hidden ones."""
    named = ((_name_below(root, entry), entry) for entry in entries if entry.is_file())
    return sorted(
        ((name, entry) for name, entry in named if not any(part.startswith((".", "_")) for part in name.split("/"))),
        key=lambda found: found[0],
    )


def _name_below(root: Path_, entry: Path_) -> str:
    # Asked in this order: on Airflow 3.1 an ObjectStoragePath is a Path too, and its relative_to is the whole URL.
    if isinstance(root, ObjectStoragePath):
        return str(entry)[len(str(root)) :].lstrip("/")
    return str(entry.relative_to(root))


def _is_dataframe(source: Any) -> bool:
    """Whether it is a table in memory, which can be streamed as often as one likes."""
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
    """Return files and the row groups to read of each, or None where the source is something else."""
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
        # Once more: a link may lead elsewhere by the time of the second look.
        check_inside(path, _root(root))
        yield from read_file(path, wanted, options, row_groups)


def _kept(batches: Iterator[Batch]) -> Source:
    """Write a source that can be read once to a temporary file, to be read from there."""
    file: BinaryIO = tempfile.TemporaryFile(prefix="assistant-source-")  # noqa: SIM115
    try:
        for batch in batches:
            pickle.dump(batch, file, protocol=pickle.HIGHEST_PROTOCOL)
    except BaseException:
        file.close()
        raise

    def again() -> Iterator[Batch]:
        file.seek(0)
        with contextlib.suppress(EOFError):
            while True:
                yield pickle.load(file)  # noqa: S301 (written above, in a file without a name)

    return Source(lambda: number(again()), file.close)
