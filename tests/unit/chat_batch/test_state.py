"""The batch state: another process reads what was written, also after the writer was killed."""

from __future__ import annotations

import asyncio
import logging
from uuid import uuid4

import pytest
from airflow.sdk import ObjectStoragePath
from airflow.sdk.io import attach
from fsspec.implementations.memory import MemoryFileSystem

from airflow_provider_assistant.chat_batch import state as module
from airflow_provider_assistant.chat_batch.requests import FinishedRequest, PendingRequest
from airflow_provider_assistant.chat_batch.state import AnswerWriter, BatchState
from airflow_provider_assistant.exceptions import AssistantError, AssistantStorageError

MOMENT = 1_790_000_000.25


def ended(number, **changes):
    fields = {
        "question_id": f"q{number}",
        "request_id": f"r{number}",
        "status": "complete",
        "text": f"Answer {number} 🕘",
        "error": None,
        "raw": f'{{"result": {{"answer": "Answer {number}"}}, "n": [1, null, 2.50]}}',
        "ended_at": MOMENT + number,
        "seconds": 1.5,
        "polls": 3,
    }
    return FinishedRequest(**fields | changes)


def pending(count):
    return [PendingRequest(f"q{number}", f"r{number}", MOMENT + number) for number in range(count)]


def by_name(answers):
    return sorted(answers, key=lambda answer: answer.request_id)


@pytest.fixture(params=["path", "file", "memory"])
def folder(request, tmp_path):
    attach("memory", fs=MemoryFileSystem())
    return {
        "path": str(tmp_path / "out" / ".a.parquet.chat-batch"),
        "file": f"file://{tmp_path}/out/.a.parquet.chat-batch",
        "memory": f"memory://states-{uuid4().hex}/.a.parquet.chat-batch",
    }[request.param]


@pytest.fixture
def local(tmp_path):
    return BatchState(str(tmp_path / "state"))


def test_written_state_can_be_read(folder):
    state = BatchState(folder)
    assert state.read_answers() == []
    state.write_pending(pending(9))
    state.write_pending(pending(5))  # replaced, not added
    assert state.read_open() == pending(5)
    first = [ended(0, text="half \ud83d of it"), ended(1, status="failed", text=None, error="no idea")]
    state.write_answers(first)
    state.write_answers([ended(2, status="lost", text=None, error="404", raw=None)])
    again = BatchState(folder)
    assert by_name(again.read_answers()) == [*first, ended(2, status="lost", text=None, error="404", raw=None)]
    assert again.read_open() == pending(5)[3:]


def test_it_leaves_nothing_behind(folder, tmp_path):
    state = BatchState(folder)
    state.write_pending(pending(2))
    state.write_answers([ended(0)])
    state.remove()
    assert state.read_answers() == []
    assert not state.folder.exists()
    assert not list(tmp_path.glob("out/*"))
    state.remove()


def test_the_path_keeps_its_connection():
    output = ObjectStoragePath("memory://lake@bucket/day/a.parquet")
    folder = str(output.parent / f".{output.name}.chat-batch")
    assert "lake@" in folder
    assert str(BatchState(folder).folder) == folder


def test_the_check_changes_nothing(folder, tmp_path):
    state = BatchState(folder)
    state.check()
    assert not list(tmp_path.glob("out/*"))
    state.write_pending(pending(2))
    state.write_answers([ended(0)])
    state.check()
    assert state.read_open() == pending(2)[1:]
    assert len(list(state.folder.iterdir())) == 2


def test_a_folder_that_cannot_be_removed_is_a_warning(local, monkeypatch, caplog):
    local.write_pending(pending(2))
    monkeypatch.setattr(type(local.folder), "unlink", lambda *_, **__: (_ for _ in ()).throw(PermissionError("no")))
    local.remove()
    assert "could not be removed" in caplog.text
    assert local.read_open() == pending(2)


@pytest.mark.promise("chat", "Answers that were saved before a kill are read again.")
@pytest.mark.parametrize("cut", [1, 2, 10, 100])
def test_a_last_line_that_a_kill_cut_off_is_tolerated(cut, local):
    local.write_pending(pending(3))
    local.write_answers([ended(0), ended(1)])
    (path,) = local.folder.glob("answers-*")
    content = path.read_bytes()
    path.write_bytes(content[:-cut])
    found = [answer.request_id for answer in local.read_answers()]
    assert found == (["r0", "r1"] if cut == 1 else ["r0"])
    assert [one.request_id for one in local.read_open()] == (["r2"] if cut == 1 else ["r1", "r2"])


def test_a_folder_that_cannot_be_used_says_what_is_lost(tmp_path, monkeypatch, local):
    with pytest.raises(AssistantError, match="Nothing is lost"):
        BatchState(str(tmp_path / "nowhere")).read_open()
    (tmp_path / "file").touch()
    with pytest.raises(AssistantError, match=r"nothing can be written.*Nothing was sent"):
        BatchState(str(tmp_path / "file" / "state")).check()
    with pytest.raises(AssistantError, match="cannot be read here"):
        BatchState(str(tmp_path / "file")).read_open()
    with pytest.raises(AssistantStorageError, match=r"pending\.jsonl cannot be written.*A retry takes up"):
        BatchState(str(tmp_path / "file")).write_pending(pending(1))

    def refuse(*_, **__):
        raise ImportError("Install s3fs to access S3")

    monkeypatch.setattr(type(local.folder), "open", refuse)
    with pytest.raises(AssistantError, match=r"Install s3fs.*Nothing is lost"):
        local.read_open()


class Written:
    """A batch state whose first writes fail; it counts the writes."""

    folder = "somewhere"

    def __init__(self, failures=0, error=None):
        self.failures = failures
        self.error = error or OSError("disk full")
        self.files = []

    def write_answers(self, answers):
        if self.failures:
            self.failures -= 1
            raise self.error
        self.files.append([answer.request_id for answer in answers])


async def until(condition):
    async with asyncio.timeout(120):
        while not condition():  # noqa: ASYNC110 (writing is done in a thread)
            await asyncio.sleep(0.001)


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(module, "FLUSH", 0.001)


async def test_answers_are_written_now_and_then_and_each_once(quick):
    written = Written()
    async with AnswerWriter(written):
        pass
    assert written.files == []
    async with AnswerWriter(written) as writer:
        writer.add(ended(0))
        await until(lambda: written.files)
        writer.add(ended(1))
        await until(lambda: len(written.files) == 2)
    assert written.files == [["r0"], ["r1"]]


@pytest.mark.parametrize("error", [ZeroDivisionError, asyncio.CancelledError])
async def test_an_exception_in_the_block_keeps_the_answers(error):
    written = Written()

    async def work():
        async with AnswerWriter(written) as writer:
            writer.add(ended(0))
            raise error

    with pytest.raises(error):
        await work()
    assert written.files == [["r0"]]


async def test_a_cancelled_task_keeps_the_answers(quick):
    written = Written()

    async def work():
        async with AnswerWriter(written) as writer:
            writer.add(ended(0))
            await asyncio.Event().wait()

    running = asyncio.create_task(work())
    await until(lambda: written.files)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert written.files == [["r0"]]
    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.parametrize("error", [OSError("disk full"), RuntimeError("the storage's own")])
async def test_a_failed_write_is_repeated_with_the_next(error, quick, caplog):
    written = Written(failures=3, error=error)
    with caplog.at_level(logging.WARNING, logger=module.__name__):
        async with AnswerWriter(written) as writer:
            writer.add(ended(0))
            await until(lambda: not written.failures)
            writer.add(ended(1))
    assert sorted(name for file in written.files for name in file) == ["r0", "r1"]
    assert [record.message for record in caplog.records] == [f"Answers cannot be saved in somewhere: {error}"]


async def test_a_state_that_cannot_be_written_is_a_warning(quick, caplog):
    written = Written(failures=10_000)
    with caplog.at_level(logging.WARNING, logger=module.__name__):
        async with AnswerWriter(written) as writer:
            writer.add(ended(0))
            await until(lambda: written.failures < 9_990)
    assert [record.message for record in caplog.records] == [
        "Answers cannot be saved in somewhere: disk full",
        "Not saved: 1 answer; a later attempt polls again.",
    ]
