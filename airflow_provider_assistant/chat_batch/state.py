"""
The batch state: files in a folder next to the output, while a chat batch runs.

Worker and triggerer exchange the open chat requests and the answers through this folder, because a trigger's event
cannot carry thousands of answers. The folder is removed once the output is written. Object storage cannot append to
a file, so answers are written in many small files of JSON lines.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Self

from airflow.providers.common.compat.sdk import ObjectStoragePath

from airflow_provider_assistant.chat_batch.requests import FinishedRequest, PendingRequest
from airflow_provider_assistant.exceptions import NOTHING_SENT, AssistantError, AssistantStorageError
from airflow_provider_assistant.lake import storing
from airflow_provider_assistant.ledger import key_of
from airflow_provider_assistant.storage.paths import StoragePath, storage_path
from airflow_provider_assistant.storage.private_files import make_folder, open_to_write
from airflow_provider_assistant.texts import counted

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger(__name__)

# Seconds between two writes of answers. A killed process loses the answers since the last write; they are polled again.
FLUSH = 2.0
# Consequence of a file of the batch that cannot be written, for the message.
RETRY_CONTINUES = "A retry takes up what was submitted."


class BatchState:
    """
    Read and write the state of one chat batch.

    :param folder: A local path or an object storage URL.
    """

    def __init__(self, folder: str) -> None:
        self.folder = storage_path(folder)
        self._questions = self.folder / "questions.parquet"
        self._pending = self.folder / "pending.jsonl"
        self._source = self.folder / "source.parquet"

    def check(self) -> None:
        """
        Check that the folder is writable, before the first request.

        :raises AssistantStorageError: The folder is not writable; nothing was sent.
        """
        probe = self.folder / "probe"
        try:
            self._write(probe, ())
        except AssistantStorageError as error:
            raise AssistantStorageError(
                f"nothing can be written beside output_path, in {self.folder}: {error.happened}",
                safe=NOTHING_SENT,
                errno=error.errno,
            ) from error
        with contextlib.suppress(Exception):
            probe.unlink()
            # On object storage, rmdir would also remove files of an earlier attempt.
            if not any(self.folder.iterdir()):
                self.folder.rmdir()

    def write_questions(self, questions: pa.Table) -> None:
        """Write all questions with their chat requests: the table of :func:`.questions_table`."""
        import pyarrow.parquet as pq

        with storing(self._questions, RETRY_CONTINUES):
            make_folder(self.folder)
            with open_to_write(self._questions) as file:
                pq.write_table(questions, file)

    def read_questions(self) -> pa.Table:
        """Return the table that :meth:`write_questions` wrote."""
        import pyarrow.parquet as pq

        with self._questions.open("rb") as file:
            return pq.ParquetFile(file).read()

    def write_source(self, source: pa.Table) -> None:
        """Write the rows that a function returned, for the turns after a deferral."""
        import pyarrow.parquet as pq

        with storing(self._source, RETRY_CONTINUES), open_to_write(self._source) as file:
            pq.write_table(source, file)

    def read_source(self) -> pa.Table | None:
        """Return the table that :meth:`write_source` wrote; None if it wrote none."""
        import pyarrow.parquet as pq

        if not self._source.exists():
            return None
        with self._source.open("rb") as file:
            return pq.ParquetFile(file).read()

    def write_pending(self, pending: Iterable[PendingRequest]) -> None:
        """Write the list of chat requests to wait for."""
        self._write(self._pending, (json.dumps(request._asdict()) for request in pending))

    def read_open(self) -> list[PendingRequest]:
        """
        Return the chat requests without a saved answer.

        :raises AssistantError: The folder cannot be read on this machine.
        """
        try:
            with self._pending.open("rb") as file:
                pending = [PendingRequest(**json.loads(line)) for line in file]
            # Keep only the ids of the answers, to save memory in the triggerer.
            ended_ids = {answer["request_id"] for answer in self._answers()}
        except (OSError, ValueError, ImportError) as error:  # ValueError, ImportError: no package for this storage
            raise AssistantError(
                f"the list of open requests at {self._pending} cannot be read here: {error}",
                safe="Nothing is lost: a retry takes up the requests.",
                todo="Worker and triggerer both have to reach output_path: give an object storage URL or a "
                "shared folder, or deferrable=False.",
            ) from error
        return [request for request in pending if request.request_id not in ended_ids]

    def write_answers(self, answers: Sequence[FinishedRequest]) -> None:
        """Add answers to the batch state, in one new file."""
        # An answer may contain a lone surrogate, which JSON stores as an escape.
        lines = (json.dumps(answer._asdict()) for answer in answers)
        self._write(self.folder / f"answers-{uuid.uuid4().hex}.jsonl", lines)

    def read_answers(self) -> list[FinishedRequest]:
        """Return all answers that are saved so far."""
        return [FinishedRequest(**answer) for answer in self._answers()]

    def write_closed(self, sessions: Iterable[str]) -> None:
        """Add sessions that are about to be closed, in one new file."""
        lines = map(json.dumps, sessions)
        self._write(self.folder / f"closed-{uuid.uuid4().hex}.jsonl", lines)

    def read_closed(self) -> set[str]:
        """Return all sessions that :meth:`write_closed` added."""
        return set(self._read("closed-*.jsonl"))

    def _answers(self) -> Iterator[dict[str, Any]]:
        return self._read("answers-*.jsonl")

    def _read(self, pattern: str) -> Iterator[Any]:
        if not self.folder.is_dir():
            return
        for path in self.folder.glob(pattern):
            with path.open("rb") as file:
                for line in file:
                    with contextlib.suppress(ValueError):  # the last line of a file is incomplete after a kill
                        yield json.loads(line)

    def remove(self) -> None:
        """Remove the folder; log a warning if that fails."""
        try:
            if self.folder.is_dir():
                # List all files first: removing some of them must not change the listing.
                names = [path.name for path in self.folder.iterdir()]
                for name in names:
                    (self.folder / name).unlink(missing_ok=True)
                with contextlib.suppress(OSError):  # object storage has no folders to remove
                    self.folder.rmdir()
        except Exception as error:  # noqa: BLE001 (each storage raises different errors)
            log.warning("The batch state %s is not needed any more, but could not be removed: %s", self.folder, error)

    def _write(self, path: StoragePath, lines: Iterable[str]) -> None:
        with storing(path, RETRY_CONTINUES):
            make_folder(self.folder)
            with open_to_write(path) as file:
                file.write("".join(f"{line}\n" for line in lines).encode())


class AnswerWriter:
    """
    Write answers to the batch state every FLUSH seconds, and at the end of an ``async with`` block.

    Answers are written in a thread. If a write fails, its answers are written with the next ones. If the last write
    fails too, a later attempt polls for these answers again.
    """

    def __init__(self, state: BatchState) -> None:
        self._state = state
        self._waiting: list[FinishedRequest] = []
        self._has_warned = False

    def add(self, answer: FinishedRequest) -> None:
        """Write an answer with the next ones."""
        self._waiting.append(answer)

    async def __aenter__(self) -> Self:
        self._writing = asyncio.Lock()
        self._flushing = asyncio.create_task(self._keep_flushing())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._flushing.cancel()
        await asyncio.gather(self._flushing, return_exceptions=True)
        await self._flush()
        if self._waiting:
            log.warning("Not saved: %s; a later attempt polls again.", counted(len(self._waiting), "answer"))

    async def _keep_flushing(self) -> None:
        while True:
            await asyncio.sleep(FLUSH)
            # A write that has begun is finished, also if the block ends.
            await asyncio.shield(self._flush())

    async def _flush(self) -> None:
        async with self._writing:
            answers = self._waiting.copy()
            if not answers:
                return
            try:
                await asyncio.to_thread(self._state.write_answers, answers)
            except Exception as error:  # noqa: BLE001 (each storage raises different errors)
                if not self._has_warned:
                    log.warning("Answers cannot be saved in %s: %s", self._state.folder, error)
                self._has_warned = True
            else:
                del self._waiting[: len(answers)]


def folder_of(output: ObjectStoragePath, scope: str) -> str:
    """
    Return the folder of a task's batch state.

    It is next to the output, with a name that dataset readers skip.
    """
    return str(output.parent / f".{output.name}.{key_of(scope)[:8]}.chat-batch")


def findings_of(output: ObjectStoragePath) -> StoragePath:
    """Return the path of the findings, next to the output, with a name that dataset readers skip."""
    return output.parent / f".{output.stem}.findings.parquet"
