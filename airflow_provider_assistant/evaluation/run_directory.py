"""
Find the earlier evaluations of a run, and the baseline among them.

The name of a run's folder begins with the time of the run, so names sort in the order of the runs without opening any
file. ``summary.json`` is written last: a folder without it is an incomplete evaluation.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice, tee
from typing import TYPE_CHECKING

from airflow.providers.common.compat.sdk import ObjectStoragePath
from pydantic import ValidationError

from airflow_provider_assistant.evaluation.baseline import Baseline, EarlierRun, compared_runs
from airflow_provider_assistant.evaluation.change import TOGETHER
from airflow_provider_assistant.evaluation.judge_summary import JudgeSummary
from airflow_provider_assistant.evaluation.kept_answers import read_answers
from airflow_provider_assistant.evaluation.rules import PREVIOUS, BaselineOf
from airflow_provider_assistant.evaluation.scored import COLUMNS
from airflow_provider_assistant.evaluation.summary import Summary
from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.names import file_name
from airflow_provider_assistant.storage.paths import object_storage_path

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_assistant.evaluation.case import Case

SCORES, SUMMARY, REPORT, VERDICTS = "scores.parquet", "summary.json", "report.html", "verdicts.parquet"
BASELINE_VERDICTS = "baseline_verdicts.parquet"
ANSWERS = "answers.parquet"
# Format of the time with which the name of a run's folder begins.
TIME = "%Y-%m-%dT%H-%M-%S.%fZ"
# Number of earlier runs in the trend.
TREND = 30
# Number of earlier runs to compare with: four weeks of nights, so that each day of the week counts the same.
COMPARED_RUNS = 28


@dataclass(frozen=True, slots=True)
class RunDirectory:
    """The folder of an evaluation, and the paths of its files."""

    folder: ObjectStoragePath

    @classmethod
    def of(cls, output_path: str, name: str, moment: datetime, run_id: str) -> RunDirectory:
        """
        Return the folder for a run.

        :param output_path: Folder of all evaluations: a local path or an object storage URL.
        :param name: Name of the evaluation, which becomes a folder in ``output_path``.
        :param moment: The ``run_after`` of the DAG run, by which runs are ordered.
        """
        safe_run_id = re.sub(r"[^A-Za-z0-9_.-]", "_", run_id)
        stamp = f"{moment.astimezone(UTC):{TIME}}"
        return cls(object_storage_path(output_path) / _folder_name(name) / f"{stamp}_{safe_run_id}")

    @property
    def scores(self) -> ObjectStoragePath:
        """Path of the scores, a Parquet file with one row per question and scorer."""
        return self.folder / SCORES

    @property
    def summary(self) -> ObjectStoragePath:
        """Path of the summary. The file exists only if the evaluation is complete."""
        return self.folder / SUMMARY

    @property
    def report(self) -> ObjectStoragePath:
        """Path of the report, an HTML file."""
        return self.folder / REPORT

    @property
    def answers(self) -> ObjectStoragePath:
        """Path of the answers, a Parquet file. A later evaluation shows them beside its own."""
        return self.folder / ANSWERS

    @property
    def verdicts(self) -> ObjectStoragePath:
        """Path of the verdicts of the judges, a Parquet file. It exists only if a scorer is a judge."""
        return self.folder / VERDICTS

    @property
    def baseline_verdicts(self) -> ObjectStoragePath:
        """Path of the verdicts on other answers that the evaluation is compared with."""
        return self.folder / BASELINE_VERDICTS

    def check_owner(self, run: Mapping[str, str | None]) -> None:
        """
        Check that the folder does not contain the evaluation of another task instance.

        :param run: Ids of the task instance, as in the summary.
        """
        summary = self.read_summary()
        if summary is None:
            return
        ids = ("dag_id", "task_id", "run_id", "map_index", "region")
        owner = {name: summary.run.get(name) for name in ids}
        if owner != {name: run.get(name) for name in ids}:
            owner_ids = ", ".join(f"{name} {value}" for name, value in owner.items())
            raise AssistantInputError(
                f"{str(self.folder)!r} holds the evaluation of {owner_ids}",
                todo="Give this one another name or output_path.",
                field="name",
            )

    def read_summary(self) -> Summary | None:
        """
        Return the summary, or None if the file does not exist.

        :raises AssistantInputError: The file exists but is not a summary.
        """
        try:
            content = self.summary.read_bytes()
        except FileNotFoundError:
            return None
        try:
            return Summary.model_validate_json(content)
        except ValidationError as error:
            raise AssistantInputError(
                f"{str(self.summary)!r} is not a summary of an evaluation: {error}",
                todo="Delete the file or its folder if it is not needed.",
            ) from error

    def earlier(self) -> Iterator[tuple[RunDirectory, Summary]]:
        """Yield the complete evaluations of whole golden sets by runs before this one, latest first."""
        if not self.folder.parent.is_dir():
            return
        own_time = _time_of_run(self.folder.name)
        names = [entry.name for entry in self.folder.parent.iterdir()]
        for name in sorted(names, reverse=True):
            if not _is_run(name) or _time_of_run(name) >= own_time:
                continue
            directory = RunDirectory(self.folder.parent / name)
            summary = directory.read_summary()
            if summary and summary.part is None:
                yield directory, summary

    def name_before(self, keys: Collection[str]) -> str | None:
        """
        Return the name that this evaluation may have had: that of the latest other one of the same questions.

        :param keys: Keys of the questions. At least half of them must be the same.
        :return: None if the folder has no such evaluation.
        """
        folders = self.folder.parent.parent
        if not folders.is_dir():
            return None
        found: dict[str, str] = {}
        for folder in folders.iterdir():
            if folder.name == self.folder.parent.name or not folder.is_dir():
                continue
            # A file of another evaluation may be damaged.
            with contextlib.suppress(AssistantInputError):
                for directory, summary in islice(RunDirectory(folder / self.folder.name).earlier(), 1):
                    known_keys = set(_read_scores(directory.scores).column("key").to_pylist())
                    if 2 * len(known_keys.intersection(keys)) >= max(len(keys), len(known_keys)):
                        found[directory.folder.name] = summary.name
        if not found:
            return None
        return found[max(found)]

    def trend(self) -> list[Summary]:
        """Return the summaries of the last runs before this one, earliest first."""
        summaries = [summary for _, summary in islice(self.earlier(), TREND)]
        return summaries[::-1]


def runs_in(folder: ObjectStoragePath) -> list[RunDirectory]:
    """Return the evaluations of one name, also incomplete ones, earliest first."""
    names = [entry.name for entry in folder.iterdir()]
    return [RunDirectory(folder / name) for name in sorted(names) if _is_run(name)]


def time_of_run(directory: RunDirectory) -> datetime:
    """Return the ``run_after`` of an evaluation, from the name of its folder."""
    return datetime.strptime(_time_of_run(directory.folder.name), TIME).replace(tzinfo=UTC)


def kept_as_baseline(folder: ObjectStoragePath) -> list[RunDirectory]:
    """Return the evaluations of one name that a later run may compare with: the last ones, and those with a tag."""
    following = RunDirectory(folder / "9999-12-31T23-59-59.999999Z_next")
    earlier = list(following.earlier())
    flags = compared_runs(summary.is_worse for _, summary in earlier)
    kept = []
    compared = 0
    for (directory, summary), is_compared in zip(earlier, flags, strict=True):
        if compared < COMPARED_RUNS or summary.tag is not None:
            kept.append(directory)
        compared += is_compared
    return kept


def find_baseline(place: RunDirectory, wanted: BaselineOf | None) -> Baseline | None:
    """
    Return the evaluation to compare with, or None if there is none yet.

    :param wanted: ``previous``: the last runs of the same name before this one, without those that got worse; a mapping
        with ``tag``: the latest run before this one with that tag, whatever its verdict; the path of an evaluation's
        folder, summary or scores; or None for no baseline.
    :raises AssistantInputError: No evaluation has the tag, or the path has no evaluation.
    """
    if wanted is None:
        return None
    if isinstance(wanted, Mapping):
        return _baseline_with_tag(wanted["tag"], place)
    if wanted != PREVIOUS:
        return _baseline_at(object_storage_path(wanted), place)
    return _previous(place)


def _previous(place: RunDirectory) -> Baseline | None:
    """Return the last runs before this one, or None without any."""
    runs: list[EarlierRun] = []
    about: dict[str, str | None] | None = None
    cases: Sequence[Case] = ()
    earlier, for_flags = tee(place.earlier())
    flags = compared_runs(summary.is_worse for _, summary in for_flags)
    compared = 0
    for (directory, summary), is_compared in zip(earlier, flags, strict=True):
        compared += is_compared
        if is_compared and about is None:
            about = _about(directory.scores, summary)
            cases = read_answers(directory.folder / ANSWERS)
        if is_compared or len(runs) < TOGETHER - 1:
            runs.append(EarlierRun(_read_scores(directory.scores), _judges(summary), is_compared=is_compared))
        if compared == COMPARED_RUNS:
            break
    return Baseline(runs, about, cases) if about else None


def _baseline_with_tag(tag: str, run_directory: RunDirectory) -> Baseline:
    for directory, summary in run_directory.earlier():
        if summary.tag == tag:
            return _baseline(directory.scores, summary)
    folder = str(run_directory.folder.parent)
    raise AssistantInputError(
        f"baseline: no evaluation before this one in {folder!r} has the tag {tag!r}",
        todo=f"Set it in one with tag={tag!r}.",
        field="baseline",
    )


def _baseline_at(path: ObjectStoragePath, run_directory: RunDirectory) -> Baseline:
    """Return the baseline at the path of an evaluation's folder, summary or scores."""
    if path.name == SUMMARY:
        path = path.parent
    if path.is_dir():
        if str(path).rstrip("/") == str(run_directory.folder):
            raise AssistantInputError("baseline is the output folder of this run itself", field="baseline")
        summary = RunDirectory(path).read_summary()
        if summary is None:
            raise AssistantInputError(
                f"baseline {str(path)!r} has no {SUMMARY}: it is not an evaluation, or an incomplete one",
                field="baseline",
            )
        return _baseline(RunDirectory(path).scores, summary)
    if not path.is_file():
        raise AssistantInputError(f"baseline {str(path)!r} does not exist", field="baseline")
    summary = None
    # A file with another name is a copy, and a summary beside it may be of other scores.
    if path.name == SCORES:
        summary = RunDirectory(path.parent).read_summary()
    return _baseline(path, summary)


def _baseline(scores: ObjectStoragePath, summary: Summary | None) -> Baseline:
    if summary is not None and summary.part is not None:
        raise AssistantInputError(
            f"baseline {str(scores)!r} is only of a part of its golden set: {summary.part}", field="baseline"
        )
    run = EarlierRun(_read_scores(scores), _judges(summary) if summary else {})
    return Baseline([run], _about(scores, summary), read_answers(scores.parent / ANSWERS))


def _judges(summary: Summary) -> dict[str, JudgeSummary]:
    return {name: scorer.judge for name, scorer in summary.scorers.items() if scorer.judge}


def _about(scores: ObjectStoragePath, summary: Summary | None) -> dict[str, str | None]:
    return {
        "path": str(scores),
        "name": summary.name if summary else None,
        "run_id": summary.run.get("run_id") if summary else None,
        "tag": summary.tag if summary else None,
        "asked_at": summary.asked_at if summary else None,
    }


def _read_scores(scores: ObjectStoragePath) -> pa.Table:
    import pyarrow.parquet as pq

    try:
        with scores.open("rb") as file:
            # The other columns are as large as these, and up to 28 tables are in memory at once.
            table = pq.ParquetFile(file).read(columns=list(COLUMNS))
    except (OSError, ValueError) as error:
        raise AssistantInputError(f"baseline {str(scores)!r} cannot be read: {error}", field="baseline") from error
    missing = [name for name in COLUMNS if name not in table.column_names]
    if missing:
        raise AssistantInputError(
            f"baseline {str(scores)!r} is not a table of scores: it has no column {', '.join(missing)}",
            field="baseline",
        )
    return table


def _is_run(name: str) -> bool:
    return re.match(r"\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d\.\d{6}Z_", name) is not None


def _time_of_run(name: str) -> str:
    time, _, _ = name.partition("_")
    return time


def _folder_name(name: str) -> str:
    """Return the name of an evaluation as a folder: no other name has it, and it is in ``output_path``."""
    # "." and ".." would select another folder.
    if re.fullmatch(r"[A-Za-z0-9_.-]+", name) and name.strip("."):
        return name
    return file_name(name)
