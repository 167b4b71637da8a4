"""Every DAG of the pages and the examples fails if the service rejects all requests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.pages import ROOT
from tests.docs.test_code_blocks import BLOCKS, dags_of, in_folder, is_dag

FILES = [*(block for block in BLOCKS if is_dag(block)), *sorted((ROOT / "dags").glob("*.py"))]
# These DAGs only read files or the ledger.
OFFLINE = {"after_the_load", "assistant_retention", "retention"}


@pytest.fixture(params=FILES, ids=lambda file: file.name)
def dags(request, tmp_path):
    """The DAGs of a block of a page, or of an example."""
    file = request.param
    return dags_of(file if isinstance(file, Path) else in_folder(file, tmp_path))


# In make test, test_no_last_task_hides_a_failure checks what has made these DAGs green.
@pytest.mark.nightly
@pytest.mark.promise("Airflow", "No DAG of the documentation is green although the service refuses everything.")
def test_dags_fail_with_their_load(dags, connect, run_dag, service, files):
    for dag in dags:
        service.answer("status:403", times=None)
        # Some of these DAGs refuse a connection without it before they send anything.
        connect(manage_documents=True)
        state = run_dag(dag).state
        assert bool(service.journal()) == (dag.dag_id not in OFFLINE)
        assert state == "failed" or dag.dag_id in OFFLINE


def test_no_last_task_hides_a_failure(dags):
    for dag in dags:
        last = [task for task in dag.tasks if not task.downstream_task_ids and not task.is_teardown]
        assert not [task.task_id for task in last if task.trigger_rule in {"all_done", "always", "none_failed"}]
