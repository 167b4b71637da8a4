"""A load that replaces and removes documents, killed at any of its requests, and its retry."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from random import Random
from typing import Any

import pytest

from airflow_provider_assistant.operators.documents import AssistantLoadQAOperator
from tests.document_site import PAGINGS, DocumentSite, Names
from tests.integration.faults.attempts import Attempt, AttemptProcess
from tests.processes import preload

preload(
    __name__,
    "airflow_provider_assistant.loading.engine",
    "airflow_provider_assistant.loading.load_client",
    "airflow_provider_assistant.loading.preflight",
)

SEEDS = int(os.environ.get("ASSISTANT_FAULT_SEEDS", "1"))


def rows_of(contents: dict[str, str]) -> list[dict[str, str]]:
    return [{"title": key, "question": f"What is {key}?", "answer": answer} for key, answer in contents.items()]


@dataclass(frozen=True, kw_only=True)
class ReplaceAttempt(Attempt):
    """One attempt of a task that makes the site equal to its rows."""

    contents: dict[str, str]
    task_id: str = "load"

    def operator(self) -> AssistantLoadQAOperator:
        options: dict[str, Any] = {"key_columns": ["title"], "max_concurrency": 4, **self.options}
        return AssistantLoadQAOperator(
            task_id=self.task_id,
            source=rows_of(self.contents),
            on_change="replace",
            on_missing="delete",
            activate=True,
            **options,
        )


class KillingSite(DocumentSite):
    """Kill the task at one of its requests, before or after it is carried out."""

    process: AttemptProcess | None = None
    kill_at = -1
    is_before = True

    def arm(self, process: AttemptProcess, kill_at: int, is_before: bool) -> None:
        with self._guard:
            self.process, self.kill_at, self.is_before = process, len(self.requests) + kill_at, is_before

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, before=self._before, after=self._after, **options)

    def _before(self, number: int, _method: str, _path: str) -> int | None:
        if self.process and self.is_before and number >= self.kill_at:
            self.process.kill()
            # The process is gone, so nobody reads the answer.
            return 503
        return None

    def _after(self, number: int, _method: str, _path: str) -> bool:
        if self.process and number >= self.kill_at:
            self.process.kill()
            return False
        return True


@pytest.mark.parametrize("seed", range(SEEDS))
def test_after_one_retry_the_site_has_exactly_the_new_documents(seed, tmp_path):
    rng = Random(seed)
    old = {f"row {number}": f"Old {number}." for number in range(12)}
    new = {name: answer for name, answer in old.items() if rng.random() > 0.2}
    for name in rng.sample(list(new), 5):
        new[name] = f"New: {new[name]}"
    new.update({"added": "Fresh.", "also added": "Fresh too."})
    names = Names.random(rng)
    with KillingSite(
        names, paging=rng.choice(PAGINGS), page_size=5, draft=rng.random() < 0.5, unknown="reject"
    ) as site:
        connection = site.connection()
        first = ReplaceAttempt(home=tmp_path, connection=connection, contents=old, run_id="first")
        assert AttemptProcess(first).wait().error is None
        earlier = set(site.documents)
        second = ReplaceAttempt(home=tmp_path, connection=connection, contents=new, run_id="second")
        process = AttemptProcess(second)
        site.arm(process, rng.randint(0, 24), rng.random() < 0.5)
        killed = process.wait()
        site.process = None
        was_killed = killed.exitcode == -signal.SIGKILL
        if was_killed:
            check_nothing_is_lost(site, old, new, earlier)
            retried = AttemptProcess(second).wait()
            assert retried.error is None, retried.trace
        assert site.in_use() == sorted((f"What is {name}?", answer) for name, answer in new.items())
        assert len(site.documents) == len(new)


def check_nothing_is_lost(site: DocumentSite, old: dict[str, str], new: dict[str, str], earlier: set[str]) -> None:
    """Check that each row that is in both sources has a document in use, the old or the new one."""
    in_use = dict(site.in_use())
    for name in old.keys() & new.keys():
        assert in_use[f"What is {name}?"] in {old[name], new[name]}
    deleted = {change.document_id for change in site.changes if change.action == "delete"}
    assert deleted <= earlier
