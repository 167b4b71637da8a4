"""The folder of a run, and the earlier runs beside it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import accumulate, chain, compress, islice, pairwise
from typing import TYPE_CHECKING, TypeVar

from airflow.providers.common.compat.sdk import ObjectStoragePath
from pydantic import ValidationError

from airflow_provider_assistant.evaluation.summary import Summary
from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.names import file_name
from airflow_provider_assistant.storage.opening import object_storage_path

if TYPE_CHECKING:
    import pyarrow as pa

SCORES, SUMMARY, REPORT, VERDICTS = "scores.parquet", "summary.json", "report.html", "verdicts.parquet"
# Columns of ``scores.parquet`` beside those of the scorers.
COLUMNS = (
    *("key", "repetition", "conversation", "case", "request_id", "status"),
    *("weight", "tags", "passed", "errors"),
)
# Four weeks of nights, so that each day of the week counts the same.
COMPARED_RUNS = 28
# Number of the last nights, this one included, that are also compared together.
TOGETHER = 3
# Value of ``baseline``: the last runs of the same name.
PREVIOUS = "previous"
# Format of the time with which the name of a run's folder begins, so that names sort in the order of the runs.
TIME = "%Y-%m-%dT%H-%M-%S.%fZ"
# Number of files that are read at the same time.
_READERS = 8
Item = TypeVar("Item")
Read = TypeVar("Read")


@dataclass(frozen=True, slots=True)
class RunFolder:
    """The folder of an evaluation. ``summary.json`` is written last, so a folder without it is incomplete."""

    path: ObjectStoragePath

    @classmethod
    def of(cls, output_path: str, name: str, moment: datetime, run_id: str) -> RunFolder:
        """
        Return the folder for a run.

        :param moment: The ``run_after`` of the DAG run, by which runs are ordered.
        """
        # "." and ".." would select another folder.
        is_plain = re.fullmatch(r"[A-Za-z0-9_.-]+", name) and name.strip(".")
        safe_run_id = re.sub(r"[^A-Za-z0-9_.-]", "_", run_id)
        folder = f"{moment.astimezone(UTC):{TIME}}_{safe_run_id}"
        return cls(object_storage_path(output_path) / (name if is_plain else file_name(name)) / folder)

    @property
    def scores(self) -> ObjectStoragePath:
        """Path of the matrix of scores."""
        return self.path / SCORES

    @property
    def summary(self) -> ObjectStoragePath:
        """Path of the summary."""
        return self.path / SUMMARY

    @property
    def report(self) -> ObjectStoragePath:
        """Path of the report."""
        return self.path / REPORT

    @property
    def verdicts(self) -> ObjectStoragePath:
        """Path of the verdicts of the judges."""
        return self.path / VERDICTS

    @property
    def time(self) -> datetime:
        """The ``run_after`` of the run, from the name of the folder."""
        return datetime.strptime(_time_of(self.path.name), TIME).replace(tzinfo=UTC)

    def check_owner(self, run: Mapping[str, str | None]) -> None:
        """
        Check that the folder does not hold the evaluation of another task instance.

        :param run: Ids of the task instance, as in the summary.
        """
        summary = self.read_summary()
        ids = ("dag_id", "task_id", "run_id", "map_index", "region")
        owner = {name: summary.run.get(name) for name in ids} if summary else {}
        if summary and owner != {name: run.get(name) for name in ids}:
            shown = ", ".join(f"{name} {value}" for name, value in owner.items())
            raise AssistantInputError(
                f"{str(self.path)!r} holds the evaluation of {shown}",
                todo="Give this one another name or output_path.",
                field="name",
            )

    def read_summary(self) -> Summary | None:
        """Return the summary, or None if the file does not exist."""
        try:
            return Summary.model_validate_json(self.summary.read_bytes())
        except (FileNotFoundError, NotADirectoryError):
            return None
        except ValidationError as error:
            raise AssistantInputError(
                f"{str(self.summary)!r} is not a summary of an evaluation: {error}",
                todo="Delete the file or its folder if it is not needed.",
            ) from error

    def read_scores(self) -> pa.Table:
        """Return the matrix of scores."""
        import pyarrow.parquet as pq

        try:
            with self.scores.open("rb") as file:
                return pq.ParquetFile(file).read()
        except (OSError, ValueError) as error:
            raise AssistantInputError(
                f"baseline {str(self.scores)!r} cannot be read: {error}", field="baseline"
            ) from error


@dataclass(frozen=True, slots=True)
class EarlierRun:
    """
    An earlier run.

    :param is_compared: Whether a run is compared with it; one that got worse is not.
    """

    folder: RunFolder
    summary: Summary
    is_compared: bool = True


def runs_in(folder: ObjectStoragePath) -> list[RunFolder]:
    """Return the runs of one name, also incomplete ones, earliest first."""
    if not folder.is_dir():
        return []
    return [RunFolder(folder / name) for name in sorted(entry.name for entry in folder.iterdir()) if _time_of(name)]


def earlier_runs(place: RunFolder, baseline: str | None) -> list[EarlierRun]:
    """
    Return the runs to compare with, latest first, and the last two before this one.

    :param baseline: ``previous``: the last 28 runs before this one that did not get worse; the path of the folder of
        one run; or None for no comparison.
    :raises AssistantInputError: The path is not an evaluation, or a summary cannot be read.
    """
    if baseline is None:
        return []
    if baseline != PREVIOUS:
        return [_run_at(baseline, place)]
    own_time = _time_of(place.path.name)
    before = [run for run in runs_in(place.path.parent) if _time_of(run.path.name) < own_time]
    return _chosen(before[::-1])


def kept_for_comparison(folder: ObjectStoragePath) -> list[RunFolder]:
    """Return the runs of one name that the next run may compare with."""
    return [run.folder for run in _chosen(runs_in(folder)[::-1])]


def side_by_side(read: Callable[[Item], Read], items: Iterable[Item]) -> list[Read]:
    """Read several files at the same time, because object storages answer slowly."""
    with ThreadPoolExecutor(_READERS) as pool:
        return list(pool.map(read, items))


def compared_runs(are_worse: Iterable[bool]) -> Iterator[bool]:
    """
    Yield for each earlier run, latest first, whether to compare with it.

    Runs are chosen by whether they got worse, not by whether they passed: of the runs that passed, chance would choose
    the lucky ones. A run that got worse is left out, unless the runs beside it did not: then it was chance. As long as
    answers stay worse, they are compared with those before the loss.

    :param are_worse: Whether each run got worse, latest first.
    """
    # The verdict on the run after the last one is not known yet.
    later_is_worse = True
    for is_worse, earlier_is_worse in pairwise(chain(are_worse, [False])):
        yield not (is_worse and (later_is_worse or earlier_is_worse))
        later_is_worse = is_worse


def _chosen(latest_first: Iterable[RunFolder]) -> list[EarlierRun]:
    """Return the runs to compare with; of the summaries, only as many as needed are read."""
    known: list[tuple[RunFolder, Summary]] = []
    flags: list[bool] = []
    folders = iter(latest_first)
    while sum(flags) < COMPARED_RUNS and (batch := list(islice(folders, COMPARED_RUNS))):
        summaries = side_by_side(RunFolder.read_summary, batch)
        known += [(folder, summary) for folder, summary in zip(batch, summaries, strict=True) if summary]
        flags = list(compared_runs(summary.gate.is_worse for _folder, summary in known))
    runs = [EarlierRun(*run, flag) for run, flag in zip(known, flags, strict=True)]
    is_needed = [count <= COMPARED_RUNS for count in accumulate(flags)]
    needed = list(compress(runs, is_needed))
    return [run for position, run in enumerate(needed) if run.is_compared or position < TOGETHER - 1]


def _run_at(path: str, place: RunFolder) -> EarlierRun:
    folder = object_storage_path(path)
    # The path of the summary, the report or the scores is that of their folder.
    run = RunFolder(folder.parent if folder.name in {SUMMARY, SCORES, REPORT} else folder)
    if str(run.path).rstrip("/") == str(place.path).rstrip("/"):
        raise AssistantInputError("baseline is the output folder of this run itself", field="baseline")
    summary = run.read_summary()
    if summary is None:
        raise AssistantInputError(
            f"baseline {str(run.path)!r} has no {SUMMARY}: it is not an evaluation, or an incomplete one",
            todo="Set baseline to 'previous', or to the folder of an evaluation.",
            field="baseline",
        )
    return EarlierRun(run, summary)


def _time_of(name: str) -> str:
    """Return the time with which the name of a run's folder begins, or an empty text for another folder."""
    match = re.match(r"(\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d\.\d{6}Z)_", name)
    return match[1] if match else ""
