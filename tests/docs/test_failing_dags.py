"""Every DAG of the pages and the examples fails if the service rejects all requests."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.docs.pages import ROOT
from tests.docs.test_code_blocks import BLOCKS, dags_of, in_folder, is_dag
from tests.docs.test_loads import INCREMENTAL, dag_on

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow.sdk import DAG

    from tests.conftest import RunningService
    from tests.task_runs.run import Run

DAG_BLOCKS = [block for block in BLOCKS if is_dag(block)]
EXAMPLES = sorted((ROOT / "dags").glob("*.py"))
# These DAGs only read files or the ledger.
OFFLINE = {
    "after_the_load",
    "assistant_retention",
    "assistant_weekly_report",
    "export_operations",
    "look_at_feedback",
    "rewrite_feedback",
}


@pytest.fixture
def run_refused(
    connect: Callable[..., None], run_dag: Callable[..., Run], service: RunningService, files: None
) -> Callable[[DAG], None]:
    """Run a DAG while the service answers 403 to every request, and check that the run fails."""

    def run(dag: DAG) -> None:
        service.answer("status:403", times=None)
        # Some of these DAGs refuse a connection without it before they send anything.
        connect(manage_documents=True)
        state = run_dag(dag).state
        assert bool(service.journal()) == (dag.dag_id not in OFFLINE)
        if dag.dag_id not in OFFLINE:
            assert state == "failed", f"{dag.dag_id} is green although the service refused everything"

    return run


# In make test, test_no_last_task_hides_a_failure checks what has made these DAGs green.
@pytest.mark.slow
@pytest.mark.parametrize("block", DAG_BLOCKS, ids=lambda block: block.name)
def test_dags_of_the_pages_fail_with_their_load(block, run_refused, tmp_path: Path) -> None:
    for dag in dags_of(in_folder(block, tmp_path)):
        run_refused(dag)


@pytest.mark.slow
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_dags_fail_with_their_load(path, run_refused, tmp_path: Path) -> None:
    for dag in dags_of(path):
        run_refused(dag)


@pytest.mark.parametrize("file", [*DAG_BLOCKS, *EXAMPLES], ids=lambda file: file.name)
def test_no_last_task_hides_a_failure(file, tmp_path: Path) -> None:
    for dag in dags_of(file if isinstance(file, Path) else in_folder(file, tmp_path)):
        last = [task for task in dag.tasks if not task.downstream_task_ids and not task.is_teardown]
        assert not [task.task_id for task in last if task.trigger_rule in {"all_done", "always", "none_failed"}]


def test_the_findings_are_read_although_the_load_failed(
    connect: Callable[..., None], run_dag: Callable[..., Run], service: RunningService, files: None, tmp_path: Path
) -> None:
    connect()
    service.answer("status:400", method="POST")
    run = run_dag(dag_on(INCREMENTAL, "load_faq_nightly", tmp_path))
    assert (run.state, run.task_state("load"), run.task_state("what_is_left_to_do")) == ("failed", "failed", "success")
