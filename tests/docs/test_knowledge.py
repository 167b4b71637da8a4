"""The pages on files and help desks: the DAG that waits for a file, and the readers of articles."""

from __future__ import annotations

import asyncio
import re
from importlib import import_module
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from tests.docs.pages import ROOT, blocks_of
from tests.docs.test_code_blocks import dags_of, documents_sent, in_folder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import RunningService
    from tests.task_runs.run import Run

PAGE = "docs/load/knowledge-files.md"
HELP_DESKS = "docs/load/knowledge-help-desks.md"

INTERCOM = {"body": "<p>text</p>", "state": "published", "default_locale": "en", "url": "https://help.acme.com/1"}
CONFLUENCE = {"status": "current", "body": {"storage": {"value": "<p>text</p>"}}, "_links": {"webui": "/spaces/E/1"}}
SECOND_PAGE = "/wiki/api/v2/pages?cursor=c"
# What each system answers to the paths that the page of the documentation reads.
REPLIES: dict[str, Any] = {
    "api.intercom.io/articles?per_page=50&page=1": {"data": [{"id": "1", **INTERCOM}], "pages": {"total_pages": 2}},
    "api.intercom.io/articles?per_page=50&page=2": {"data": [{"id": "2", **INTERCOM}], "pages": {"total_pages": 2}},
    "acme.freshdesk.com/api/v2/solutions/categories?per_page=100&page=1": [{"id": 1, "name": "General"}],
    "acme.freshdesk.com/api/v2/solutions/categories/1/folders?per_page=100&page=1": [{"id": 2}, {"id": 3}],
    "acme.freshdesk.com/api/v2/solutions/folders/2/articles?per_page=100&page=1": [
        {"id": number, "status": 2, "description": "text"} for number in range(100)
    ],
    "acme.freshdesk.com/api/v2/solutions/folders/2/articles?per_page=100&page=2": [],
    "acme.freshdesk.com/api/v2/solutions/folders/3/articles?per_page=100&page=1": [
        {"id": 100, "status": 2, "description": "text"}
    ],
    "acme.atlassian.net/wiki/api/v2/pages?body-format=storage&limit=100": {
        "results": [{"id": "1", **CONFLUENCE}],
        "_links": {"next": SECOND_PAGE},
    },
    f"acme.atlassian.net{SECOND_PAGE}": {"results": [{"id": "2", **CONFLUENCE}], "_links": {}},
}


@pytest.mark.parametrize(
    ("system", "keys", "url"),
    [
        ("intercom", ["1/en", "2/en"], "https://help.acme.com/1"),
        (
            "freshdesk",
            [str(number) for number in range(101)],
            "https://acme.freshdesk.com/support/solutions/articles/0",
        ),
        ("confluence", ["1", "2"], "https://acme.atlassian.net/wiki/spaces/E/1"),
    ],
)
def test_the_readers_of_help_desks_read_all_pages(
    system: str, keys: list[str], url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(address: str, **_: Any) -> httpx.Response:
        reply = REPLIES[address.removeprefix("https://")]
        return httpx.Response(200, json=reply, request=httpx.Request("GET", address))

    monkeypatch.setattr(httpx, "get", answer)
    (block,) = [block for block in blocks_of(ROOT / HELP_DESKS) if re.search(rf"def {system}_", block.code)]
    names: dict[str, Any] = {}
    exec(block.code, names)
    rows = list(names["articles"])
    assert [row["key"] for row in rows] == keys
    assert {row["content"] for row in rows} == {"text"}
    assert rows[0]["url"] == url


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
