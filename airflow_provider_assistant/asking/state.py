"""
The batch state: files in a folder beside the output, while the batch runs.

Worker and triggerer exchange questions and answers through it, because the event of a trigger cannot carry thousands
of answers. Object storage cannot append to a file, so answers are written in many small files.
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

from airflow_provider_assistant.asking.questions import Question, Questions
from airflow_provider_assistant.exceptions import NOTHING_SENT, AssistantError, AssistantStorageError
from airflow_provider_assistant.ledger import key_of
from airflow_provider_assistant.storage.opening import storage_path
from airflow_provider_assistant.storage.private import make_folder, open_to_write
from airflow_provider_assistant.storage.write import storing
from airflow_provider_assistant.texts import counted

if TYPE_CHECKING:
    from airflow_provider_assistant.api.replies import ChatAnswer, ChatRequest

log = logging.getLogger(__name__)

# Column of the questions in their file; no source can have a column of this name.
QUESTION = "\0question"
# Seconds between two writes of answers. A killed process loses the answers since the last write; they are polled again.
FLUSH = 2.0
# Consequence of a file that cannot be written, for the message.
_RETRY_CONTINUES = "A retry takes up what was submitted."

Status: TypeAlias = Literal["open", "complete", "failed", "lost", "not_submitted"]


class Answer(NamedTuple):
    """
    What is known of a question: that the service has accepted it, or how it ended.

    :param status: ``open``: accepted, and without an end; ``lost``: the service does not know its request any more;
        ``not_submitted``: it was not sent, or nobody knows whether it arrived.
    :param submitted_at: In seconds since the epoch, as ``ended_at``.
    :param seconds: From the submission to the reply, or to the poll that found the end.
    :param raw: The last reply as JSON.
    :param attempts: Number of requests that were sent for it, also by earlier tries.
    :param is_reused: Whether an earlier try has submitted it.
    :param is_maybe_second: Whether the try that submitted it knows that it may have been asked before.
    """

    question_id: str
    status: Status = "open"
    request_id: str | None = None
    session_id: str | None = None
    submitted_at: float | None = None
    ended_at: float | None = None
    seconds: float | None = None
    answer: str | None = None
    error: str | None = None
    raw: str | None = None
    polls: int = 0
    attempts: int = 0
    confidence_level: str | None = None
    confidence_score: float | None = None
    is_reused: bool = False
    is_maybe_second: bool = False

    @property
    def time(self) -> float:
        """Time of its end, or of its submission if it is open."""
        return self.ended_at or self.submitted_at or 0.0

    def ended(
        self, status: Status, now: float, *, error: str | None = None, reply: ChatAnswer | ChatRequest | None = None
    ) -> Answer:
        """
        Return the answer of an open question that ends.

        :param reply: The reply with the answer. Default: None, there is none.
        """
        submitted_at = self.submitted_at or now
        # Rounded to microseconds like the output file, so that an answer that is read back from it is equal.
        seconds = round(max(0.0, now - submitted_at), 6)
        ended = self._replace(status=status, seconds=seconds, ended_at=round(submitted_at + seconds, 6), error=error)
        if reply is None:
            return ended
        return ended._replace(
            answer=reply.text,
            raw=reply.raw_json,
            confidence_level=reply.confidence_level,
            confidence_score=reply.confidence_score,
        )


class BatchState:
    """
    Read and write a batch state.

    :param folder: A local path or an object storage URL.
    """

    def __init__(self, folder: str) -> None:
        self.folder = storage_path(folder)
        self._questions = self.folder / "questions.parquet"

    def write_questions(self, questions: Questions) -> None:
        """
        Write the questions of the batch: a function is called once, and the task goes on after it was deferred.

        :raises AssistantStorageError: The folder is not writable; nothing was sent.
        """
        import pyarrow as pa
        import pyarrow.parquet as pq

        rows = pa.array([json.dumps(question) for question in questions.rows], pa.string())
        others = {name: questions.others[name] for name in questions.others.column_names}
        table = pa.table({QUESTION: rows, **others})
        try:
            with storing(self._questions, NOTHING_SENT):
                make_folder(self.folder)
                with open_to_write(self._questions) as file:
                    pq.write_table(table, file)
        except AssistantStorageError as error:
            raise AssistantStorageError(
                f"nothing can be written beside output_path, in {self.folder}: {error.happened}",
                safe=NOTHING_SENT,
                errno=error.errno,
            ) from error

    def read_questions(self) -> Questions:
        """Return the questions of the batch."""
        import pyarrow.parquet as pq

        with self._reading(), self._questions.open("rb") as file:
            table = pq.ParquetFile(file).read()
        rows = [Question(*json.loads(text)) for text in table[QUESTION].to_pylist()]
        return Questions(rows, table.drop_columns([QUESTION]))

    def add(self, answers: Iterable[Answer]) -> None:
        """Add answers, in a new file."""
        path = self.folder / f"{uuid.uuid4().hex}.jsonl"
        with storing(path, _RETRY_CONTINUES):
            make_folder(self.folder)
            with open_to_write(path) as file:
                # JSON stores a lone surrogate, which an answer may contain, as an escape.
                file.write("".join(f"{json.dumps(answer._asdict())}\n" for answer in answers).encode())

    def read(self) -> dict[str, Answer]:
        """
        Return what is known of each question: a complete answer if there is one, otherwise what was added last.

        :raises AssistantError: The folder cannot be read on this machine.
        """
        with self._reading():
            return merged(self._added())

    def read_open(self) -> list[Answer]:
        """
        Return the open questions.

        :raises AssistantError: The folder cannot be read on this machine.
        """
        with self._reading(), self._questions.open("rb"):
            return [answer for answer in self.read().values() if answer.status == "open"]

    def begin(self, answers: Sequence[Answer]) -> None:
        """Begin a new try: keep only these answers of the earlier ones."""
        earlier = self._files()
        if answers:
            self.add(answers)
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

    def _files(self) -> list[Any]:
        return list(self.folder.glob("*.jsonl")) if self.folder.is_dir() else []

    def _added(self) -> Iterator[Answer]:
        for path in self._files():
            with path.open("rb") as file:
                for line in file:
                    with contextlib.suppress(ValueError):  # the last line of a file is incomplete after a kill
                        yield Answer(**json.loads(line))

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


def merged(answers: Iterable[Answer]) -> dict[str, Answer]:
    """Return one answer for each question: a complete one if there is one, otherwise the latest."""
    found: dict[str, Answer] = {}
    for answer in answers:
        known = found.get(answer.question_id, answer)
        found[answer.question_id] = max(known, answer, key=_precedence)
    return found


def _precedence(answer: Answer) -> tuple[bool, float, bool, int]:
    return answer.status == "complete", answer.time, answer.status != "open", answer.polls


class Writer:
    """
    Write answers every FLUSH seconds, and at the end of an ``async with`` block.

    They are written in a thread. If a write fails, its answers are written with the next ones. If the last write fails
    too, a later try polls for these answers again.
    """

    def __init__(self, state: BatchState) -> None:
        self._state = state
        self._waiting: list[Answer] = []
        self._has_warned = False

    def add(self, answer: Answer) -> None:
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
            log.warning("Not saved: %s; a later try polls again.", counted(len(self._waiting), "answer"))

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
                await asyncio.to_thread(self._state.add, answers)
            except Exception as error:  # noqa: BLE001 (each storage raises different errors)
                if not self._has_warned:
                    log.warning("Answers cannot be saved in %s: %s", self._state.folder, error)
                self._has_warned = True
            else:
                del self._waiting[: len(answers)]


def state_of(output: ObjectStoragePath, scope: str) -> BatchState:
    """
    Return a batch state.

    It is next to the output, with a name that dataset readers skip.

    :param scope: The task instance of the batch.
    """
    return BatchState(str(output.parent / f".{output.name}.{key_of(scope)[:8]}.chat-batch"))
