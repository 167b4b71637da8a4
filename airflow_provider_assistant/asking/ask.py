"""Ask the questions of a source, and write their answers: what the operator and the command share."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider_assistant.asking.answers import SCOPE, SITE, counts, output_table, published
from airflow_provider_assistant.asking.batch import AskJob, Batch
from airflow_provider_assistant.asking.findings import write_findings
from airflow_provider_assistant.asking.questions import Questions
from airflow_provider_assistant.asking.state import findings_of, state_of
from airflow_provider_assistant.ledger import Ledger, RunRef, Scope, Site, key_of
from airflow_provider_assistant.loading.findings import DAG_ID
from airflow_provider_assistant.storage.write import replace

if TYPE_CHECKING:
    import pyarrow as pa
    from airflow.providers.common.compat.sdk import ObjectStoragePath


@dataclass(frozen=True, slots=True)
class Asked:
    """
    The end of a batch.

    :param table: The output.
    :param counts: See :func:`~airflow_provider_assistant.asking.answers.counts`; with ``sessions_closed``,
        ``sessions_not_closed`` and ``findings``, the path of the findings or None.
    """

    table: pa.Table
    counts: dict[str, Any]


class Asking:
    """
    A batch with its output.

    :param questions: The questions; None to go on with those of a task that was deferred.
    """

    def __init__(
        self,
        job: AskJob,
        questions: Questions | None,
        output: ObjectStoragePath,
        ledger: Ledger,
        site: Site,
        task: str,
        run: RunRef,
    ) -> None:
        self._job = job
        self._output = output
        self._site = site
        self._dag_id = run.dag_id
        self._state = state_of(output, job.scope)
        # Sync and async requests of a question are two things: an answer of one is none of the other.
        scope = Scope(site, "chat", key_of(job.scope, job.mode))
        self._scope_ledger = ledger.of(scope, task, run)
        self.is_new = questions is not None
        if questions is None:
            self._questions, self._others = self._state.read_questions()
        else:
            self._state.check()
            self._questions, self._others = questions, self._state.write_questions(questions)
        self.batch = Batch(job, self._questions, self._state, ledger, self._scope_ledger)

    @property
    def folder(self) -> str:
        """Folder of the batch state, for the trigger."""
        return str(self._state.folder)

    @contextmanager
    def opened(self) -> Iterator[Batch]:
        """Return the batch for a ``with`` block, after a look at what is done already."""
        with self._scope_ledger:
            if self.is_new:
                self.batch.begin(published(self._output, self._job.scope))
            else:
                self.batch.resume()
            yield self.batch

    def finish(self) -> Asked:
        """Close the sessions, write the output and the findings, and record how the requests ended."""
        batch = self.batch
        closed, not_closed = batch.close_sessions()
        table = output_table(self._questions, self._others, batch.requests, batch.ends, batch.silence)
        second = batch.maybe_second
        found = write_findings(
            findings_of(self._output), self._questions, batch.requests, batch.ends, second, self._dag_id
        )
        metadata: Mapping[bytes, bytes] = {
            SCOPE: self._job.scope.encode(),
            SITE: json.dumps(self._site.columns()).encode(),
            DAG_ID: self._dag_id.encode(),
        }
        replace(table.replace_schema_metadata(metadata), self._output)
        batch.record_ends()
        self._state.remove()
        sessions = {"sessions_closed": closed, "sessions_not_closed": not_closed}
        return Asked(table, {**counts(table, batch.requests.values(), second), **sessions, "findings": found})
