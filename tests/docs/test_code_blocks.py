"""Run every Python block of the documentation against the embedded service."""

from __future__ import annotations

import inspect
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.docs.pages import ROOT, Block, blocks, blocks_of, pages
from tests.task_runs.in_memory import run_in_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from airflow.sdk import DAG

    from tests.conftest import RunningService

DEFINES_DAG = re.compile(r"^@dag\b|\bDAG\(", re.MULTILINE)
BLOCKS = blocks("python", "py", "python3")


@pytest.fixture
def dags_folder() -> Iterator[Path]:
    """Airflow's DAGs folder, for this test only."""
    from airflow.configuration import conf

    folder = Path(conf.get("core", "dags_folder")) / "docs"
    folder.mkdir(parents=True)
    yield folder
    shutil.rmtree(folder)


def is_dag(block: Block) -> bool:
    return DEFINES_DAG.search(block.code) is not None


def is_load(block: Block) -> bool:
    return is_dag(block) and "operators.documents import" in block.code


def in_folder(block: Block, folder: Path) -> Path:
    path = folder / f"{block.page.stem.replace('-', '_')}_{block.line}.py"
    path.write_text(block.code)
    return path


@pytest.mark.promise("pages", "Every Python example of the documentation runs; a load sends nothing the second time.")
@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.name)
@pytest.mark.usefixtures("files")
def test_block_runs(
    judge: Any,
    block: Block,
    connect: Callable[..., None],
    service: RunningService,
    dags_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    """Run a block. Run DAGs with a load twice, and check that the second run sends nothing."""
    # Only some pages need the routes of documents.
    manages = "sensors.documents" in block.code or 'on_change="replace"' in block.code
    connect(retries=4, **({"manage_documents": True} if manages else {}))
    monkeypatch.setenv("AIRFLOW_CONN_PYDANTICAI_DEFAULT", judge.conn_json())
    if is_dag(block):
        dags = dags_of(in_folder(block, tmp_path))
        run_well(dags)
        if is_load(block):
            sent = documents_sent(service)
            assert sent > 0
            run_well(dags)
            assert documents_sent(service) == sent
        return
    for earlier in blocks_of(block.page):
        if earlier in BLOCKS and is_dag(earlier) and earlier.line < block.line:
            in_folder(earlier, dags_folder)
    if ".test(" in block.code:
        request.getfixturevalue("_airflow_database")
    names: dict[str, Any] = {"__name__": "block"}
    exec(compile(block.code, block.name, "exec"), names)
    for name, function in list(names.items()):
        if name.startswith("test_"):
            function(**{parameter: request.getfixturevalue(parameter) for parameter in parameters(function)})


def parameters(function: Any) -> list[str]:
    return list(inspect.signature(function).parameters)


def documents_sent(service: RunningService) -> int:
    return len([entry for entry in service.journal("POST") if "/documents" in entry.path])


def dags_of(path: Path) -> list[DAG]:
    from airflow.dag_processing.dagbag import DagBag

    bag = DagBag(path)
    assert not bag.import_errors
    assert bag.dags
    return list(bag.dags.values())


def run_well(dags: list[DAG]) -> None:
    for dag in dags:
        run = run_in_memory(dag)
        assert not run.errors
        assert run.state == "success", run.tasks
        assert {state for state, _ in run.tasks.values()} == {"success"}, run.tasks


def test_no_block_is_overlooked() -> None:
    fences = sum(len(re.findall(r"^\s*(?:```+|~~~+)", page.read_text(), re.MULTILINE)) for page in pages())
    assert fences == 2 * sum(len(blocks_of(page)) for page in pages())
    assert all(block.language for page in pages() for block in blocks_of(page))
    assert "README.md" in {block.page.name for block in BLOCKS}


def test_lines_fit_the_width_of_the_site() -> None:
    shown = {block.name: block.code for block in blocks("python", "sql")}
    shown |= {path.name: path.read_text() for path in (ROOT / "dags").glob("*.py")}
    assert [name for name, code in shown.items() if max(map(len, code.splitlines())) > 88] == []


@pytest.mark.parametrize("block", blocks("bash", "sh", "console"), ids=lambda block: block.name)
def test_shell_blocks_name_what_exists(block: Block) -> None:
    """Make targets, modules and DAGs in shell blocks exist. The live tests run the commands."""
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"^make ([\w-]+)", block.code, re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), f"make {target}"
    for module in re.findall(r"python -m (airflow_provider_assistant[\w.]*|tests[\w.]*)", block.code):
        path = ROOT.joinpath(*module.split("."))
        assert path.with_suffix(".py").exists() or (path / "__main__.py").exists(), module
    for dag_id in re.findall(r"airflow dags \w+ (assistant_\w+)", block.code):
        assert (ROOT / "dags" / f"{dag_id}.py").exists(), dag_id
    for path in re.findall(r"(?<![\w/.])(?:dags|tests|docs)/[\w/.-]+", block.code):
        assert (ROOT / path).exists(), path
    assert "/home" not in block.code
