"""The latest partitions of the lake, for trends: evaluations, statistics, feedback and limits."""

from __future__ import annotations

import contextlib
import logging
import re
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import quote

from airflow.providers.common.compat.sdk import ObjectStoragePath, conf

from airflow_provider_assistant.evaluation.scorers import SCORERS
from airflow_provider_assistant.lake.datasets import DATASETS
from airflow_provider_assistant.loading.findings import DAG_ID
from airflow_provider_assistant.operators.links import PAGES, task_path
from airflow_provider_assistant.ui.access import Rights
from airflow_provider_assistant.ui.models import Gate, Problem, Task, UnavailableError, model_of
from airflow_provider_assistant.ui.parquet_reader import ParquetReader
from airflow_provider_assistant.ui.trend_models import Evaluation

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger(__name__)

# Largest file that is read, in bytes, also unfolded, and maximum number of files per request.
MOST_BYTES, MOST_FILES = 20_000_000, 200
# Bytes of the tables that are kept.
MOST_CACHED = 100_000_000
# Number of evaluations among which the last one of each name is searched.
GATES = 40
MOST_GATES = 20
# Attributes of a file that change if it is replaced, by the names of several storages.
_VERSION_ATTRIBUTES = ("mtime", "LastModified", "ETag", "updated")
_PARTITION_NAME = re.compile(r"date=(\d{4}-\d\d-\d\d)")
NO_LAKE = (
    "This API server does not know where the datasets are. Set [assistant] lake_path to the folder that the exports "
    "write to (output_path) and evaluations to (lake_path)."
)
# Takes a row of a dataset.
IsSelected: TypeAlias = Callable[[Mapping[str, Any]], bool]

_cache: OrderedDict[tuple[LakeFile, tuple[str, ...]], tuple[str | None, pa.Table]] = OrderedDict()
_lock = Lock()


@dataclass(frozen=True, slots=True)
class LakeFile:
    """
    A file of a partition.

    :param path: Path of the file, with the protocol.
    :param url: Folder of the datasets, with the protocol.
    :param size: Size in bytes.
    :param version: Changes if the file is replaced.
    """

    dataset: str
    day: date
    path: str
    url: str
    size: int
    version: str


def lake_folder() -> str | None:
    """Return the folder of the datasets, ``[assistant] lake_path``, or None."""
    folder: str = conf.get("assistant", "lake_path", fallback="")
    return folder.strip() or None


def files_of(dataset: str, partitions: int) -> list[LakeFile]:
    """
    Return the files of the latest partitions of a dataset, latest day first.

    :param partitions: Number of days.
    :return: At most :data:`MOST_FILES` files; none if there is no such dataset.
    :raises UnavailableError: The lake is not configured, or its folder cannot be read.
    """
    url = lake_folder()
    if url is None:
        raise UnavailableError("no_lake", NO_LAKE)
    files: list[LakeFile] = []
    with _storage_errors(url):
        folder = ObjectStoragePath(url) / dataset
        # Object storage libraries cache listings for the life of the process.
        folder.fs.invalidate_cache()
        names = [entry.name for entry in _entries(folder) if _PARTITION_NAME.fullmatch(entry.name)]
        # The names of partitions sort like their days.
        for name in sorted(names, reverse=True)[:partitions]:
            files += _files_of_partition(folder, name, url)
            if len(files) >= MOST_FILES:
                break
    return files[:MOST_FILES]


def _files_of_partition(folder: ObjectStoragePath, partition_name: str, url: str) -> list[LakeFile]:
    """
    Return the Parquet files of a partition, last name first.

    :param folder: Folder of the dataset.
    :param url: Folder of all datasets.
    """
    files = []
    for entry in sorted(_entries(folder / partition_name), key=lambda entry: entry.name, reverse=True):
        # Readers of datasets ignore these: they are not data.
        is_hidden = entry.name.startswith((".", "_"))
        if is_hidden or not entry.name.endswith(".parquet"):
            continue
        size = int(entry.attributes.get("size") or 0)
        file = LakeFile(
            dataset=folder.name,
            day=date.fromisoformat(partition_name.removeprefix("date=")),
            path=str(folder / partition_name / entry.name),
            url=url,
            size=size,
            version=f"{size}-{_modified(entry.attributes)}",
        )
        files.append(file)
    return files


def _modified(attributes: dict[str, Any]) -> Any:
    """Return the first attribute that changes if the file is replaced, or None."""
    for name in _VERSION_ATTRIBUTES:
        if attributes.get(name):
            return attributes[name]
    return None


def tables_of(files: Sequence[LakeFile], columns: Sequence[str], rights: Rights) -> Iterator[tuple[LakeFile, pa.Table]]:
    """
    Yield the tables of files that tasks of readable DAGs wrote.

    :raises UnavailableError: A file cannot be read.
    """
    for file in files:
        with _storage_errors(file.url):
            dag_id, table = _table(file, tuple(columns))
        if rights.selected is None or dag_id in rights.selected:
            yield file, table


def _table(file: LakeFile, columns: tuple[str, ...]) -> tuple[str | None, pa.Table]:
    """Return the DAG that wrote a file, and its table. Cached: files are replaced as a whole."""
    with _lock:
        if (file, columns) in _cache:
            _cache.move_to_end((file, columns))
            return _cache[file, columns]
    found = _read(file, columns)
    with _lock:
        _cache[file, columns] = found
        while sum(table.nbytes for _, table in _cache.values()) > MOST_CACHED:
            _cache.popitem(last=False)
    return found


def _read(file: LakeFile, columns: tuple[str, ...]) -> tuple[str | None, pa.Table]:
    import pyarrow as pa
    import pyarrow.compute as pc

    if file.size > MOST_BYTES:
        raise ValueError(f"{file.path} is larger than {MOST_BYTES} bytes")
    schema = DATASETS[file.dataset].schema()
    schema = pa.schema([schema.field(name) for name in columns])
    batches = []
    with ParquetReader(file.path, "datasets") as reader, closing(reader.batches(schema)) as parts:
        for batch in parts:
            batches.append(batch)
            if sum(part.nbytes for part in batches) > MOST_BYTES:
                raise ValueError(f"{file.path} unfolds to more than {MOST_BYTES} bytes")
    encoded_dag_id = reader.metadata.get(DAG_ID)
    table = pa.Table.from_batches(batches, schema)
    for number, column in enumerate(table.columns):
        if pa.types.is_floating(column.type):
            # JSON has no NaN and no infinities.
            finite = pc.if_else(pc.is_finite(column), column, None)
            table = table.set_column(number, schema.field(number), finite)
    return encoded_dag_id.decode() if encoded_dag_id else None, table


# Columns of the dataset that have the same value in all rows of an evaluation.
_EVALUATION_FIELDS = ("name", "site_id", "verdict", "questions", "answered", "coverage", "pass_rate")
_TASK_COLUMNS = ("dag_id", "run_id", "task_id", "map_index")
_TIME_COLUMNS = ("asked_at", "logical_date")
# Columns with one value per scorer.
_SCORER_COLUMNS = ("scorer", "mean", "difference_low", "difference_high")
_COLUMNS = ("service", "tenant_id", *_EVALUATION_FIELDS, *_TASK_COLUMNS, *_TIME_COLUMNS, *_SCORER_COLUMNS)


def evaluations(rights: Rights, limit: int, name: str | None, is_selected: IsSelected) -> list[Evaluation]:
    """
    Return the last evaluations, earliest first.

    :param name: None for all.
    :param is_selected: Returns whether to return the evaluation of a row, which has the columns of its site.
    :raises UnavailableError: The lake cannot be read.
    """
    found: list[Evaluation] = []
    # A file has the evaluations of one run of one task: usually one.
    for file, table in tables_of(files_of("evaluations", MOST_FILES), _COLUMNS, rights):
        # The rows of each evaluation: one per scorer.
        rows_by_evaluation: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
        for row in table.to_pylist():
            rows_by_evaluation.setdefault((row["name"], row["map_index"]), []).append(row)
        for (evaluation_name, _map_index), rows in rows_by_evaluation.items():
            if name in {None, evaluation_name} and is_selected(rows[0]):
                evaluation = _evaluation(file.day, rows, rights)
                if evaluation is not None:
                    found.append(evaluation)
        if len(found) >= limit:
            break
    return sorted(found[:limit], key=lambda evaluation: evaluation.at)


def gates(rights: Rights, is_selected: IsSelected) -> tuple[list[Gate], Problem | None]:
    """Return the last evaluation of each name, those that failed first, and why there are none."""
    try:
        found = evaluations(rights, GATES, None, is_selected)
    except UnavailableError as error:
        return [], error.problem
    evaluations_by_name: dict[str, list[Evaluation]] = {}
    for evaluation in found:
        evaluations_by_name.setdefault(evaluation.name, []).append(evaluation)
    latest_gates = [_gate(history) for history in evaluations_by_name.values()]
    latest_gates.sort(key=lambda gate: (gate.verdict != "failed", gate.name))
    return latest_gates[:MOST_GATES], None


def _gate(history: Sequence[Evaluation]) -> Gate:
    """
    Return the verdict of the last evaluation of a name.

    :param history: Its evaluations, earliest first.
    """
    latest = history[-1]
    pass_rate_before = None
    if len(history) > 1:
        pass_rate_before = history[-2].pass_rate
    return Gate(
        name=latest.name,
        verdict=latest.verdict,
        at=latest.at,
        pass_rate=latest.pass_rate,
        before=pass_rate_before,
        worse=latest.worse,
        report=latest.report,
        task=latest.task,
    )


def _evaluation(day: date, rows: Sequence[dict[str, Any]], rights: Rights) -> Evaluation | None:
    """
    Return an evaluation, or None if it has values that this package does not write.

    :param day: Day of the partition, for evaluations without a time of their own.
    :param rows: Its rows: one per scorer.
    """
    first_row = rows[0]
    task = {name: first_row[name] for name in _TASK_COLUMNS}
    if task["map_index"] is None:
        task["map_index"] = -1
    report: str | None = None
    path: str | None = None
    # Airflow has no page for a DAG that it no longer knows.
    if task["dag_id"] in rights.dags:
        quoted_key = "/".join(quote(str(part), safe="") for part in task.values())
        report = f"{PAGES}/reports/{quoted_key}"
        path = task_path(**task)
    midnight = datetime.combine(day, time(), UTC)
    return model_of(
        Evaluation,
        **{name: first_row[name] for name in _EVALUATION_FIELDS},
        at=first_row["asked_at"] or first_row["logical_date"] or midnight,
        means={row["scorer"]: row["mean"] for row in rows},
        worse=[row["scorer"] for row in rows if _is_worse(row)],
        report=report,
        task=Task(**task, path=path),
    )


def _is_worse(row: dict[str, Any]) -> bool:
    """Return whether the whole interval of a scorer's difference is on the bad side of zero."""
    scorer = SCORERS.get(row["scorer"])
    if scorer and not scorer.higher_is_better:
        return row["difference_low"] is not None and row["difference_low"] > 0
    return row["difference_high"] is not None and row["difference_high"] < 0


@dataclass(frozen=True, slots=True)
class _FolderEntry:
    """
    A file or folder in a folder.

    :param attributes: As the storage lists them: their names differ between storages.
    """

    name: str
    path: str
    attributes: dict[str, Any]


def _entries(folder: ObjectStoragePath) -> list[_FolderEntry]:
    """Return what is in a folder; nothing if it does not exist."""
    try:
        listing = folder.fs.ls(folder.path, detail=True)
    except FileNotFoundError:
        return []
    entries = []
    for attributes in listing:
        path = attributes["name"]
        name = path.rstrip("/").rpartition("/")[2]
        entries.append(_FolderEntry(name=name, path=path, attributes=attributes))
    return entries


@contextlib.contextmanager
def _storage_errors(url: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        # Storages raise any exception, and messages may contain credentials.
        log.warning("The lake %s cannot be read: %s", url, type(error).__name__)
        raise UnavailableError(
            "lake_unreadable",
            f"The folder of the datasets, {url}, cannot be read from this API server ({type(error).__name__}). Check "
            "[assistant] lake_path, and that the API server has access to it.",
        ) from error
