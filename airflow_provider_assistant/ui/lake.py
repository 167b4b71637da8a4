"""The latest partitions of the lake, for trends: evaluations, statistics, feedback and limits."""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from airflow.providers.common.compat.sdk import ObjectStoragePath, conf

from airflow_provider_assistant.evaluation.scorers import SCORERS
from airflow_provider_assistant.operators.links import PAGES, task_path
from airflow_provider_assistant.ui.access import Rights
from airflow_provider_assistant.ui.models import Gate, Problem, Task, UnavailableError
from airflow_provider_assistant.ui.trend_models import Evaluation

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger(__name__)

# Largest file that is read, in bytes, and maximum number of files per request.
MOST_BYTES, MOST_FILES = 20_000_000, 200
# Number of evaluations among which the last one of each name is searched.
GATES = 40
MOST_GATES = 20
# Facts of a file that change if it is replaced, by the names of several storages.
_MODIFIED = ("mtime", "LastModified", "ETag", "updated", "last_modified")
NO_LAKE = (
    "This API server does not know where the datasets are. Set [assistant] lake_path to the folder that the exports "
    "write to (output_path) and evaluations to (lake_path)."
)


@dataclass(frozen=True, slots=True)
class LakeFile:
    """
    A file of a partition.

    :param path: Path of the file for its file system.
    :param url: Folder of the datasets, with the protocol.
    :param size: Size in bytes.
    :param version: Changes if the file is replaced.
    """

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
    found: list[LakeFile] = []
    with _storage_errors(url):
        folder = ObjectStoragePath(url) / dataset
        # Object storage libraries cache listings for the life of the process.
        folder.fs.invalidate_cache()
        days = [match for entry in _listed(folder) if (match := re.fullmatch(r"date=(\d{4}-\d\d-\d\d)", entry[0]))]
        for match in sorted(days, key=lambda match: match[1], reverse=True)[:partitions]:
            for name, path, facts in sorted(_listed(folder / match[0]), reverse=True):
                if name.endswith(".parquet") and not name.startswith((".", "_")):
                    size = int(facts.get("size") or 0)
                    moment = (
                        facts.get("mtime") or facts.get("LastModified") or facts.get("ETag") or facts.get("updated")
                    )
                    found.append(LakeFile(date.fromisoformat(match[1]), path, url, size, f"{size}-{moment}"))
            if len(found) >= MOST_FILES:
                break
    return found[:MOST_FILES]


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


@lru_cache(maxsize=600)
def _table(file: LakeFile, columns: tuple[str, ...]) -> tuple[str | None, pa.Table]:
    """Return the DAG that wrote a file, and its table. Cached: files are replaced as a whole."""
    import pyarrow.parquet as pq

    if file.size > MOST_BYTES:
        raise ValueError(f"{file.path} is larger than {MOST_BYTES} bytes")
    with ObjectStoragePath(file.url).fs.open(file.path, "rb") as opened:
        parquet = pq.ParquetFile(opened)
        metadata = parquet.schema_arrow.metadata or {}
        dag_id = metadata.get(b"assistant.dag_id")
        return dag_id.decode() if dag_id else None, parquet.read(list(columns), use_threads=False)


_EVALUATION = (
    *("name", "tag", "dag_id", "run_id", "task_id", "map_index", "logical_date", "asked_at", "verdict", "questions"),
    *("answered", "coverage", "pass_rate", "scorer", "mean", "difference_low", "difference_high"),
)


def evaluations(rights: Rights, limit: int, name: str | None = None) -> list[Evaluation]:
    """
    Return the last evaluations, earliest first.

    :param name: None for all.
    :raises UnavailableError: The lake cannot be read.
    """
    found: list[Evaluation] = []
    # A file has the evaluations of one run of one task: usually one.
    for file, table in tables_of(files_of("evaluations", MOST_FILES), _EVALUATION, rights):
        runs: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
        for row in table.to_pylist():
            runs.setdefault((row["name"], row["map_index"]), []).append(row)
        found += [_evaluation(file.day, rows, rights) for rows in runs.values() if name in {None, rows[0]["name"]}]
        if len(found) >= limit:
            break
    return sorted(found[:limit], key=lambda one: one.at)


def gates(rights: Rights) -> tuple[list[Gate], Problem | None]:
    """Return the last evaluation of each name, those that failed first, and why there are none."""
    try:
        found = evaluations(rights, GATES)
    except UnavailableError as error:
        return [], error.problem
    by_name: dict[str, list[Evaluation]] = {}
    for one in found:
        by_name.setdefault(one.name, []).append(one)
    latest = [
        Gate(
            **{name: getattr(runs[-1], name) for name in ("name", "verdict", "at", "pass_rate", "report", "task")},
            before=runs[-2].pass_rate if len(runs) > 1 else None,
            worse=runs[-1].worse,
        )
        for runs in by_name.values()
    ]
    return sorted(latest, key=lambda gate: (gate.verdict != "failed", gate.name))[:MOST_GATES], None


def _evaluation(day: date, rows: Sequence[dict[str, Any]], rights: Rights) -> Evaluation:
    head = rows[0]
    map_index = -1 if head["map_index"] is None else head["map_index"]
    task = {"dag_id": head["dag_id"], "run_id": head["run_id"], "task_id": head["task_id"], "map_index": map_index}
    report = "/".join(quote(str(part), safe="") for part in task.values())
    is_known = head["dag_id"] in rights.dags
    return Evaluation(
        **{name: head[name] for name in ("name", "tag", "verdict", "questions", "answered", "coverage", "pass_rate")},
        at=head["asked_at"] or head["logical_date"] or datetime.combine(day, time(), UTC),
        means={row["scorer"]: row["mean"] for row in rows},
        worse=[row["scorer"] for row in rows if _is_worse(row)],
        report=f"{PAGES}/reports/{report}" if is_known else None,
        task=Task(**task, path=task_path(**task) if is_known else None),
    )


def _is_worse(row: dict[str, Any]) -> bool:
    scorer = SCORERS.get(row["scorer"])
    if scorer and not scorer.higher_is_better:
        return row["difference_low"] is not None and row["difference_low"] > 0
    return row["difference_high"] is not None and row["difference_high"] < 0


def _listed(folder: ObjectStoragePath) -> list[tuple[str, str, dict[str, Any]]]:
    """Return name, path and facts of what is in a folder; nothing if it does not exist."""
    try:
        entries = folder.fs.ls(folder.path, detail=True)
    except FileNotFoundError:
        return []
    return [(entry["name"].rstrip("/").rpartition("/")[2], entry["name"], entry) for entry in entries]


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
