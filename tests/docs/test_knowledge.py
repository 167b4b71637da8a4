"""The page on files: its table of formats, its limits, and the DAG that waits for a file."""

from __future__ import annotations

import asyncio
import re
from importlib import import_module
from typing import TYPE_CHECKING

import pytest

from airflow_provider_assistant.knowledge import files
from airflow_provider_assistant.parsing import child, limits
from tests.docs.pages import ROOT, blocks_of, codes, section, table
from tests.docs.test_code_blocks import dags_of, documents_sent, in_folder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import RunningService
    from tests.task_runs.run import Run

PAGE = "docs/howto/knowledge-files.md"


def test_every_suffix_is_listed() -> None:
    text = (ROOT / PAGE).read_text()
    listed = [suffix for row in table(text[text.index("\n| Files ") :]) for suffix in codes(row["Files"])]
    assert sorted(listed) == sorted([*files.MARKDOWN, *child.LIBRARIES])


def test_the_limits() -> None:
    cells = [row[""] for row in table(section(PAGE, "Files that cannot be read"))]
    numbers = [[int(number.replace(",", "")) for number in re.findall(r"\d[\d,]*", cell)] for cell in cells]
    million = 1_000_000
    assert numbers == [
        [files.LARGEST_TEXT // million, limits.LARGEST_FILE // million],
        [limits.LARGEST_ARCHIVE // million, limits.MOST_MEMBERS],
        [limits.MOST_PAGES],
        [limits.MOST_CHARACTERS],
        [limits.MEMORY // 2**30],
    ]
    assert limits.SECONDS == 120


@pytest.mark.usefixtures("files")
def test_a_file_starts_the_load(
    connect: Callable[..., None], run_dag: Callable[..., Run], service: RunningService, tmp_path: Path
) -> None:
    """The trigger that the triggerer would run deletes the file and fires; the DAG then loads the folder."""
    connect()
    (block,) = [block for block in blocks_of(ROOT / PAGE) if "AssetWatcher" in block.code]
    ready = tmp_path / "handbook" / "_READY"
    path = in_folder(block, tmp_path)
    path.write_text(block.code.replace("/data/handbook/_READY", str(ready)).replace("=30", "=0.01"))
    (dag,) = dags_of(path)
    classpath, arguments = dag.schedule[0].watchers[0].trigger.serialize()
    module, _, name = classpath.rpartition(".")
    trigger = getattr(import_module(module), name)(**arguments)

    async def fire() -> object:
        waiting = asyncio.create_task(anext(trigger.run()))
        await asyncio.sleep(0)
        assert not waiting.done()
        ready.touch()
        return await asyncio.wait_for(waiting, 30)

    assert asyncio.run(fire()).payload is True
    assert not ready.exists()
    assert run_dag(dag).state == "success"
    assert documents_sent(service) == 2
