"""Base class of the operators that load documents."""

from __future__ import annotations

import contextlib
import json
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.providers.common.compat.sdk import Asset, AssetAlias, Context

from airflow_provider_assistant import lake, parameters
from airflow_provider_assistant.api.payloads import Payload
from airflow_provider_assistant.client.cancellation import run_coroutine
from airflow_provider_assistant.exceptions import (
    AssistantAmbiguousError,
    AssistantInputError,
    AssistantRateLimitError,
    AssistantStorageError,
)
from airflow_provider_assistant.failures import FailureContext, explained, log_attention
from airflow_provider_assistant.hooks.task_ledger import open_ledger
from airflow_provider_assistant.hooks.task_parameters import Checks, check_given, check_rendered
from airflow_provider_assistant.keys import key_names
from airflow_provider_assistant.ledger import DocumentScope, Ledger, LoadRecord, RunRef, ScopeLedger
from airflow_provider_assistant.loading.findings import FindingsFile, read_findings
from airflow_provider_assistant.loading.options import (
    DEFAULTS,
    OF_GROUPS,
    OPTIONS,
    LoadOptions,
    OnAmbiguous,
    OnChange,
    OnLimit,
    OnMissing,
)
from airflow_provider_assistant.loading.rows import Rows
from airflow_provider_assistant.names import task_name
from airflow_provider_assistant.observability import metrics, tracing
from airflow_provider_assistant.observability.lineage import LineageDataset
from airflow_provider_assistant.operators.base import AssistantOperator
from airflow_provider_assistant.operators.datasets import publish_run
from airflow_provider_assistant.operators.links import AssistantFindingsLink
from airflow_provider_assistant.operators.load_counts import (
    drafts_attention,
    load_failure,
    load_progress,
)
from airflow_provider_assistant.operators.runs import check_own_path, findings_file, warn_of_findings
from airflow_provider_assistant.storage.paths import writable_file
from airflow_provider_assistant.triggers.deferral import is_deferrable, restore_attributes

if TYPE_CHECKING:
    from airflow_provider_assistant.loading.counts import LoadCounts
    from airflow_provider_assistant.loading.engine import Load

# Name of the asset alias of loads.
DOCUMENTS = "assistant_documents"
# Seconds. A service that asks for a longer pause is still busy a few seconds later, so a shorter deferral would only
# cost the start of another task.
SHORTEST_DEFERRAL = 60.0


class AssistantLoadOperator(AssistantOperator):
    """
    Base of the operators that load documents.

    The options ``on_ambiguous``, ``on_change``, ``on_missing``, ``adopt``, ``allow_mass_change``, ``on_limit``,
    ``limits_field``, ``max_rejected``, ``activate``, ``ready_timeout``, ``max_removals_per_minute`` and ``strict`` are
    documented in :class:`~airflow_provider_assistant.loading.options.LoadOptions`.

    :param namespace: Separates the keys of this load from those of other loads, for tables whose keys overlap. Changing
        it creates every row again. Default: one namespace for all loads of a site and a kind of document.
    :param findings_path: Parquet file for the findings, the rows that a person should look at: a local path or an
        object storage URL. Default: a file in ``[assistant] findings_folder``, written only if there are
        findings.
    :param lake_path: Folder of the datasets. If set, the operator also writes the findings to the dataset
        ``findings``. Default: None.
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

    The other parameters are those of :class:`~airflow_provider_assistant.operators.base.AssistantOperator`.
    """

    template_fields: Sequence[str] = (
        *AssistantOperator.template_fields,
        "findings_path",
        "lake_path",
        "source_name",
        "namespace",
        "ledger_conn_id",
    )
    parameter_checks: ClassVar[Checks] = {
        "on_ambiguous": parameters.choice(*OPTIONS["on_ambiguous"].choices),
        "on_change": parameters.choice(*OPTIONS["on_change"].choices),
        "on_missing": parameters.choice(*OPTIONS["on_missing"].choices),
        "adopt": parameters.flag,
        "allow_mass_change": parameters.flag,
        "on_limit": parameters.choice(*OPTIONS["on_limit"].choices),
        "limits_field": parameters.text,
        "max_rejected": parameters.tolerated,
        "activate": parameters.flag,
        "ready_timeout": parameters.seconds,
        "max_removals_per_minute": parameters.positive,
        "strict": parameters.flag,
        "namespace": parameters.text,
        "findings_path": parameters.path,
        "lake_path": parameters.folder,
        "source_name": parameters.text,
        "max_concurrency": parameters.concurrency,
        "deferrable": parameters.flag,
        "timeout": parameters.seconds,
        "ledger": parameters.flag,
        "ledger_conn_id": parameters.text,
    }
    operator_extra_links = (AssistantFindingsLink(),)

    endpoint: ClassVar[str]
    payload: ClassVar[type[Payload] | None] = None
    kind: ClassVar[str]
    group_columns: str | Sequence[str] = ()
    # Seconds. Longest pause that a load waits for on the worker when the service asks it to back off.
    max_backoff: ClassVar[float] = DEFAULTS.max_backoff
    _running_load: Load | None = None
    # State of the current try.
    _last_load: Load | None = None
    _findings_file: FindingsFile | None = None

    def __init__(
        self,
        *,
        on_ambiguous: OnAmbiguous = DEFAULTS.on_ambiguous,
        on_change: OnChange = DEFAULTS.on_change,
        on_missing: OnMissing = DEFAULTS.on_missing,
        adopt: bool = DEFAULTS.adopt,
        allow_mass_change: bool = DEFAULTS.allow_mass_change,
        on_limit: OnLimit = DEFAULTS.on_limit,
        limits_field: str | None = DEFAULTS.limits_field,
        max_rejected: float = DEFAULTS.max_rejected,
        activate: bool = DEFAULTS.activate,
        ready_timeout: float = DEFAULTS.ready_timeout,
        max_removals_per_minute: float | None = DEFAULTS.max_removals_per_minute,
        strict: bool = DEFAULTS.strict,
        namespace: str | None = None,
        findings_path: str | None = None,
        lake_path: str | None = None,
        source_name: str | None = None,
        max_concurrency: int | None = None,
        deferrable: bool | None = None,
        timeout: float | timedelta = 86_400.0,
        ledger: bool = True,
        ledger_conn_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.on_ambiguous = on_ambiguous
        self.on_change = on_change
        self.on_missing = on_missing
        self.adopt = adopt
        self.allow_mass_change = allow_mass_change
        self.on_limit = on_limit
        self.limits_field = limits_field
        self.max_rejected = max_rejected
        self.activate = activate
        self.ready_timeout = ready_timeout
        self.max_removals_per_minute = max_removals_per_minute
        self.strict = strict
        self.namespace = namespace
        self.findings_path = findings_path
        self.lake_path = lake_path
        self.source_name = source_name
        self.max_concurrency = max_concurrency
        self.deferrable = is_deferrable(deferrable)
        self.timeout: Any = timeout
        self.ledger = ledger
        self.ledger_conn_id = ledger_conn_id
        check_given(self)
        if deferrable and not ledger:
            raise AssistantInputError(
                f"task {self.task_id!r}: deferrable=True needs the ledger: without it, a load that resumes creates "
                "every row again",
                field="deferrable",
            )
        if self._changes_site and not ledger:
            raise AssistantInputError(
                f"task {self.task_id!r}: activate, on_change='replace' and on_missing={on_missing!r} need the ledger: "
                "only documents that it created are changed",
                field="ledger",
            )
        # default_deferrable may be True for a task without the ledger.
        self.deferrable = self.deferrable and ledger

    @property
    def _changes_site(self) -> bool:
        """Whether the load changes documents that exist."""
        options = LoadOptions(1, on_change=self.on_change, on_missing=self.on_missing, activate=self.activate)
        return options.changes_site

    @property
    def load_options(self) -> LoadOptions:
        """Options of the engine."""
        settings = self.hook.client_settings(self.max_concurrency)
        options = {name: getattr(self, name) for name in OPTIONS}
        return LoadOptions(
            max_concurrency=settings.max_concurrency,
            max_backoff=self.max_backoff,
            **options,
        )

    @property
    def listed_findings(self) -> str | None:
        """Path of the findings of this try, or None if there are none."""
        if self._findings_file is None:
            return None
        return self._findings_file.listed

    @abstractmethod
    def _rows(self, site_id: str) -> contextlib.AbstractContextManager[Rows]:
        """Open the rows of the source."""

    def _has_whole_source(self, context: Context) -> bool:
        """Return whether this task reads its whole source and can find stale documents. A mapped task cannot."""
        return self.on_missing in OF_GROUPS and RunRef.of(context).map_index < 0

    @explained
    def execute(self, context: Context) -> dict[str, Any]:
        """
        Create a document for each row that the ledger does not record as created.

        :param context: Airflow's task context.
        :return: The counts ``rows = created + unchanged + skipped + rejected + ambiguous + failed``, ``drafts``,
            ``changed``, ``possibly_duplicated``, ``stale``, ``activated``, ``deactivated``, ``deleted``,
            ``not_activated``, ``not_removed``, ``left_out``, ``requests``, ``throttled``, ``seconds`` and
            ``rows_per_second``, see :class:`~airflow_provider_assistant.loading.counts.LoadCounts`;
            ``site_id``; ``source``, the name of the source; and ``findings``, the path of the findings or None if there
            are none.
        :raises AssistantInputError: The source cannot be loaded, and nothing was sent; or more than ``max_rejected``
            rows were rejected, and the others are loaded. Airflow does not retry the task.
        :raises AssistantIncompleteError: Rows failed or are ambiguous. A retry sends those and no others.
        :raises AssistantRateLimitError: The service asks for a pause of more than five minutes, and the task cannot
            defer or the pause would end after ``timeout``.
        :raises AssistantAPIError: The service answered 401, 403, 404 or 405, which stopped the load at once.
        :raises AssistantLedgerError: The ledger cannot be used.
        """
        check_rendered(self, context)
        if self._changes_site:
            # Before anything is sent: the connection may not allow it.
            self.hook.document_routes()
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
        check_rendered(self, context)
        return self._execute(context, until or self.hook.client.now() + self.timeout)

    def failure_context(self, context: Context) -> FailureContext:
        """Return the source and the counts of this try, for the log lines of a failure."""
        doing = f"load of {self._source_name(context)!r} to {self.hook.location()}"
        return FailureContext(
            doing=doing,
            safe=load_progress(self._last_load, self.on_ambiguous, has_ledger=self.ledger),
            findings=self.listed_findings,
        )

    def _execute(self, context: Context, until: float) -> dict[str, Any]:
        check_own_path(self, context, "findings_path")
        self._last_load = None
        self._findings_file = None
        with self._recorded_load(context) as (ledger, record):
            counts, findings, unlisted = self._load(context, ledger, record, until)
            result = {
                **counts.as_dict(),
                "site_id": self.hook.resolve_site_id(),
                "source": self._source_name(context),
                "findings": findings.listed,
            }
            columns: dict[str, str] = {}
            if self.payload:
                columns = dict.fromkeys(self.payload.model_fields, "string")
            documents = LineageDataset(self.asset_uri("documents"), columns, rows=counts.created)
            self.lineage_outputs = (documents,)
            if self.lake_path is not None and unlisted is None:
                try:
                    self._publish_findings(context, findings)
                except AssistantStorageError as unpublished:
                    # What the load did is the more important error.
                    unlisted = unpublished
            findings_sentence = f" Findings: {findings.listed}." if findings.listed else ""
            attention = drafts_attention(counts, findings_sentence)
            if attention:
                log_attention(*attention)
            # Raised inside the block, so that the ledger records the load as failed.
            cause = self._last_load.cause if self._last_load else None
            failure = load_failure(counts, self.load_options, findings_sentence, cause=cause)
            if failure and unlisted:
                self.log.error("%s", unlisted)
            error = failure or unlisted
            if error:
                raise error
        warn_of_findings(findings.listed, findings.count)
        return self.emit_asset_events(context, result)

    def emit_asset_events(self, context: Context, result: dict[str, Any]) -> dict[str, Any]:
        """
        Set the result as the extra of the events of the outlets, and of the site's documents.

        :param context: Airflow's task context.
        :param result: The result of the task.
        :return: The result.
        """
        # When the DAG is parsed, nobody knows the site of the connection. An alias may name its asset at run time.
        documents = Asset(uri=self.asset_uri("documents"))
        alias = AssetAlias(DOCUMENTS)
        is_told = any(outlet == alias or getattr(outlet, "uri", None) == documents.uri for outlet in self.outlets)
        if not is_told:
            self.outlets = [*self.outlets, alias]
        return super().emit_asset_events(context, result)

    def on_kill(self) -> None:
        """Stop sending, wait a few seconds for the replies to requests in flight, and record their outcome."""
        if self._running_load:
            self._running_load.cancel()

    @contextlib.contextmanager
    def _recorded_load(self, context: Context) -> Iterator[tuple[Ledger | None, LoadRecord]]:
        """Open the ledger, unless ``ledger`` is False, and record the load in it."""
        with open_ledger(self) as ledger:
            if ledger is None:
                self.log.warning("ledger=False: this run sends every row, and a retry or another run sends it again.")
                yield None, LoadRecord()
                return
            with ledger.load(
                scope=self._scope(),
                source=self._source_name(context),
                run=RunRef.of(context),
            ) as record:
                yield ledger, record

    def _scope(self) -> DocumentScope:
        return DocumentScope(self.hook.site(), self.endpoint, self.namespace)

    def _load(
        self, context: Context, ledger: Ledger | None, record: LoadRecord, until: float
    ) -> tuple[LoadCounts, FindingsFile, AssistantStorageError | None]:
        """Run the load. Return its counts, its findings, and the error if these cannot be written."""
        site_id = self.hook.resolve_site_id()
        run = RunRef.of(context)
        with contextlib.ExitStack() as stack:
            rows = stack.enter_context(self._rows(site_id))
            documents = None
            if ledger:
                documents = ledger.documents(
                    scope=self._scope(),
                    source=self._source_name(context),
                    run=run,
                    has_groups=bool(key_names(self.group_columns, "group_columns")),
                )
                stack.enter_context(documents)
            findings = stack.enter_context(self._open_findings(run))
            self._findings_file = findings
            has_whole_source = self._has_whole_source(context)
            try:
                work = self._run(rows, documents, findings, record, has_whole_source=has_whole_source)
                counts = run_coroutine(work)
            except (AssistantRateLimitError, AssistantAmbiguousError) as error:
                # While the source is open: the rows may have to be kept.
                self._defer_after(error, run, until)
                raise
            unlisted = findings.close()
        return counts, findings, unlisted

    async def _run(
        self,
        rows: Rows,
        documents: ScopeLedger | None,
        findings: FindingsFile,
        record: LoadRecord,
        *,
        has_whole_source: bool,
    ) -> LoadCounts:
        from airflow_provider_assistant.loading.engine import Load
        from airflow_provider_assistant.loading.limits import limits_reader
        from airflow_provider_assistant.loading.load_client import LoadClient
        from airflow_provider_assistant.loading.managed_site import ManagedSite

        settings = self.hook.settings.client
        options = self.load_options
        if not has_whole_source:
            # A task that reads only a part of the source cannot tell what is missing from the whole
            # source, but what is missing from the groups that it reads.
            options = replace(options, on_missing=OF_GROUPS.get(options.on_missing, options.on_missing))
        # One span for all rows: no tool can display a trace with millions of spans.
        with tracing.span("load", site_id=self.hook.resolve_site_id(), kind=self.kind) as span:
            async with LoadClient(settings, options) as client:
                tenant_id = self.hook.known_tenant_id()
                load = Load(
                    client,
                    rows,
                    options,
                    ledger=documents,
                    findings=findings,
                    read_limits=limits_reader(settings, tenant_id, self.on_limit, self.limits_field),
                    site=ManagedSite.of(self.hook.resolve_site_id(), self.hook.settings.documents),
                )
                self._running_load = self._last_load = load
                try:
                    return await load.run()
                finally:
                    self._running_load = None
                    record.counts = load.counts.as_dict()
                    self.log.info("Site %r, %s.", self.hook.resolve_site_id(), load.counts)
                    metrics.rows(self.kind, load.counts.outcomes)
                    metrics.drafts(self.kind, load.counts.drafts)
                    row_counts = {}
                    for outcome, count in load.counts.outcomes.items():
                        row_counts[f"assistant.rows.{outcome}"] = count
                    row_counts["assistant.rows.drafts"] = load.counts.drafts
                    span.set_attributes(row_counts)

    def _open_findings(self, run: RunRef) -> FindingsFile:
        if self.findings_path is None:
            # Written only if there are findings.
            return FindingsFile(findings_file(run), always=False, dag_id=run.dag_id)
        return FindingsFile(writable_file(self.findings_path, "findings_path"), dag_id=run.dag_id)

    def _publish_findings(self, context: Context, findings: FindingsFile) -> None:
        common = {
            "found_at": datetime.now(UTC),
            **self.hook.site().columns(),
            "source": self._source_name(context),
            "endpoint": self.endpoint,
        }
        # Without findings, a file may be that of an earlier try.
        found = read_findings(findings.path) if findings.count else []
        rows = []
        for row in found:
            # "group" would have to be quoted in SQL.
            changed = {"document_ids": json.dumps(row["document_ids"]), "group_name": row["group"]}
            rows.append({**row, **common, **changed})
        publish_run(self, context, rows, str(self.lake_path), lake.FINDINGS)

    def _source_name(self, context: Context) -> str:
        return self.source_name or task_name(context["ti"].dag_id, context["ti"].task_id)

    def _keep_rows(self, run: RunRef) -> dict[str, Any]:  # noqa: ARG002
        """
        Save rows that cannot be read from their source again.

        :param run: The task instance.
        :return: Where they are, as arguments of :meth:`execute_complete`. Empty: it reads the source again.
        """
        return {}

    def _defer_after(self, error: AssistantRateLimitError | AssistantAmbiguousError, run: RunRef, until: float) -> None:
        """Defer the task if the service asks for a pause that ends before the timeout. Otherwise return."""
        is_refusal = isinstance(error, AssistantRateLimitError) or isinstance(error.__cause__, AssistantRateLimitError)
        retry_after = error.retry_after or 0.0
        may_defer = is_refusal or retry_after > self.max_backoff
        if not self.deferrable or not may_defer:
            return
        pause = max(retry_after, SHORTEST_DEFERRAL)
        if self.hook.client.now() + pause > until:
            self.log.error(
                "Not deferred: the pause of %.0f s would end after the timeout of %.0f s.", pause, self.timeout
            )
            return
        from airflow.providers.standard.triggers.temporal import DateTimeTrigger

        moment = datetime.now(UTC) + timedelta(seconds=pause)
        self.log.info("Deferring until %s, because the service asks to back off.", moment)
        rendered = {}
        for name in self.template_fields:
            value = getattr(self, name)
            if isinstance(value, str):
                rendered[name] = value
        kwargs = {"until": until, "rendered": rendered, **self._keep_rows(run)}
        self.defer(trigger=DateTimeTrigger(moment=moment), method_name="execute_complete", kwargs=kwargs)
