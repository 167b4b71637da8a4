"""Base class of the operators that load documents."""

from __future__ import annotations

import contextlib
import logging
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.providers.common.compat.sdk import Asset, AssetAlias, Context

from airflow_provider_assistant.api.payloads import Payload
from airflow_provider_assistant.client.cancellation import run_coroutine
from airflow_provider_assistant.exceptions import AssistantAmbiguousError, AssistantRateLimitError
from airflow_provider_assistant.failures import FailureContext, explained
from airflow_provider_assistant.keys import key_names
from airflow_provider_assistant.ledger import BatchLedger, DocumentScope, Ledger, LoadRecord, RunRef
from airflow_provider_assistant.loading.findings import FindingsFile
from airflow_provider_assistant.loading.report import Counts
from airflow_provider_assistant.loading.rows import Rows
from airflow_provider_assistant.observability import metrics, tracing
from airflow_provider_assistant.observability.lineage import LineageDataset
from airflow_provider_assistant.operators.base import (
    AssistantConcurrentOperator,
    check_choice,
    findings_of,
    seconds_of,
    warn_of_findings,
)
from airflow_provider_assistant.operators.links import AssistantFindingsLink
from airflow_provider_assistant.operators.load_counts import load_failure, load_progress
from airflow_provider_assistant.operators.load_options import AssistantLoadOptionsOperator
from airflow_provider_assistant.storage.paths import usable_path
from airflow_provider_assistant.triggers.deferral import is_deferrable, restore_attributes

if TYPE_CHECKING:
    from airflow_provider_assistant.loading.engine import Load
    from airflow_provider_assistant.loading.options import OnMissing

log = logging.getLogger(__name__)

# Name of the asset alias of loads without outlets.
DOCUMENTS = "assistant_documents"
# Seconds. A service that asks for a longer pause is still busy a few seconds later, so a shorter deferral would only
# cost the start of another task.
SHORTEST_DEFERRAL = 60.0


class AssistantLoadOperator(AssistantLoadOptionsOperator):
    """
    Base of the operators that load documents.

    :param on_ambiguous: What to do with a row that an earlier attempt may have created: ``retry`` (default) sends it
        again and lists it as possibly duplicated, ``skip`` lists it without sending it, ``fail`` stops the load.
    :param on_change: What to do with a key whose content has changed: ``create`` (default) creates another document and
        lists the superseded one, because the API can neither update nor delete; ``skip`` does not send the row;
        ``fail`` stops the load.
    :param on_missing: What to do with documents whose row is gone from the source: ``stale`` (default) lists them,
        because the API cannot delete them; ``ignore`` does not look for them. Use ``ignore`` if the source contains
        only new rows.
    :param namespace: Separates the keys of this load from those of other loads, for tables whose keys overlap. Changing
        it creates every row again. Default: one namespace for all loads of a site and a kind of document.
    :param adopt: Whether to take over keys that belong to another source. Default: False; a load that would replace
        documents of another source fails before its first request.
    :param allow_mass_change: Whether a load may replace, or mark as stale, more than half of the source's documents
        (and at least 50). Default: False; such a load fails before its first request.
    :param on_limit: What to do if the load would create more documents than the tenant's limits allow. The limits are
        read once, before the first row is sent, if the tenant is known. ``fail`` (default) fails before the first row
        is sent; ``fit`` creates as many as there is room for, in the order of the source, skips the others and lists
        them; ``ignore`` does not read the limits. Limits that cannot be read or understood do not stop a load.
    :param max_rejected: Number of rejected rows that the task tolerates: a count, or a fraction below 1. Default: 0.
        All other rows are loaded in any case.
    :param findings_path: Parquet file for the findings, the rows that a person should look at: a local path or an
        object storage URL. Default: a file in ``[assistant] findings_folder``, written only if there are
        findings.
    :param source_name: Name of the source in the ledger. A document becomes stale when the source of this name no
        longer contains its row. Default: ``<dag_id>.<task_id>``.
    :param max_concurrency: Maximum number of requests in flight. Default: that of the connection.
    :param deferrable: Whether to spend a pause of more than five minutes in the triggerer instead of failing, when the
        service asks the task to back off. Needs the ledger. Default: Airflow's ``[operators] default_deferrable``.
    :param timeout: Longest total time of a try that defers, pauses included, in seconds or as a timedelta. After that,
        the task fails instead of deferring again. Default: 86400, one day.
    :param ledger: Whether to record in the ledger which rows were created. Default: True. Without the ledger, every run
        creates every row again.
    :param ledger_conn_id: SQL connection of the ledger. Default: that of the assistant connection, or else of
        Airflow's configuration.
    :param assistant_conn_id: Airflow connection of type ``assistant``. Default: ``assistant_default``.
    :param tenant_id: The tenant. Default: that of the connection.
    :param site_id: The site. Default: that of the connection.
    """

    template_fields: Sequence[str] = (
        *AssistantConcurrentOperator.template_fields,
        "findings_path",
        "source_name",
        "namespace",
        "ledger_conn_id",
    )

    operator_extra_links = (AssistantFindingsLink(),)

    endpoint: ClassVar[str]
    payload: ClassVar[type[Payload] | None] = None
    kind: ClassVar[str]
    on_missing_choices: ClassVar[tuple[str, ...]] = ("stale", "ignore")
    group_columns: str | Sequence[str] = ()
    _running: Load | None = None
    # State of the current try.
    _record = LoadRecord()
    _listed: FindingsFile | None = None

    def __init__(
        self,
        *,
        on_missing: OnMissing = "stale",
        namespace: str | None = None,
        max_rejected: float = 0,
        findings_path: str | None = None,
        source_name: str | None = None,
        deferrable: bool | None = None,
        timeout: float | timedelta = 86_400.0,
        ledger: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_choice("on_missing", on_missing, self.on_missing_choices)
        if deferrable and not ledger:
            raise ValueError(
                "deferrable=True needs the ledger: without it, a load that resumes creates every row again"
            )
        if max_rejected < 0:
            raise ValueError(f"max_rejected must be a count or a fraction below 1, not {max_rejected!r}")
        self.on_missing = on_missing
        self.namespace = namespace
        self.max_rejected = max_rejected
        self.findings_path = findings_path
        self.source_name = source_name
        # default_deferrable may be True for a task without the ledger.
        self.deferrable = ledger and is_deferrable(deferrable)
        self.timeout = seconds_of(timeout)
        self.ledger = ledger

    @property
    def listed_findings(self) -> str | None:
        """Path of the findings of this try, or None if there are none."""
        return self._listed.listed if self._listed else None

    @abstractmethod
    def _rows(self, site_id: str) -> contextlib.AbstractContextManager[Rows]:
        """Open the rows of the source."""

    def _is_whole(self, context: Context) -> bool:
        """Return whether this task reads its whole source and can find stale documents. A mapped task cannot."""
        return self.on_missing == "stale" and RunRef.of(context).map_index < 0

    @explained
    def execute(self, context: Context) -> dict[str, Any]:
        """
        Create a document for each row that the ledger does not record as created.

        :param context: Airflow's task context.
        :return: The counts ``rows = created + unchanged + skipped + rejected + ambiguous + failed``, ``changed``,
            ``possibly_duplicated``, ``stale``, ``requests``, ``throttled``, ``seconds`` and ``rows_per_second``, see
            :class:`~airflow_provider_assistant.loading.report.Counts`; ``site_id``; ``source``, the name of the source;
            and ``findings``, the path of the findings or None if there are none.
        :raises AssistantInputError: The source cannot be loaded, and nothing was sent; or more than ``max_rejected``
            rows were rejected, and the others are loaded. Airflow does not retry the task.
        :raises AssistantIncompleteError: Rows failed or are ambiguous. A retry sends those and no others.
        :raises AssistantRateLimitError: The service asks for a pause of more than five minutes, and the task cannot
            defer or the pause would end after ``timeout``.
        :raises AssistantAPIError: The service answered 401, 403 or 404, which stopped the load at once.
        :raises AssistantLedgerError: The ledger cannot be used.
        """
        return self._execute(context, until=self.hook.client.now() + self.timeout)

    @explained
    def execute_complete(
        self,
        context: Context,
        event: Any = None,  # noqa: ARG002
        until: float | None = None,
        rendered: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """
        Continue the load after a pause in the triggerer. Rows that were created before count as unchanged.

        :param context: Airflow's task context.
        :param event: The trigger's event. Not used.
        :param until: When ``timeout`` expires, in seconds since the epoch.
        :param rendered: Values of the template fields at the time of the deferral. They replace the values that Airflow
            rendered for this run of the task.
        :return: The same as :meth:`execute`.
        """
        restore_attributes(self, {"rendered": rendered})
        return self._execute(context, until or self.hook.client.now() + self.timeout)

    def failure_context(self, context: Context) -> FailureContext:
        """Return the source and the counts of this try, for the log lines of a failure."""
        doing = f"load of {self._source_name(context)!r} to {self.hook.location()}"
        return FailureContext(doing, load_progress(self._record.counts), self.listed_findings)

    def _execute(self, context: Context, until: float) -> dict[str, Any]:
        self._record, self._listed = LoadRecord(), None
        with self._recorded(context) as (ledger, self._record):
            try:
                counts, findings = self._load(context, ledger, self._record)
            except (AssistantRateLimitError, AssistantAmbiguousError) as error:
                self._defer_after(error, until)
                raise
            result = {
                **counts.as_dict(),
                "site_id": self.hook.resolve_site_id(),
                "source": self._source_name(context),
                "findings": findings.listed,
            }
            columns = dict.fromkeys(self.payload.model_fields if self.payload else (), "string")
            self.lineage_outputs = (LineageDataset(self.asset_uri("documents"), columns, counts.created),)
            listed = f" Findings: {findings.listed}." if findings.listed else ""
            if failure := load_failure(
                counts, on_ambiguous=self.on_ambiguous, max_rejected=self.max_rejected, listed=listed
            ):
                raise failure
        warn_of_findings(findings.listed, findings.count)
        return self.emit_asset_events(context, result)

    def emit_asset_events(self, context: Context, result: dict[str, Any]) -> dict[str, Any]:
        """
        Set the result as the extra of the events of the outlet assets; without outlets, of the site's documents.

        :param context: Airflow's task context.
        :param result: The result of the task.
        :return: The result.
        """
        if self.outlets:
            return super().emit_asset_events(context, result)
        # When the DAG is parsed, nobody knows the site of the connection. An alias may name its asset at run time.
        self.outlets = [alias := AssetAlias(DOCUMENTS)]
        context["outlet_events"][alias].add(Asset(uri=self.asset_uri("documents")), extra=result)
        return result

    def on_kill(self) -> None:
        """Stop sending, wait a few seconds for the replies to requests in flight, and record their outcome."""
        if self._running:
            self._running.cancel()

    @contextlib.contextmanager
    def _recorded(self, context: Context) -> Iterator[tuple[Ledger | None, LoadRecord]]:
        """Open the ledger, unless ``ledger`` is False, and record the load in it."""
        with self.open_ledger() as ledger:
            if ledger is None:
                self.log.warning("ledger=False: this run sends every row, and a retry or another run sends it again.")
                yield None, LoadRecord()
                return
            with ledger.load(
                scope=self.hook.site_url(),
                endpoint=self.endpoint,
                site_id=self.hook.resolve_site_id(),
                source=self._source_name(context),
                run=RunRef.of(context),
            ) as record:
                yield ledger, record

    def _load(self, context: Context, ledger: Ledger | None, record: LoadRecord) -> tuple[Counts, FindingsFile]:
        site_id, run = self.hook.resolve_site_id(), RunRef.of(context)
        with contextlib.ExitStack() as stack:
            rows = stack.enter_context(self._rows(site_id))
            memory = None
            if ledger:
                memory = ledger.documents(
                    scope=DocumentScope(self.hook.site_url(), self.endpoint, self.namespace),
                    site_id=site_id,
                    source=self._source_name(context),
                    run=run,
                    has_groups=bool(key_names(self.group_columns, "group_columns")),
                )
                stack.enter_context(memory)
            findings = self._listed = stack.enter_context(self._findings(run))
            counts = run_coroutine(self._run(rows, memory, findings, record, self._is_whole(context)))
        return counts, findings

    async def _run(
        self,
        rows: Rows,
        memory: BatchLedger | None,
        findings: FindingsFile,
        record: LoadRecord,
        is_whole: bool,
    ) -> Counts:
        from airflow_provider_assistant.loading.engine import Load
        from airflow_provider_assistant.loading.load_client import LoadClient

        options = self.load_options
        facts = {"site_id": self.hook.resolve_site_id(), "kind": self.kind}
        # One span for all rows: no tool can display a trace with millions of spans.
        with tracing.span("load", **facts) as span:
            async with LoadClient(self.hook.settings.client, options) as client:
                judged: dict[str, Any] = {"judge_stale": is_whole, "judge_groups": self.on_missing != "ignore"}
                parts: dict[str, Any] = {"ledger": memory, "findings": findings, "read_limits": self.read_limits}
                self._running = load = Load(client, rows, options, **parts, **judged)
                try:
                    return await load.run()
                finally:
                    self._running = None
                    record.counts = load.counts.as_dict()
                    self.log.info("Site %r, %s.", self.hook.resolve_site_id(), load.counts)
                    metrics.rows(self.kind, load.counts.outcomes)
                    span.set_attributes({f"assistant.rows.{end}": count for end, count in load.counts.outcomes.items()})

    def _findings(self, run: RunRef) -> FindingsFile:
        if self.findings_path:
            return FindingsFile(usable_path(self.findings_path))
        return findings_of(run)

    def _source_name(self, context: Context) -> str:
        return self.source_name or f"{context['ti'].dag_id}.{context['ti'].task_id}"

    def _defer_after(self, error: AssistantRateLimitError | AssistantAmbiguousError, until: float) -> None:
        """Defer the task if the service asks for a pause that ends before the timeout. Otherwise return."""
        is_refusal = isinstance(error, AssistantRateLimitError) or isinstance(error.__cause__, AssistantRateLimitError)
        asked = error.retry_after or 0.0
        if not self.deferrable or not (is_refusal or asked > self.load_options.max_backoff):
            return
        pause = max(asked, SHORTEST_DEFERRAL)
        if self.hook.client.now() + pause > until:
            self.log.error(
                "Not deferred: the pause of %.0f s would end after the timeout of %.0f s.", pause, self.timeout
            )
            return
        from airflow.providers.standard.triggers.temporal import DateTimeTrigger

        moment = datetime.now(UTC) + timedelta(seconds=pause)
        self.log.info("Deferring until %s, because the service asks to back off.", moment)
        rendered = {name: text for name in self.template_fields if isinstance(text := getattr(self, name), str)}
        kwargs = {"until": until, "rendered": rendered}
        self.defer(trigger=DateTimeTrigger(moment=moment), method_name="execute_complete", kwargs=kwargs)
