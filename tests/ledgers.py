"""Ledgers with rows for tests, written through the interface that tasks use."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa

from airflow_provider_assistant.ledger import Claim, Kind, Ledger, Outcome, RunRef, Scope, Site, State, hash_of, key_of
from airflow_provider_assistant.ledger.clock import Clock
from airflow_provider_assistant.ledger.tries import recorded
from airflow_provider_assistant.loading.findings import Finding

SITE = Site("h.example", "help", url="https://h.example/m2m/sites/help")


class Filler:
    """
    Fill a ledger as tasks do.

    :ivar now: The end of what it writes.
    """

    def __init__(self, engine: sa.Engine) -> None:
        self.engine = engine
        self.now = datetime.now(UTC)
        # Tries that are never ended: a context manager that is collected would end them.
        self._killed: list[object] = []
        Ledger(engine, warn_if_new=False)

    def attempt(
        self,
        label: str,
        state: State,
        *,
        kind: Kind = "qa",
        site: Site = SITE,
        dag_id: str = "mine.kb",
        run_id: str = "run",
        source: str | None = None,
        namespace: str | None = None,
        content: str = "1",
        remote_id: str | None = None,
        group: str | None = None,
        hours: float = 1.0,
        at: datetime | None = None,
        gone: bool = False,
        details: Mapping[str, Any] | None = None,
        **outcome: Any,
    ) -> str:
        """
        Claim a row, and record the outcome; ``claimed`` has none. Return the key.

        :param hours: Hours since then. The sender of a claim is alive if it is 0.
        :param at: When it happened, instead of ``hours``.
        :param outcome: Further values of the outcome, such as ``ambiguous`` or ``status``.
        """
        moment = at or self.now - timedelta(hours=hours)
        ledger = Ledger(self.engine, ledger_clock=Clock(now=lambda: moment), warn_if_new=False)
        run = RunRef(dag_id, run_id, "load", -1)
        key = key_of(label)
        with ledger.of(Scope(site, kind, namespace), source or f"{dag_id}.load", run) as attempts:
            known = attempts.known([key])
            number = known[key][-1].number + 1 if key in known else 1
            claim = Claim(key, label, number, hash_of(content), group, details)
            assert attempts.commit((), [claim]) == {key}
            if state != "claimed":
                created_id = f"id of {label} {number}" if state == "created" else None
                outcome.setdefault("requests", 1)
                attempts.commit([Outcome(claim, state, remote_id or created_id, **outcome)], ())
            if gone:
                attempts.mark_gone([key])
        return key

    def load(
        self,
        dag_id: str = "mine.kb",
        *,
        hours: float = 1.0,
        outcome: str | None = "succeeded",
        site: Site = SITE,
        source: str | None = None,
        run_id: str | None = None,
        map_index: int = -1,
        kind: Kind = "qa",
        documents: int | None = 10,
        error: str | None = None,
        task_kind: str = "load",
        task_id: str = "load",
        region: str | None = None,
        findings: Sequence[Finding] = (),
        report: str | None = None,
        counts: Mapping[str, Any] | None = None,
        **changed_counts: int,
    ) -> str:
        """
        Record a try of a task that started some hours ago. Return its token.

        :param outcome: None for one that was killed.
        """
        token = uuid.uuid4().hex
        started_at = self.now - timedelta(hours=hours)
        moments = iter((started_at, started_at + timedelta(minutes=5)))
        run = RunRef(dag_id, run_id or f"run {hours}", task_id, map_index, region)
        name = source or f"{dag_id}.load"
        manager = recorded(self.engine, token, task_kind, site, name, run, kind=kind, now=lambda: next(moments))
        this_try = manager.__enter__()
        if outcome is None:
            self._killed.append(manager)
            return token
        standard = {"rows": 10, "created": 9, "rejected": 1, "changed": 1, "stale": 2, "requests": 12, "throttled": 3}
        this_try.counts = (standard if counts is None else counts) | changed_counts
        this_try.documents = documents
        this_try.findings = "/findings.parquet" if findings else None
        this_try.first_findings = findings
        this_try.report = report
        this_try.needs_person = outcome == "succeeded with findings"
        if outcome == "failed":
            this_try.error = RuntimeError(error or "it failed")
        manager.__exit__(None, None, None)
        return token
