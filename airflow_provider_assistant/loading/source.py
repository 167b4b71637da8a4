"""
Any dataframe, and files of rows, as batches.

A load reads its source twice: once to look at all of it before the first request, once to send. Sources that
can be read only once are kept in a temporary file in between. Neither pass holds more than a batch.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import lzma
import os
import pickle
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Self, TypeAlias

from airflow.providers.common.compat.sdk import ObjectStoragePath

from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.lineage import Data
from airflow_provider_assistant.loading.rooted import check_inside

if TYPE_CHECKING:
    import pyarrow as pa

BATCH = 1000
SUFFIXES = {".parquet": "parquet", ".csv": "csv", ".jsonl": "json lines", ".ndjson": "json lines"}
COMPRESSED = {".gz", ".bz2", ".xz", ".zst"}
# So much is said of the columns where a source is only described.
NAMES_LENGTH = 200

Path_: TypeAlias = "Path | ObjectStoragePath"


@dataclass(frozen=True, slots=True)
class Batch:
    """
    Some rows, column by column.

    :param columns: The wanted columns, lists of the same length.
    :param start: Number of the first row in the source, from 1.
    """

    columns: dict[str, list[Any]]
    start: int

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))


@dataclass(frozen=True, slots=True)
class Wanted:
    """
    The columns a load reads.

    :param text: Those that have to be strings.
    :param any: Those that may be of any type, such as keys.
    :param rest: Whether to read all others as well.
    """

    text: tuple[str, ...]
    any: tuple[str, ...] = ()
    rest: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """Those that there must be, each once."""
        return tuple(dict.fromkeys(self.text + self.any))

    def among(self, present: Iterable[str]) -> tuple[str, ...]:
        """Return which of the columns that there are to read."""
        return tuple(present) if self.rest else self.names

    def check(self, present: Iterable[str]) -> None:
        """
        Make sure that a source has them.

        :raises AssistantInputError: It has not; says which, and which it has.
        """
        present = list(present)
        if missing := [name for name in self.names if name not in present]:
            raise AssistantInputError(
                f"source has no column {', '.join(missing)}; it has {', '.join(map(str, present)) or 'none'}. Map "
                "other names with columns={field: column}, or give one value for all rows with "
                "constants={field: value}",
                field="columns",
            )

    def check_types(self, schema: pa.Schema) -> None:
        """
        Make sure that text columns hold text.

        :raises AssistantInputError: One does not.
        """
        from pyarrow import types

        self.check(schema.names)
        for name in self.text:
            kind = schema.field(name).type
            inner = kind.value_type if types.is_dictionary(kind) else kind
            if not (types.is_string(inner) or types.is_large_string(inner) or types.is_string_view(inner)):
                if types.is_null(inner):
                    continue
                raise AssistantInputError(
                    f"source column {name} is of type {kind}, but a document needs text; convert it first",
                    field=name,
                )


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
    is_rows = isinstance(source, list | tuple) and any(isinstance(row, Mapping) for row in source)
    is_table = hasattr(type(source), "__arrow_c_stream__")
    return Given(source) if is_rows or is_table or callable(source) or isinstance(source, Iterator) else source


def open_source(source: Any, wanted: Wanted, root: str | None = None) -> Source:
    """
    Prepare any source for reading.

    :param source: A dataframe or anything else that speaks the Arrow C stream protocol (pandas, polars, pyarrow,
        DuckDB); a list of mappings; a path, object storage URL, glob, folder, or list of these, of Parquet, CSV
        or JSON lines; a mapping with ``path`` and ``row_groups``, see :func:`row_group_shards`; or a callable
        that returns any of these, or yields batches of them. Any of these may be :class:`Given`.
    :param wanted: The columns to read.
    :param root: Folder that all files have to lie in, once symbolic links are followed.
    :raises AssistantInputError: It is none of these, has not the columns, or a file lies elsewhere.
    """
    if isinstance(source, Given):
        source = source.value
    if callable(source) and not hasattr(source, "__arrow_c_stream__"):
        source = source()
    if _is_dataframe(source) or _is_rows(source):
        return Source(lambda: _numbered(_columns_of(source, wanted)))
    files = _files_of(source, root)
    if files is not None:
        return Source(lambda: _numbered(_columns_of_files(files, wanted, root)))
    if hasattr(source, "__arrow_c_stream__"):
        return _kept(_columns_of(source, wanted))
    if isinstance(source, Iterator):
        return _kept(itertools.chain.from_iterable(_columns_of(part, wanted) for part in source))
    raise AssistantInputError(
        "source must be a dataframe (pandas, polars, pyarrow, DuckDB, …), a list of mappings, a path of Parquet, CSV "
        f"or JSON lines, or a callable that returns one of these, not {type(source).__name__}",
        field="source",
    )


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


def storage_files(source: Any, root: str | None = None) -> list[tuple[str, Path_]]:
    """
    Return the files that a path, object storage URL, glob, folder, or list of these stands for, in order.

    Hidden files and those that writers leave beside their data (``_SUCCESS``) are no data.

    :param source: The path, URL, glob, folder or list.
    :param root: Folder that all of them have to lie in, once symbolic links are followed.
    :return: Name and path of each; the name of a file in a folder or glob is its path from there, so that it
        stays the same when the folder moves.
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
    if not found:
        raise AssistantInputError(f"there are no files in {source!r}; nothing was sent", field="source")
    for _, path in found:
        check_inside(path, _root(root))
    return found


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


def _is_rows(source: Any) -> bool:
    return isinstance(source, Sequence) and all(isinstance(row, Mapping) for row in source)


def _columns_of(source: Any, wanted: Wanted) -> Iterator[dict[str, list[Any]]]:
    """Yield the wanted columns of a dataframe, a list of mappings or one mapping, in pieces."""
    if hasattr(source, "__arrow_c_stream__"):
        yield from _columns_of_arrow(_reader_of(source), wanted)
    elif hasattr(source, "__arrow_c_array__"):
        import pyarrow as pa

        yield from _columns_of_arrow([pa.record_batch(source)], wanted)
    elif isinstance(source, Mapping):
        yield from _columns_of_rows([source], wanted)
    elif _is_rows(source):
        yield from _columns_of_rows(source if isinstance(source, list | tuple) else list(source), wanted)
    else:
        raise AssistantInputError(
            f"source: a batch must be a dataframe or a list of mappings, not {type(source).__name__}", field="source"
        )


def _reader_of(source: Any) -> pa.RecordBatchReader:
    import pyarrow as pa

    try:
        return pa.RecordBatchReader.from_stream(source)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        # pandas finds out here that a column holds several types.
        raise AssistantInputError(f"source: the dataframe cannot be read: {error}", field="source") from error


def _columns_of_arrow(batches: Iterable[pa.RecordBatch], wanted: Wanted) -> Iterator[dict[str, list[Any]]]:
    checked = None
    for batch in batches:
        if batch.schema is not checked:
            wanted.check_types(batch.schema)
            checked = batch.schema
        names = wanted.among(batch.schema.names)
        selected = batch.select(names)
        for start in range(0, selected.num_rows, BATCH):
            piece = selected.slice(start, BATCH)
            yield {name: column.to_pylist() for name, column in zip(names, piece.columns, strict=True)}


def _columns_of_rows(rows: Sequence[Mapping[str, Any]], wanted: Wanted) -> Iterator[dict[str, list[Any]]]:
    for start in range(0, len(rows), BATCH):
        piece = rows[start : start + BATCH]
        present = dict.fromkeys(name for row in piece for name in row)
        if start == 0:
            wanted.check(present)
        # Further pieces may lack a column that none of their rows has.
        names = dict.fromkeys((*wanted.names, *wanted.among(present)))
        yield {name: [row.get(name) for row in piece] for name in names}


def _files_of(source: Any, root: str | None = None) -> list[tuple[Path_, list[int] | None]] | None:
    """Return files and the row groups to read of each, or None where the source is something else."""
    if isinstance(source, Mapping) and set(source) == {"path", "row_groups"}:
        path = storage_path(source["path"])
        check_inside(path, _root(root))
        return [(path, list(source["row_groups"]))]
    is_path = isinstance(source, str | Path | ObjectStoragePath)
    is_paths = isinstance(source, list | tuple) and all(isinstance(p, str | Path | ObjectStoragePath) for p in source)
    return [(path, None) for _, path in storage_files(source, root)] if is_path or (is_paths and source) else None


def _columns_of_files(
    files: Sequence[tuple[Path_, list[int] | None]], wanted: Wanted, root: str | None = None
) -> Iterator[dict[str, list[Any]]]:
    for path, row_groups in files:
        suffixes = [suffix for suffix in path.suffixes if suffix not in COMPRESSED]
        kind = SUFFIXES.get(suffixes[-1] if suffixes else "")
        if kind is None:
            raise AssistantInputError(
                f"{str(path)!r} is no Parquet, CSV or JSON lines file by its name ({', '.join(SUFFIXES)})",
                field="source",
            )
        # Once more: a link may lead elsewhere by the time of the second look.
        check_inside(path, _root(root))
        with contextlib.ExitStack() as stack:
            try:
                yield from _READERS[kind](stack, path, row_groups, wanted)
            except (OSError, ValueError, EOFError, zlib.error, lzma.LZMAError) as error:
                # pyarrow's own errors are ValueErrors and OSErrors; the others are those of compressed files.
                raise AssistantInputError(f"{str(path)!r} cannot be read: {error}", field="source") from error


def _columns_of_parquet(
    stack: contextlib.ExitStack, path: Path_, row_groups: list[int] | None, wanted: Wanted
) -> Iterator[dict[str, list[Any]]]:
    import pyarrow.parquet as pq

    opened = stack.enter_context(path.open("rb"))
    # Buffered, so that a large row group is read page by page and not at once.
    file = stack.enter_context(
        pq.ParquetFile(opened, buffer_size=1 << 20, pre_buffer=False, page_checksum_verification=True)
    )
    wanted.check_types(file.schema_arrow)
    columns = list(wanted.among(file.schema_arrow.names))
    batches = file.iter_batches(BATCH, row_groups=row_groups, columns=columns, use_threads=False)
    yield from _columns_of_arrow(batches, wanted)


def _columns_of_csv(
    stack: contextlib.ExitStack, path: Path_, _: list[int] | None, wanted: Wanted
) -> Iterator[dict[str, list[Any]]]:
    import pyarrow as pa
    from pyarrow import csv

    parse = csv.ParseOptions(newlines_in_values=True)
    with _uncompressed(path) as opened:
        present = csv.open_csv(opened, parse_options=parse).schema.names
        wanted.check(present)
    names = wanted.among(present)
    # Every column is text: a category "007" must not become 7. The others are not looked at.
    convert = csv.ConvertOptions(
        include_columns=names,
        column_types=dict.fromkeys(names, pa.string()),
        strings_can_be_null=False,
        quoted_strings_can_be_null=False,
    )
    opened = stack.enter_context(_uncompressed(path))
    yield from _columns_of_arrow(csv.open_csv(opened, parse_options=parse, convert_options=convert), wanted)


def _columns_of_json_lines(
    stack: contextlib.ExitStack, path: Path_, _: list[int] | None, wanted: Wanted
) -> Iterator[dict[str, list[Any]]]:
    lines = (line for line in stack.enter_context(_uncompressed(path)) if line.strip())
    while rows := [json.loads(line) for line in itertools.islice(lines, BATCH)]:
        if not _is_rows(rows):
            raise AssistantInputError(f"{str(path)!r}: every line must be a JSON object", field="source")
        yield from _columns_of_rows(rows, wanted)


def _uncompressed(path: Path_) -> Any:
    import fsspec

    if isinstance(path, ObjectStoragePath):
        return path.open("rb", compression="infer")
    return fsspec.open(str(path), "rb", compression="infer").open()


_READERS = {"parquet": _columns_of_parquet, "csv": _columns_of_csv, "json lines": _columns_of_json_lines}


def _numbered(pieces: Iterator[dict[str, list[Any]]]) -> Iterator[Batch]:
    start = 1
    for columns in pieces:
        batch = Batch(columns, start)
        if size := len(batch):
            yield batch
            start += size


def _kept(pieces: Iterator[dict[str, list[Any]]]) -> Source:
    """Write a source that can be read once to a temporary file, to be read from there."""
    file: BinaryIO = tempfile.TemporaryFile(prefix="assistant-source-")  # noqa: SIM115
    try:
        for columns in pieces:
            pickle.dump(columns, file, protocol=pickle.HIGHEST_PROTOCOL)
    except BaseException:
        file.close()
        raise

    def again() -> Iterator[dict[str, list[Any]]]:
        file.seek(0)
        with contextlib.suppress(EOFError):
            while True:
                yield pickle.load(file)  # noqa: S301 (written above, in a file without a name)

    return Source(lambda: _numbered(again()), file.close)
