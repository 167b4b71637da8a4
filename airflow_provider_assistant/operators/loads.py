"""Base class of the operators that load documents."""

from __future__ import annotations

import json
import logging
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.providers.common.compat.sdk import Asset, AssetAlias, Context

from airflow_provider_assistant.api.payloads import Payload
from airflow_provider_assistant.client.cancellation import run_coroutine
from airflow_provider_assistant.exceptions import (
    NOTHING_SENT,
    AssistantAmbiguousError,
    AssistantRateLimitError,
    AssistantStorageError,
)
from airflow_provider_assistant.failures import FailureContext, explained
from airflow_provider_assistant.hooks.task_parameters import check_given, check_rendered
from airflow_provider_assistant.lake import datasets
from airflow_provider_assistant.ledger import Kind, RunRef, Scope
from airflow_provider_assistant.loading.findings import FindingsFile, read_findings
from airflow_provider_assistant.loading.options import (
    DEFAULTS,
    MAX_BACKOFF,
    OPTIONS,
    LoadOptions,
    MissingIn,
    OnAmbiguous,
    OnChange,
    OnMissing,
)
from airflow_provider_assistant.loading.rows import Rows
from airflow_provider_assistant.names import task_name
from airflow_provider_assistant.observability import metrics
from airflow_provider_assistant.observability.lineage import LineageDataset
from airflow_provider_assistant.operators.base import AssistantOperator
from airflow_provider_assistant.operators.datasets import publish_run
from airflow_provider_assistant.operators.links import AssistantFindingsLink
from airflow_provider_assistant.operators.runs import check_own_path, findings_file, warn_of_findings
from airflow_provider_assistant.storage.opening import writable_parquet_file
from airflow_provider_assistant.triggers.deferral import is_deferrable

if TYPE_CHECKING:
    from airflow_provider_assistant.loading.load import Load

# Name of the asset alias of loads.
DOCUMENTS = "assistant_documents"
# Seconds. A service that asks for a longer pause is still busy a few seconds later, so a shorter deferral would only
# cost the start of another task.
SHORTEST_DEFERRAL = 60.0

log = logging.getLogger(__name__)


class AssistantLoadOperator(AssistantOperator):
    """
    Base of the operators that load documents.

    The options ``on_ambiguous``, ``on_change``, ``on_missing``, ``missing_in``, ``allow_mass_change`` and
    ``max_rejected`` are documented in :class:`~airflow_provider_assistant.loading.options.LoadOptions`.

    :param namespace: Separates the keys of this load from those of other loads, for tables whose keys overlap. Changing
        it creates every row again. Default: one namespace for all loads of a site and a kind of document.
    :param findings_path: Parquet file for the findings, the rows that a person should look at: a local path or an
        object storage URL. Default: a file in ``[assistant] findings_folder``, written only if there are
        findings.
    :param lake_path: Folder of the datasets. If set, the operator also writes the findings to the dataset
        ``findings``. Default: None.
    :param source_name: Name of the source in the ledger. A document becomes stale when the source of this name no
        longer contains its row. Default: ``<dag_id>.<task_id>``.
    :param deferrable: Whether to spend a pause of more than five minutes in the triggerer instead of failing, when the
        service asks the task to back off. The load then begins again, and does not send what is recorded. Default:
        Airflow's ``[operators] default_deferrable``.
    :param timeout: Longest total time of a try that defers, pauses included, in seconds or as a timedelta. After that,
        the task fails instead of deferring again. Default: 86400, one day.

    The other parameters are those of :class:`~airflow_provider_assistant.operators.base.AssistantOperator`.
    """

    template_fields: Sequence[str] = (
        *AssistantOperator.template_fields,
        "findings_path",
        "lake_path",
        "source_name",
        "namespace",
    )
    operator_extra_links = (AssistantFindingsLink(),)

    payload: ClassVar[type[Payload] | None] = None
    kind: ClassVar[Kind]
    group_columns: str | Sequence[str] = ()
    # The load of the current try.
    _load: Load | None = None

    def __init__(
        self,
        *,
        on_ambiguous: OnAmbiguous = DEFAULTS.on_ambiguous,
        on_change: OnChange = DEFAULTS.on_change,
        on_missing: OnMissing = DEFAULTS.on_missing,
        missing_in: MissingIn = DEFAULTS.missing_in,
        allow_mass_change: bool = DEFAULTS.allow_mass_change,
        max_rejected: float = DEFAULTS.max_rejected,
        namespace: str | None = None,
        findings_path: str | None = None,
        lake_path: str | None = None,
        source_name: str | None = None,
        deferrable: bool | None = None,
        timeout: float | timedelta = 86_400.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.on_ambiguous = on_ambiguous
        self.on_change = on_change
        self.on_missing = on_missing
        self.missing_in = missing_in
        self.allow_mass_change = allow_mass_change
        self.max_rejected = max_rejected
        self.namespace = namespace
        self.findings_path = findings_path
        self.lake_path = lake_path
        self.source_name = source_name
        self.deferrable = is_deferrable(deferrable)
        self.timeout: Any = timeout
        check_given(self)

    @property
    def load_options(self) -> LoadOptions:
        """Options of the load."""
        return LoadOptions(**{name: getattr(self, name) for name in OPTIONS})

    @property
    def listed_findings(self) -> str | None:
        """Path of the findings of this try, or None if there are none."""
        return self._load.findings.listed if self._load else None

    @abstractmethod
    def _rows(self, site_id: str) -> Rows:
        """Return the rows of the source."""

    @explained
    def execute(self, context: Context) -> dict[str, Any]:
        """
        Create a document for each row whose content the ledger does not record as created.

        :param context: Airflow's task context.
        :return: The counts ``rows = created + unchanged + skipped + rejected + ambiguous + failed``, ``drafts``,
            ``changed``, ``possibly_duplicated``, ``stale``, ``activated``, ``deactivated``, ``deleted``,
            ``not_activated``, ``not_removed``, ``left_out``, ``requests``, ``throttled``, ``seconds`` and
            ``rows_per_second``, see :class:`~airflow_provider_assistant.loading.counts.LoadCounts`;
            ``site_id``; ``source``, the name of the source; and ``findings``, the path of the findings or None if there
            are none.
        :raises AssistantInputError: The source cannot be loaded, and nothing was sent; or more than ``max_rejected``
            rows were rejected, and the others are loaded. Airflow does not retry the task.
        :raises AssistantIncompleteError: Rows failed or are ambiguous, or another task was sending them and has not
            loaded them. A retry sends those and no others.
        :raises AssistantRateLimitError: The service asks for a pause of more than five minutes, and the task cannot
            defer or the pause would end after ``timeout``.
        :raises AssistantAPIError: The service answered 401, 403, 404 or 405, which stopped the load at once.
        :raises AssistantLedgerError: The ledger cannot be used.
        """
        check_rendered(self, context)
        return self._execute(context, until=self.hook.client.now() + self.timeout)

    @explained
    def execute_complete(
        self,
        context: Context,
        event: Any = None,  # noqa: ARG002
        until: float | None = None,
    ) -> dict[str, Any]:
        """
        Begin the load again after a pause in the triggerer. Rows that were created before count as unchanged.

        :param context: Airflow's task context.
        :param event: The trigger's event. Not used.
        :param until: When ``timeout`` expires, in seconds since the epoch.
        :return: The same as :meth:`execute`.
        """
        check_rendered(self, context)
        return self._execute(context, until or self.hook.client.now() + self.timeout)

    def failure_context(self, context: Context) -> FailureContext:
        """Return the source and the counts of this try, for the log lines of a failure."""
        from airflow_provider_assistant.loading.run import load_progress

        doing = f"load of {self._source_name(context)!r} to {self.hook.location()}"
        safe = load_progress(self._load) if self._load else NOTHING_SENT
        return FailureContext(doing, safe, self.listed_findings)

    def on_kill(self) -> None:
        """Stop sending, wait a few seconds for the replies to requests in flight, and record their outcome."""
        if self._load:
            self._load.cancel()

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

    def _execute(self, context: Context, until: float) -> dict[str, Any]:
        from airflow_provider_assistant.loading.load import LoadJob
        from airflow_provider_assistant.loading.run import drafts_warning, end_of_load, opened_load

        check_own_path(self, context, "findings_path")
        self._load = None
        run = RunRef.of(context)
        scope = Scope(self.hook.site(), self.kind, self.namespace)
        options = self.load_options
        if run.map_index >= 0 and self.group_columns:
            # A mapped task reads a part of the source: it can tell what is missing from its groups only.
            options = replace(options, missing_in="groups")
        job = LoadJob(
            rows=lambda: self._rows(scope.site.site_id),
            options=options,
            settings=self.hook.settings.client,
            routes=self.hook.settings.documents,
            tenant_id=self.hook.known_tenant_id(),
            has_whole_source=run.map_index < 0,
        )
        findings = self._open_findings(run)
        with opened_load(job, scope, self._source_name(context), run, findings) as load:
            self._load = load
            try:
                run_coroutine(load.run())
            except (AssistantRateLimitError, AssistantAmbiguousError) as error:
                self._defer_after(error, until)
                raise
            finally:
                self.log.info("Site %r, %s.", scope.site.site_id, load.counts)
                metrics.rows(self.kind, load.counts.outcomes)
                metrics.drafts(self.kind, load.counts.drafts)
            columns = dict.fromkeys(self.payload.model_fields, "string") if self.payload else {}
            self.lineage_outputs = (LineageDataset(self.asset_uri("documents"), columns, rows=load.counts.created),)
            failure = end_of_load(load)
            try:
                self._publish_findings(context, findings)
            except AssistantStorageError as unpublished:
                # What the load did is the more important error.
                if failure:
                    log.error("%s", unpublished)  # noqa: TRY400
                failure = failure or unpublished
            warning = drafts_warning(load)
            if warning:
                log.warning("%s", warning)
            if failure:
                raise failure
        warn_of_findings(findings.listed, findings.count)
        result = {
            **load.counts.as_dict(),
            "site_id": scope.site.site_id,
            "source": self._source_name(context),
            "findings": findings.listed,
        }
        return self.emit_asset_events(context, result)

    def _open_findings(self, run: RunRef) -> FindingsFile:
        if self.findings_path is None:
            # Written only if there are findings.
            return FindingsFile(findings_file(run), always=False, dag_id=run.dag_id)
        return FindingsFile(writable_parquet_file(self.findings_path, "findings_path"), dag_id=run.dag_id)

    def _publish_findings(self, context: Context, findings: FindingsFile) -> None:
        """Write the findings to their dataset."""
        is_lost = findings.count and not findings.listed
        if self.lake_path is None or is_lost or findings.path is None:
            return
        common = {
            "found_at": datetime.now(UTC),
            **self.hook.site().columns(),
            "source": self._source_name(context),
            "endpoint": datasets.ENDPOINTS[self.kind],
        }
        # Without findings, a file may be that of an earlier try.
        found = read_findings(findings.path) if findings.count else []
        rows = []
        for row in found:
            # "group" would have to be quoted in SQL.
            changed = {"document_ids": json.dumps(row["document_ids"]), "group_name": row["group"]}
            rows.append({**row, **common, **changed})
        publish_run(self, context, rows, str(self.lake_path), datasets.FINDINGS)

    def _source_name(self, context: Context) -> str:
        return self.source_name or task_name(context["ti"].dag_id, context["ti"].task_id)

    def _defer_after(self, error: AssistantRateLimitError | AssistantAmbiguousError, until: float) -> None:
        """Defer the task if the service asks for a pause that ends before the timeout. Otherwise return."""
        is_refusal = isinstance(error, AssistantRateLimitError) or isinstance(error.__cause__, AssistantRateLimitError)
        retry_after = error.retry_after or 0.0
        if not self.deferrable or not (is_refusal or retry_after > MAX_BACKOFF):
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
        self.defer(trigger=DateTimeTrigger(moment=moment), method_name="execute_complete", kwargs={"until": until})
