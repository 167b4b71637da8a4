"""The batch state: what worker and triggerer read of each other, also after a kill."""

from __future__ import annotations

import asyncio
import random
import uuid

import pyarrow as pa
import pytest
from airflow.sdk import ObjectStoragePath
from airflow.sdk.io import attach
from fsspec.implementations.memory import MemoryFileSystem

from airflow_provider_assistant.asking import state as module
from airflow_provider_assistant.asking.questions import Question, Questions
from airflow_provider_assistant.asking.state import Answer, BatchState, Writer
from airflow_provider_assistant.exceptions import AssistantError, AssistantStorageError


@pytest.fixture(params=["local", "object storage"])
def state(request, tmp_path):
    if request.param == "local":
        return BatchState(str(tmp_path / "deep" / "folder"))
    attach("memory", fs=MemoryFileSystem())
    return BatchState(f"memory://{uuid.uuid4().hex}/folder")


@pytest.fixture
def local(tmp_path):
    return BatchState(str(tmp_path / "folder"))


NONE = Questions([], pa.table({}))


def requests(count, **changes):
    return [
        Answer(f"q{number}", "open", f"r{number}", "s\ud800", submitted_at=1.5, **changes) for number in range(count)
    ]


def ends(count, status="complete", **changes):
    ended = requests(count, ended_at=2.5, answer="\ud800 \u00e4", **changes)
    return [answer._replace(status=status) for answer in ended]


def saved(state):
    return sorted(state.read().values())


def test_what_was_written_is_read(state):
    rows = [
        Question("q0", "k", "label", 1, 1, None, "c", {"message": "m\ud800"}),
        Question("q1", "", "", 2, 1, 1, "", {}, "bad"),
    ]
    others = pa.table({"id": [1, 2], "tags": [["a"], None]})
    state.write_questions(Questions(rows, others))
    assert (read := state.read_questions()).rows == rows
    assert read.others == others
    state.add([*requests(3), *ends(2)])
    assert saved(state) == [*ends(2), requests(3)[2]]
    assert state.read_open() == requests(3)[2:]
    state.remove()
    assert not state.folder.exists()


@pytest.mark.parametrize("seed", range(5))
def test_an_answer_is_not_replaced_and_the_latest_request_counts(seed, local):
    lines = [
        Answer("q", "open", "old", submitted_at=1.0), Answer("q", "open", "new", submitted_at=3.0),
        Answer("q", "failed", "old", ended_at=2.0),
    ]  # fmt: skip
    more = [Answer("q", "complete", "new", ended_at=4.0), Answer("q", "lost", "new", ended_at=5.0)]
    for expected, added in (("open", lines), ("complete", more)):
        random.Random(seed).shuffle(added)
        for line in added:
            local.add([line])
        answer = local.read()["q"]
        assert (answer.request_id, answer.status) == ("new", expected)


def test_a_new_try_keeps_only_what_it_is_told(state):
    state.add([*requests(3), *ends(3, "failed")])
    state.begin(requests(1, is_reused=True))
    assert state.read() == {"q0": requests(1, is_reused=True)[0]}


@pytest.mark.promise("chat", "Answers that were saved before a kill are read again.")
@pytest.mark.parametrize("cut", [2, 10, 30])
def test_a_last_line_that_a_kill_cut_off_is_tolerated(cut, local):
    local.add(ends(3))
    (path,) = local.folder.glob("*.jsonl")
    path.write_bytes(path.read_bytes()[:-cut])
    assert saved(local) == ends(2)


def test_a_folder_that_cannot_be_used_says_what_to_do(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(AssistantStorageError, match="beside output_path"):
        BatchState(str(tmp_path / "file" / "folder")).write_questions(NONE)
    with pytest.raises(AssistantError, match="shared folder"):
        BatchState(str(tmp_path / "nowhere")).read_open()


def test_the_folder_is_hidden_from_readers_of_datasets(tmp_path):
    output = ObjectStoragePath(str(tmp_path / "today.parquet"))
    one, other = (module.state_of(output, scope).folder for scope in ("a", "b"))
    assert one.name.startswith(".today.parquet.")
    assert one != other


@pytest.mark.parametrize("error", [None, ZeroDivisionError, asyncio.CancelledError])
async def test_lines_are_written_now_and_then_and_at_the_end(error, local, monkeypatch):
    monkeypatch.setattr(module, "FLUSH", 0.01)
    try:
        async with Writer(local) as writer:
            writer.add(ends(1)[0])
            async with asyncio.timeout(60):
                while not local.folder.exists() or not local.read():  # noqa: ASYNC110 (a thread writes)
                    await asyncio.sleep(0.005)
            writer.add(ends(2)[1])
            if error:
                raise error
    except (ZeroDivisionError, asyncio.CancelledError):
        pass
    assert saved(local) == ends(2)
    assert len(list(local.folder.glob("*.jsonl"))) == 2


async def test_a_write_that_fails_is_repeated_with_the_next(local, monkeypatch, caplog):
    add, failures = local.add, 2

    def fails(lines):
        nonlocal failures
        failures -= 1
        if failures >= 0:
            raise OSError("disk full")
        add(lines)

    monkeypatch.setattr(module, "FLUSH", 0.01)
    monkeypatch.setattr(local, "add", fails)
    async with Writer(local) as writer:
        for end in ends(3):
            writer.add(end)
            await asyncio.sleep(0.03)
    assert saved(local) == ends(3)
    assert caplog.text.count("disk full") == 1
