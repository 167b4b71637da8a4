"""
What is known of a batch of questions while it is asked: files in a folder beside its output.

The folder is how workers and triggerers tell each other what came of which question, however many there are; it
goes when the output is written. Object storage cannot append, so answers are written in small files of JSON
lines, each once.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import uuid
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, astuple
from typing import Any

from airflow_provider_assistant.asking.poller import Ended, Pending
from airflow_provider_assistant.exceptions import AssistantError, AssistantStorageError
from airflow_provider_assistant.lake import storing
from airflow_provider_assistant.loading.source import Path_, storage_path

log = logging.getLogger(__name__)

# Seconds of answers that are lost, and fetched again, when a process is killed.
FLUSH = 2.0


class Journal:
    """
    The folder of one batch.

    :param folder: Local path or object storage URL.
    """

    def __init__(self, folder: str) -> None:
        self.folder = storage_path(folder)

    @property
    def snapshot(self) -> Path_:
        """The Parquet file with all questions, as they were read and submitted."""
        return self.folder / "questions.parquet"

    @property
    def _pending(self) -> Path_:
        return self.folder / "pending.jsonl"

    def check(self) -> None:
        """
        Make sure that the folder can be written to, before there is anything to write.

        :raises AssistantStorageError: It cannot.
        """
        probe = self.folder / "probe"
        try:
            self._write(probe, ())
        except AssistantStorageError as error:
            raise AssistantStorageError(
                f"nothing can be written beside output_path, in {self.folder}: {error}. Nothing was sent.",
                code=error.errno,
            ) from error
        with contextlib.suppress(Exception):
            probe.unlink()
            # Object storage would remove what is in it.
            if not any(self.folder.iterdir()):
                self.folder.rmdir()

    def write_pending(self, pending: Iterable[Pending]) -> None:
        """Write which requests are to be waited for."""
        self._write(self._pending, (json.dumps(astuple(one)) for one in pending))

    def read_open(self) -> list[Pending]:
        """
        Return which requests have no answer yet.

        :raises AssistantError: The folder cannot be read from here.
        """
        try:
            with self._pending.open("rb") as file:
                pending = [Pending(*json.loads(line)) for line in file]
            # Nothing else of the answers is kept: a triggerer has better use for its memory.
            ended = {answer["asked_as"] for answer in self._answers()}
        except (OSError, ValueError, ImportError) as error:  # the latter two where the storage's package is missing
            raise AssistantError(
                f"the list of open requests at {self._pending} cannot be read here: {error}. Worker and triggerer "
                "both have to reach output_path: give an object storage URL or a shared folder, or "
                "deferrable=False. Nothing is lost: a retry takes up the requests."
            ) from error
        return [one for one in pending if one.request_id not in ended]

    def write_answers(self, answers: Sequence[Ended]) -> None:
        """Add answers."""
        # An answer may hold half a surrogate pair, which only an escape can store.
        lines = (json.dumps(asdict(answer)) for answer in answers)
        self._write(self.folder / f"answers-{uuid.uuid4().hex}.jsonl", lines)

    def read_answers(self) -> list[Ended]:
        """Return all answers so far."""
        return [Ended(**answer) for answer in self._answers()]

    def _answers(self) -> Iterator[dict[str, Any]]:
        if not self.folder.is_dir():
            return
        for path in self.folder.glob("answers-*.jsonl"):
            with path.open("rb") as file:
                for line in file:
                    with contextlib.suppress(ValueError):  # the end of a file that a kill cut off
                        yield json.loads(line)

    def remove(self) -> None:
        """Remove the folder, as far as this one may."""
        try:
            if self.folder.is_dir():
                for name in [path.name for path in self.folder.iterdir()]:
                    (self.folder / name).unlink(missing_ok=True)
                with contextlib.suppress(OSError):  # object storage has no folders to remove
                    self.folder.rmdir()
        except Exception as error:  # noqa: BLE001 (every storage has errors of its own)
            log.warning("%s is of no more use, and could not be removed: %s", self.folder, error)

    def _write(self, path: Path_, lines: Iterable[str]) -> None:
        with storing(path, "a retry takes up what was submitted"):
            self.folder.mkdir(parents=True, exist_ok=True)
            with path.open("wb") as file:
                file.write("".join(f"{line}\n" for line in lines).encode())


@contextlib.asynccontextmanager
async def recording(journal: Journal) -> AsyncIterator[Callable[[Ended], None]]:
    """
    Give a function that notes answers, and write them every few seconds and at the end, off the event loop.

    Whoever cannot write tries again with the next answers, and in the end goes on without: a later try gets them
    anew.
    """
    waiting: list[Ended] = []
    writing = asyncio.Lock()
    has_warned = False

    async def flush() -> None:
        nonlocal has_warned
        async with writing:
            answers = waiting.copy()
            if not answers:
                return
            try:
                await asyncio.to_thread(journal.write_answers, answers)
            except Exception as error:  # noqa: BLE001 (every storage has errors of its own)
                if not has_warned:
                    log.warning("Answers cannot be noted down in %s: %s", journal.folder, error)
                has_warned = True
            else:
                del waiting[: len(answers)]

    async def keep_flushing() -> None:
        while True:
            await asyncio.sleep(FLUSH)
            await asyncio.shield(flush())

    flushing = asyncio.create_task(keep_flushing())
    try:
        yield waiting.append
    finally:
        flushing.cancel()
        await asyncio.gather(flushing, return_exceptions=True)
        await flush()
        if waiting:
            log.warning("%d answers are not noted down; they are fetched again.", len(waiting))
