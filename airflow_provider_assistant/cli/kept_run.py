"""The folder in which ``evaluate`` keeps answers and verdicts as they arrive, until they are evaluated."""

from __future__ import annotations

import contextlib
import fcntl
import json
import shutil
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import sqlalchemy as sa
from airflow.providers.common.compat.sdk import ObjectStoragePath

from airflow_provider_assistant.chat_batch.state import BatchState
from airflow_provider_assistant.exceptions import NOTHING_SENT, AssistantInputError
from airflow_provider_assistant.ledger import Ledger, sqlite_engine
from airflow_provider_assistant.ledger.schema import chat_requests, leases

LOCK, ARGUMENTS, LEDGER = "lock", "run.json", "ledger.db"
# The answers of the site, and those of the site to compare with.
ANSWERS, OTHER_ANSWERS = OUTPUTS = ("answers", "baseline_answers")


class Kept(NamedTuple):
    """
    What a run has kept.

    :param answers: Number of answers.
    :param open_requests: Number of chat requests without an answer.
    """

    answers: int
    open_requests: int
    has_verdicts: bool


@dataclass(slots=True)
class KeptRun:
    """
    One run of ``evaluate``, which a later one can resume.

    :param folder: Folder of its files.
    :param id: Unique id, of which its sessions are made.
    :param is_finished: Whether nothing is left to ask or to evaluate, so that the folder can be deleted.
    """

    folder: Path
    id: str
    is_finished: bool = False

    def ledger(self) -> Ledger:
        """Open the ledger of this run, in which every question is claimed before it is sent."""
        ledger = Ledger(sqlite_engine(self.folder / LEDGER), warn_if_new=False)
        # The lock of the folder shows that the process is dead that left a lease.
        with ledger.engine.begin() as connection:
            connection.execute(sa.delete(leases))
        return ledger

    def output(self, name: str) -> ObjectStoragePath:
        """Return the path of a table of answers, next to which its batch state is."""
        return ObjectStoragePath(str(self.folder / f"{name}.parquet"))

    def kept(self) -> Kept:
        """Count what is in the folder, also while or after it is written."""
        complete = ended = accepted = 0
        for status in self._statuses():
            ended += 1
            complete += status == "complete"
        if (self.folder / LEDGER).exists():
            with sqlite_engine(self.folder / LEDGER).connect() as connection:
                query = sa.select(sa.func.count()).where(chat_requests.c.outcome == "created")
                accepted = connection.execute(query).scalar_one()
        has_verdicts = any(self.folder.glob("*verdicts.parquet"))
        return Kept(complete, max(0, accepted - ended), has_verdicts)

    def _statuses(self) -> Iterator[str]:
        """Yield the statuses of all answers: in the batch state, or else in the table."""
        import pyarrow.parquet as pq

        for name in OUTPUTS:
            states = list(self.folder.glob(f".{name}.parquet.*.chat-batch"))
            table = self.folder / f"{name}.parquet"
            if states:
                answers = BatchState(str(states[0])).read_answers()
                yield from {answer.question_id: answer.status for answer in answers}.values()
            elif table.exists():
                statuses = pq.read_table(table, columns=["status"])["status"].to_pylist()
                yield from [status for status in statuses if status in {"complete", "failed", "lost"}]


@contextlib.contextmanager
def kept_run(base: Path, arguments: Mapping[str, Any], *, resume: bool) -> Iterator[KeptRun]:
    """
    Begin a run, or resume the last one, for a ``with`` block.

    After the block, the folders of all runs are deleted if the run is finished, and its own if it
    has nothing to keep.

    :param base: Folder of the unfinished runs of one evaluation.
    :param arguments: Arguments that must be the same if the run is resumed, as JSON types.
    :param resume: Whether to resume the last run, if there is one.
    :raises AssistantInputError: Another process is running this evaluation, or the arguments differ.
    """
    # As they are saved: JSON has no tuples.
    arguments = json.loads(json.dumps(arguments))
    base.mkdir(parents=True, exist_ok=True)
    with (base / LOCK).open("w") as lock:
        _lock(lock.fileno(), base)
        run = _latest(base, arguments) if resume else None
        if run is None:
            run = _new(base, arguments)
        try:
            yield run
        finally:
            if run.is_finished:
                shutil.rmtree(base)
            elif not any(run.kept()):
                shutil.rmtree(run.folder)
                if len(list(base.iterdir())) == 1:
                    shutil.rmtree(base)


def _lock(file: int, base: Path) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise AssistantInputError(
            f"another process is running this evaluation, and keeps its answers in {base}",
            safe=NOTHING_SENT,
            todo="Wait for it, or give --save another folder.",
        ) from None
    except OSError:
        # Some file systems have no locks.
        return


def _latest(base: Path, arguments: Mapping[str, Any]) -> KeptRun | None:
    """Return the last run in a folder; None if there is none."""
    for file in sorted(base.glob(f"*/{ARGUMENTS}"), reverse=True):
        saved = json.loads(file.read_text(encoding="utf-8"))
        for name, value in arguments.items():
            before = saved["arguments"].get(name)
            if before != value:
                raise AssistantInputError(
                    f"--resume: the run in {file.parent} was started with {name} {before}, not {value}",
                    safe=NOTHING_SENT,
                    todo="Give the same arguments, or ask all questions again without --resume.",
                    field="--resume",
                )
        return KeptRun(file.parent, saved["id"])
    return None


def _new(base: Path, arguments: Mapping[str, Any]) -> KeptRun:
    run_id = uuid.uuid4().hex
    folder = base / f"{datetime.now(UTC):%Y-%m-%dT%H-%M-%S.%fZ}"
    folder.mkdir()
    content = json.dumps({"id": run_id, "arguments": arguments})
    (folder / ARGUMENTS).write_text(content, encoding="utf-8")
    return KeptRun(folder, run_id)
