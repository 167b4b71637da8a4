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

from airflow_provider_assistant.asking.record import Record
from airflow_provider_assistant.exceptions import NOTHING_SENT, AssistantInputError
from airflow_provider_assistant.ledger import Ledger, sqlite_engine
from airflow_provider_assistant.ledger.schema import attempts
from airflow_provider_assistant.storage.paths import object_storage_path
from airflow_provider_assistant.storage.private_files import make_folder, open_to_write

LOCK, ARGUMENTS, LEDGER = "lock", "run.json", "ledger.db"
# Number of runs of one evaluation that are kept until one is evaluated.
KEPT_RUNS = 5
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
    :param is_evaluated: Whether its answers were evaluated, so that earlier runs are of no use.
    :param is_finished: Whether all questions have an answer as well, so that it can be deleted.
    """

    folder: Path
    id: str
    is_evaluated: bool = False
    is_finished: bool = False

    def ledger(self) -> Ledger:
        """Open the ledger of this run, in which every question is claimed before it is sent."""
        ledger = Ledger(sqlite_engine(self.folder / LEDGER), warn_if_new=False)
        # The process that left a claim is dead: this one has the lock of the folder.
        with ledger.engine.begin() as connection:
            connection.execute(sa.update(attempts).values(alive_until=None))
        return ledger

    def output(self, name: str) -> ObjectStoragePath:
        """Return the path of a table of answers, next to which its batch state is."""
        return object_storage_path(str(self.folder / f"{name}.parquet"))

    def kept(self) -> Kept:
        """Count what is in the folder, also while or after it is written."""
        complete = ended = accepted = 0
        for status in self._statuses():
            ended += 1
            complete += status == "complete"
        if (self.folder / LEDGER).exists():
            engine = sqlite_engine(self.folder / LEDGER)
            query = sa.select(sa.func.count(sa.distinct(attempts.c.key))).where(attempts.c.state == "created")
            with engine.connect() as connection:
                accepted = connection.execute(query).scalar_one()
            engine.dispose()
        has_verdicts = any(self.folder.glob("*verdicts.parquet"))
        return Kept(complete, max(0, accepted - ended), has_verdicts)

    def _statuses(self) -> Iterator[str]:
        """Yield the statuses of all answers: in the batch state, or else in the table."""
        import pyarrow.parquet as pq

        for name in OUTPUTS:
            states = list(self.folder.glob(f".{name}.parquet.*.chat-batch"))
            table = self.folder / f"{name}.parquet"
            if states:
                _requests, ends = Record(str(states[0])).read()
                yield from (end.status for end in ends.values() if end.status != "not_submitted")
            elif table.exists():
                statuses = pq.read_table(table, columns=["status"])["status"].to_pylist()
                yield from [status for status in statuses if status in {"complete", "failed", "lost"}]


@contextlib.contextmanager
def kept_run(base: Path, arguments: Mapping[str, Any], *, resume: bool) -> Iterator[KeptRun]:
    """
    Begin a run, or resume the last one, for a ``with`` block.

    After the block, the run is deleted if it is finished or has nothing to keep, and earlier ones
    if it is evaluated. Of runs that were not evaluated, the last ones are kept.

    :param base: Folder of the unfinished runs of one evaluation.
    :param arguments: Arguments that must be the same if the run is resumed, as types that JSON has.
    :param resume: Whether to resume the last run, if there is one.
    :raises AssistantInputError: The run to resume is still running, or was started with other arguments.
    """
    try:
        make_folder(base)
    except OSError as error:
        raise AssistantInputError(
            f"answers cannot be kept in {base}: {error.strerror}",
            safe=NOTHING_SENT,
            todo="Give --save a folder that can be written.",
        ) from error
    # Closing its file ends a lock.
    with contextlib.ExitStack() as locks:
        run = _latest(base, arguments, locks) if resume else None
        if run is None:
            run = _new(base, arguments, locks)
        try:
            yield run
        finally:
            _delete_earlier(base, run, locks, kept=0 if run.is_evaluated else KEPT_RUNS - 1)
            if run.is_finished or not any(run.kept()):
                shutil.rmtree(run.folder)
            # Only an empty folder can be deleted.
            with contextlib.suppress(OSError):
                base.rmdir()


def _delete_earlier(base: Path, run: KeptRun, locks: contextlib.ExitStack, *, kept: int) -> None:
    """Delete all other runs but the last ones, and those of other processes that are still running."""
    folders = sorted(file.parent for file in base.glob(f"*/{ARGUMENTS}"))
    folders.remove(run.folder)
    for folder in folders[: max(0, len(folders) - kept)]:
        if _lock(folder, locks):
            shutil.rmtree(folder)


def _lock(folder: Path, locks: contextlib.ExitStack) -> bool:
    """Lock a run; return False if another process has locked it."""
    file = locks.enter_context(open_to_write(folder / LOCK))
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        # Some file systems have no locks, and raise another error.
        return not isinstance(error, BlockingIOError)
    return True


def _latest(base: Path, arguments: Mapping[str, Any], locks: contextlib.ExitStack) -> KeptRun | None:
    """Lock and return the last run in a folder; None if there is none."""
    files = sorted(base.glob(f"*/{ARGUMENTS}"))
    if not files:
        return None
    folder = files[-1].parent
    if not _lock(folder, locks):
        raise AssistantInputError(
            f"--resume: another process is running this evaluation, and keeps its answers in {folder}",
            safe=NOTHING_SENT,
            todo="Wait for it.",
            field="--resume",
        )
    saved = json.loads(files[-1].read_text(encoding="utf-8"))
    for name, value in arguments.items():
        before = saved["arguments"].get(name)
        if before != value:
            raise AssistantInputError(
                f"--resume: the run in {folder} was started with {name} {before}, not {value}",
                safe=NOTHING_SENT,
                todo="Give the same arguments, or ask all questions again without --resume.",
                field="--resume",
            )
    return KeptRun(folder, saved["id"])


def _new(base: Path, arguments: Mapping[str, Any], locks: contextlib.ExitStack) -> KeptRun:
    run_id = uuid.uuid4().hex
    folder = base / f"{datetime.now(UTC):%Y-%m-%dT%H-%M-%S.%fZ}"
    make_folder(folder)
    _lock(folder, locks)
    content = json.dumps({"id": run_id, "arguments": arguments})
    with open_to_write(folder / ARGUMENTS) as file:
        file.write(content.encode())
    return KeptRun(folder, run_id)
