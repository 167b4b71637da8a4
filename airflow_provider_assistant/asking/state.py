"""
The batch state: files in a folder beside the output, while the batch runs.

Worker and triggerer exchange questions, requests and answers through it, because the event of a trigger cannot carry
thousands of answers. Object storage cannot append to a file, so lines are written in many small files.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self, TypeAlias

from airflow.providers.common.compat.sdk import ObjectStoragePath

from airflow_provider_assistant.asking.answers import QUESTION, typed
from airflow_provider_assistant.asking.questions import Question, Questions
from airflow_provider_assistant.exceptions import NOTHING_SENT, AssistantError, AssistantStorageError
from airflow_provider_assistant.ledger import key_of
from airflow_provider_assistant.storage.opening import StoragePath, storage_path
from airflow_provider_assistant.storage.private import make_folder, open_to_write
from airflow_provider_assistant.storage.write import storing
from airflow_provider_assistant.texts import counted

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger(__name__)

# Seconds between two writes of answers. A killed process loses the answers since the last write; they are polled again.
FLUSH = 2.0
# Consequence of a file that cannot be written, for the message.
_RETRY_CONTINUES = "A retry takes up what was submitted."


Status: TypeAlias = Literal["complete", "failed", "lost", "not_submitted"]


class End(NamedTuple):
    """
    How a question ended.

    :param status: ``not_submitted``: it was not sent, or nobody knows whether it arrived; ``lost``: the service does
        not know its request any more.
    :param ended_at: In seconds since the epoch.
    :param seconds: From the submission to the reply, or to the poll that found the end.
    :param raw: The last reply as JSON.
    """

    question_id: str
    status: Status
    ended_at: float
    request_id: str | None = None
    session_id: str | None = None
    submitted_at: float | None = None
    seconds: float | None = None
    answer: str | None = None
    error: str | None = None
    raw: str | None = None
    polls: int = 0
    attempts: int = 0
    confidence_level: str | None = None
    confidence_score: float | None = None


class Request(NamedTuple):
    """
    A question that the service has accepted.

    :param submitted_at: In seconds since the epoch.
    :param attempts: Number of requests that were sent for it, also by earlier tries.
    :param polls: Number of polls before.
    :param is_reused: Whether an earlier try has submitted it.
    :param is_maybe_second: Whether the try that submitted it knows that it may have been asked before.
    """

    question_id: str
    request_id: str | None
    session_id: str
    submitted_at: float
    attempts: int = 1
    polls: int = 0
    is_reused: bool = False
    is_maybe_second: bool = False

    def end(self, status: Status, seconds: float, **fields: Any) -> End:
        """
        Return the end of the question.

        :param seconds: From the submission to the end.
        :param fields: Further fields of the end.
        """
        # Rounded to microseconds like the output file, so that an answer that is read back from it is equal.
        seconds = round(seconds, 6)
        return End(
            question_id=self.question_id,
            status=status,
            ended_at=round(self.submitted_at + seconds, 6),
            request_id=self.request_id,
            session_id=self.session_id,
            submitted_at=self.submitted_at,
            seconds=seconds,
            attempts=self.attempts,
            **fields,
        )


class BatchState:
    """
    Read and write a batch state.

    :param folder: A local path or an object storage URL.
    """

    def __init__(self, folder: str) -> None:
        self.folder = storage_path(folder)
        self._questions = self.folder / "questions.parquet"

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

    def write_questions(self, questions: Questions) -> pa.Table:
        """
        Write the questions of the batch: a function is called once, and the task goes on after it was deferred.

        :return: A table of the columns that the output repeats.
        """
        import pyarrow as pa
        import pyarrow.parquet as pq

        others = {name: typed(values) for name, values in questions.others.items()}
        rows = pa.array([json.dumps(question) for question in questions.rows], pa.string())
        with storing(self._questions, _RETRY_CONTINUES):
            make_folder(self.folder)
            with open_to_write(self._questions) as file:
                pq.write_table(pa.table({QUESTION: rows, **others}), file)
        return pa.table(others)

    def read_questions(self) -> tuple[Questions, pa.Table]:
        """Return the questions, and a table of the columns that the output repeats."""
        import pyarrow.parquet as pq

        with self._reading(), self._questions.open("rb") as file:
            table = pq.ParquetFile(file).read()
        rows = [Question(*json.loads(text)) for text in table[QUESTION].to_pylist()]
        return Questions(rows), table.drop_columns([QUESTION])

    def add(self, lines: Sequence[Request | End]) -> None:
        """Add requests and ends, in a new file."""
        # An answer may contain a lone surrogate, which JSON stores as an escape.
        kinds = {Request: "request", End: "end"}
        self._write(
            self.folder / f"{uuid.uuid4().hex}.jsonl",
            (json.dumps({"kind": kinds[type(line)], **line._asdict()}) for line in lines),
        )

    def read(self) -> tuple[dict[str, Request], dict[str, End]]:
        """
        Return the latest request of each question, and its end.

        An answer is not replaced by a later end without one.

        :raises AssistantError: The folder cannot be read on this machine.
        """
        requests: dict[str, Request] = {}
        ends: dict[str, End] = {}
        with self._reading():
            for line in self._lines():
                kind = line.pop("kind")
                if kind == "request":
                    request = Request(**line)
                    known = requests.get(request.question_id)
                    if known is None or known.submitted_at <= request.submitted_at:
                        requests[request.question_id] = request
                else:
                    end = End(**line)
                    ends[end.question_id] = _better(ends.get(end.question_id), end)
        return requests, ends

    def read_open(self) -> list[Request]:
        """
        Return the requests without an end.

        :raises AssistantError: The folder cannot be read on this machine.
        """
        with self._reading(), self._questions.open("rb"):
            requests, ends = self.read()
        return [request for question_id, request in requests.items() if question_id not in ends]

    def begin(self, requests: Iterable[Request], ends: Iterable[End]) -> None:
        """Begin a new try: keep only these requests and ends of the earlier ones."""
        earlier = self._files()
        lines: list[Request | End] = [*requests, *ends]
        if lines:
            self.add(lines)
        for path in earlier:
            path.unlink(missing_ok=True)

    def remove(self) -> None:
        """Remove the folder; log a warning if that fails."""
        try:
            if self.folder.is_dir():
                # List all files first: removing some of them must not change the listing.
                for name in [path.name for path in self.folder.iterdir()]:
                    (self.folder / name).unlink(missing_ok=True)
                with contextlib.suppress(OSError):  # object storage has no folders to remove
                    self.folder.rmdir()
        except Exception as error:  # noqa: BLE001 (each storage raises different errors)
            log.warning("The folder %s is not needed any more, but could not be removed: %s", self.folder, error)

    def _files(self) -> list[StoragePath]:
        return list(self.folder.glob("*.jsonl")) if self.folder.is_dir() else []

    def _lines(self) -> Iterator[dict[str, Any]]:
        for path in self._files():
            with path.open("rb") as file:
                for line in file:
                    with contextlib.suppress(ValueError):  # the last line of a file is incomplete after a kill
                        yield json.loads(line)

    @contextlib.contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except (OSError, ValueError, ImportError) as error:  # ValueError, ImportError: no package for this storage
            raise AssistantError(
                f"the batch state in {self.folder} cannot be read here: {error}",
                safe="Nothing is lost: a retry takes up the requests.",
                todo="Worker and triggerer both have to reach output_path: give an object storage URL or a "
                "shared folder, or deferrable=False.",
            ) from error

    def _write(self, path: StoragePath, lines: Iterable[str]) -> None:
        with storing(path, _RETRY_CONTINUES):
            make_folder(self.folder)
            with open_to_write(path) as file:
                file.write("".join(f"{line}\n" for line in lines).encode())


def _better(known: End | None, end: End) -> End:
    if known is None:
        return end
    return max(known, end, key=lambda one: (one.status == "complete", one.ended_at))


class Writer:
    """
    Write requests and ends every FLUSH seconds, and at the end of an ``async with`` block.

    Lines are written in a thread. If a write fails, its lines are written with the next ones. If the last write fails
    too, a later try polls for these answers again.
    """

    def __init__(self, state: BatchState) -> None:
        self._state = state
        self._waiting: list[Request | End] = []
        self._has_warned = False

    def add(self, line: Request | End) -> None:
        """Write a line with the next ones."""
        self._waiting.append(line)

    async def __aenter__(self) -> Self:
        self._writing = asyncio.Lock()
        self._flushing = asyncio.create_task(self._keep_flushing())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._flushing.cancel()
        await asyncio.gather(self._flushing, return_exceptions=True)
        await self._flush()
        if self._waiting:
            log.warning("Not saved: %s; a later try polls again.", counted(len(self._waiting), "answer"))

    async def _keep_flushing(self) -> None:
        while True:
            await asyncio.sleep(FLUSH)
            # A write that has begun is finished, also if the block ends.
            await asyncio.shield(self._flush())

    async def _flush(self) -> None:
        async with self._writing:
            lines = self._waiting.copy()
            if not lines:
                return
            try:
                await asyncio.to_thread(self._state.add, lines)
            except Exception as error:  # noqa: BLE001 (each storage raises different errors)
                if not self._has_warned:
                    log.warning("Answers cannot be saved in %s: %s", self._state.folder, error)
                self._has_warned = True
            else:
                del self._waiting[: len(lines)]


def state_of(output: ObjectStoragePath, scope: str) -> BatchState:
    """
    Return a batch state.

    It is next to the output, with a name that dataset readers skip.

    :param scope: The task instance of the batch.
    """
    return BatchState(str(output.parent / f".{output.name}.{key_of(scope)[:8]}.chat-batch"))


def findings_of(output: ObjectStoragePath) -> StoragePath:
    """Return the path of the findings, next to the output, with a name that dataset readers skip."""
    return output.parent / f".{output.stem}.findings.parquet"
