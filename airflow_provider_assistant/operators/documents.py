"""Operators that load documents: endpoints 2, 3 and 4 of the specification."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import urlsplit

from airflow.providers.common.compat.sdk import Context

from airflow_provider_assistant import metrics, tracing
from airflow_provider_assistant.api import endpoints
from airflow_provider_assistant.api.call import Call, Upload
from airflow_provider_assistant.api.models import CreatedDocument, Payload, QADocument, TextDocument
from airflow_provider_assistant.client import AssistantClient
from airflow_provider_assistant.exceptions import (
    AssistantAmbiguousError,
    AssistantError,
    AssistantIncompleteLoad,
    AssistantInputError,
    AssistantRateLimitError,
)
from airflow_provider_assistant.hooks.files import as_upload
from airflow_provider_assistant.keys import key_names
from airflow_provider_assistant.ledger import BatchLedger, Ledger, LoadRecord, RunRef, document_scope
from airflow_provider_assistant.lineage import Data
from airflow_provider_assistant.loading.failure import log_failure
from airflow_provider_assistant.loading.report import Counts, Findings
from airflow_provider_assistant.loading.rooted import check_inside
from airflow_provider_assistant.loading.rows import DataframeRows, FileRows, Rows, mapping_of, wanted_columns
from airflow_provider_assistant.loading.source import Path_, files_in, open_source, storage_files, storage_path
from airflow_provider_assistant.operators.base import AssistantOperator, SourceField, allowed, findings_of
from airflow_provider_assistant.waiting import is_deferrable, restore

if TYPE_CHECKING:
    from airflow_provider_assistant.loading.loader import Load, OnAmbiguous, OnChange, OnMissing


log = logging.getLogger(__name__)

# The limit has lasted longer than ``max_pause`` by then: coming back sooner costs the start of a task for nothing.
SHORTEST_DEFERRAL = 60.0


def flaw_of(
    counts: Counts, *, on_ambiguous: OnAmbiguous, max_rejected: float, listed: str = ""
) -> AssistantError | None:
    """
    Return why a load that has ended is no success, if so.

    :param counts: What became of its rows.
    :param on_ambiguous: As of the load: only where they are to be sent again do ambiguous rows fail it.
    :param max_rejected: How many rejected rows, or which fraction of all if it is below 1, are no failure.
    :param listed: A sentence that says where the rows are listed.
    """
    unclear = counts.ambiguous if on_ambiguous == "retry" else 0
    if counts.failed or unclear:
        return AssistantIncompleteLoad(
            f"{counts}. {counts.failed} rows failed and {unclear} are ambiguous; a retry sends those and no others."
            f"{listed}"
        )
    if counts.rejected > allowed(max_rejected, counts.rows):
        return AssistantInputError(
            f"{counts}. {counts.rejected} rows were rejected, more than max_rejected={max_rejected:g} allows; the "
            f"others are loaded.{listed} Mend them in the source and run the task again.",
            field="source",
        )
    return None


class AssistantLoadOperator(AssistantOperator):
    """
    What loading rows and loading files share: everything but what a row is.

    :param on_ambiguous: What to do with a row that an earlier attempt may have created: ``retry`` sends it again
        and lists it as possibly duplicated, ``skip`` leaves and lists it, ``fail`` stops the load.
    :param on_change: What to do with a key whose content has changed: ``create`` another document and list the
        one it supersedes, because the API can neither update nor delete; ``skip``; or ``fail``.
    :param on_missing: What to do with documents of this source that it no longer has: list them as ``stale``, because
        the API cannot delete them, or ``ignore`` them, where a source has only what is new since the last run.
    :param namespace: Keeps the keys of this load apart from all others on the site, for tables whose keys overlap.
        Changing it creates every row again. Default: one namespace for all loads of a site and kind of document.
    :param adopt: Whether to take over keys that belong to another source. Without it, a load that would replace
        documents of another source fails before its first request.
    :param allow_mass_change: Whether more than half of the source's documents, and at least 50, may be replaced or
        become stale. Without it, such a load fails before its first request.
    :param max_rejected: How many rows may be bad, as a count or as a fraction below 1, before the task fails.
        The others are loaded in any case.
    :param rejects_path: Parquet file, local or an object storage URL, that lists every row that wants attention
        with the reason. By default one in AIRFLOW_HOME, if there is anything to list.
    :param source_name: Names the source, whose rows become stale when it no longer has them; by default DAG and
        task.
    :param max_concurrency: The most requests in flight; by default the connection's.
    :param max_pause: The longest pause, in seconds, that the task waits for when the service asks to wait.
    :param deferrable: Whether to spend a longer pause in the triggerer instead of failing; by default what
        Airflow's ``[operators] default_deferrable`` says. Needs the ledger.
    :param timeout: Longest total time of one try that defers, all pauses included, in seconds or as a timedelta;
        default: one day. When it is over, the task fails instead of deferring again.
    :param root: Folder that all files have to lie in, once symbolic links are followed: a local path or an object
        storage URL. By default they may lie anywhere.
    :param allow_empty: Whether a source without rows or files is a success with zero counts, in which nothing becomes
        stale. By default it is an error.
    :param ledger: Whether to remember what was created. Without it, every run creates every row again.
    """

    template_fields: Sequence[str] = (
        *AssistantOperator.template_fields,
        "rejects_path",
        "source_name",
        "namespace",
        "root",
    )

    endpoint: ClassVar[str]
    payload: ClassVar[type[Payload] | None] = None
    kind: ClassVar[str]
    _running: Load | None = None

    def __init__(
        self,
        *,
        on_ambiguous: OnAmbiguous = "retry",
        on_change: OnChange = "create",
        on_missing: OnMissing = "stale",
        namespace: str | None = None,
        adopt: bool = False,
        allow_mass_change: bool = False,
        max_rejected: float = 0,
        rejects_path: str | None = None,
        source_name: str | None = None,
        max_concurrency: int | None = None,
        max_pause: float | timedelta = 300.0,
        deferrable: bool | None = None,
        timeout: float | timedelta = 86_400.0,
        root: str | None = None,
        allow_empty: bool = False,
        ledger: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if on_ambiguous not in {"retry", "skip", "fail"}:
            raise ValueError(f"on_ambiguous must be 'retry', 'skip' or 'fail', not {on_ambiguous!r}")
        if on_change not in {"create", "skip", "fail"}:
            raise ValueError(f"on_change must be 'create', 'skip' or 'fail', not {on_change!r}")
        if on_missing not in {"stale", "ignore"}:
            raise ValueError(f"on_missing must be 'stale' or 'ignore', not {on_missing!r}")
        if deferrable and not ledger:
            raise ValueError(
                "deferrable=True needs the ledger: without it, a load that resumes creates every row again"
            )
        if max_rejected < 0:
            raise ValueError(f"max_rejected must be a count or a fraction below 1, not {max_rejected!r}")
        self.on_ambiguous = on_ambiguous
        self.on_change = on_change
        self.on_missing = on_missing
        self.namespace = namespace
        self.adopt = adopt
        self.allow_mass_change = allow_mass_change
        self.max_rejected = max_rejected
        self.rejects_path = rejects_path
        self.source_name = source_name
        self.max_concurrency = max_concurrency
        self.max_pause = _seconds(max_pause)
        # Airflow's default_deferrable may be on for a task that has no ledger.
        self.deferrable = ledger and is_deferrable(deferrable)
        self.timeout = _seconds(timeout)
        self.root = root
        self.allow_empty = allow_empty
        self.ledger = ledger

    @abstractmethod
    def _rows(self, site_id: str) -> contextlib.AbstractContextManager[Rows]:
        """Open what is to be loaded."""

    def _is_whole(self, context: Context) -> bool:
        """Whether this task sees all of its source; a mapped one sees a shard of it."""
        is_mapped = context["ti"].map_index is not None and context["ti"].map_index >= 0
        return self.on_missing == "stale" and not is_mapped

    def execute(self, context: Context) -> dict[str, Any]:
        """
        Load what has not been loaded.

        :return: Counts, see :class:`~airflow_provider_assistant.loading.report.Counts`, with ``site_id``,
            ``source`` and ``findings``, the path of the list of rows that want attention, None if there are none.
        :raises AssistantInputError: The source as a whole cannot be loaded, and nothing was sent; or more rows
            than ``max_rejected`` were rejected, and the others are loaded. Airflow does not retry it.
        :raises AssistantIncompleteLoad: Rows failed or are ambiguous. A retry sends those and no others.
        :raises AssistantRateLimitError: The service asks for a longer pause than ``max_pause``, or than what is left
            of ``timeout``.
        :raises AssistantAPIError: 401, 403, 404: the load stopped at once.
        :raises AssistantLedgerError: The ledger cannot be used.
        """
        return self._execute(context, until=self.hook.client.now() + self.timeout)

    def resume(
        self,
        context: Context,
        event: Any = None,  # noqa: ARG002
        until: float | None = None,
        rendered: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """
        Go on after a pause in the triggerer; what was loaded before it counts as unchanged.

        :param context: The task's context.
        :param event: What the trigger said; a pause has nothing to say.
        :param until: When ``timeout`` is over, in seconds since the epoch.
        :param rendered: The templated texts as they were when the task was deferred: Airflow has rendered them again.
        """
        restore(self, {"rendered": rendered})
        return self._execute(context, until or self.hook.client.now() + self.timeout)

    def _execute(self, context: Context, until: float) -> dict[str, Any]:
        with self._recorded(context) as (ledger, record), self._explained(context, record):
            try:
                counts, findings = self._load(context, ledger, record)
            except (AssistantRateLimitError, AssistantAmbiguousError) as error:
                self._defer_after(error, until)
                raise
            result = {
                **counts.as_dict(),
                "site_id": self.hook.site(),
                "source": self._source_name(context),
                "findings": str(findings.path) if findings.count else None,
            }
            columns = dict.fromkeys(self.payload.model_fields if self.payload else (), "string")
            self.written = (Data(self.asset_uri("documents"), columns, counts.created),)
            listed = f" They are listed in {result['findings']}." if result["findings"] else ""
            if flaw := flaw_of(counts, on_ambiguous=self.on_ambiguous, max_rejected=self.max_rejected, listed=listed):
                raise flaw
            if findings.count:
                log.warning("%d findings need attention.%s", findings.count, listed)
        return self.tell(context, result)

    @contextlib.contextmanager
    def _explained(self, context: Context, record: LoadRecord) -> Iterator[None]:
        """Log the three lines that a person needs first when the load fails."""
        try:
            yield
        except AssistantError as error:
            path = self._findings(RunRef.of(context)).path
            site, host = self.hook.site(), urlsplit(self.hook.settings.client.base_url).netloc
            log_failure(
                error,
                record.counts or {},
                load=f"{self._source_name(context)} to site {site!r} at {host} (connection {self.assistant_conn_id!r})",
                findings=str(path) if path.exists() else None,
            )
            raise

    def on_kill(self) -> None:
        """Send nothing more, wait some seconds for the answers to what was sent, and record them."""
        if self._running:
            self._running.end()

    @contextlib.contextmanager
    def _recorded(self, context: Context) -> Iterator[tuple[Ledger | None, LoadRecord]]:
        """Open the ledger, if it is wanted, and record this load as one."""
        with Ledger.opened(self.ledger) as ledger:
            if ledger is None:
                self.log.warning("ledger=False: every row is posted, and a retry or a second run posts it again.")
                yield None, LoadRecord()
                return
            with ledger.load(
                scope=self.hook.target(),
                endpoint=self.endpoint,
                site_id=self.hook.site(),
                source=self._source_name(context),
                run=RunRef.of(context),
            ) as record:
                yield ledger, record

    def _load(self, context: Context, ledger: Ledger | None, record: LoadRecord) -> tuple[Counts, Findings]:
        site_id, run = self.hook.site(), RunRef.of(context)
        with contextlib.ExitStack() as stack:
            rows = stack.enter_context(self._rows(site_id))
            memory = None
            if ledger:
                memory = ledger.documents(
                    scope=document_scope(self.hook.target(), self.endpoint, self.namespace),
                    site_id=site_id,
                    source=self._source_name(context),
                    run=run,
                )
                stack.enter_context(memory)
            findings = stack.enter_context(self._findings(run))
            counts = asyncio.run(self._run(rows, memory, findings, record, self._is_whole(context)))
        return counts, findings

    async def _run(
        self,
        rows: Rows,
        memory: BatchLedger | None,
        findings: Findings,
        record: LoadRecord,
        is_whole: bool,
    ) -> Counts:
        from airflow_provider_assistant.loading.loader import Load, LoadOptions

        options = LoadOptions(
            max_concurrency=self.max_concurrency or self.hook.settings.client.max_concurrency,
            max_pause=self.max_pause,
            on_ambiguous=self.on_ambiguous,
            on_change=self.on_change,
            adopt=self.adopt,
            allow_mass_change=self.allow_mass_change,
        )
        settings = replace(self.hook.settings.client, max_concurrency=options.max_concurrency)
        facts = {"site_id": self.hook.site(), "kind": self.kind}
        # One for all rows: a trace with a span for each would be of no use to anybody.
        with tracing.span("load", **facts) as span:
            async with AssistantClient(settings) as client:
                load = Load(client, rows, options, memory=memory, findings=findings, judge_stale=is_whole)
                self._running = load
                try:
                    return await load.run()
                finally:
                    self._running = None
                    record.counts = load.counts.as_dict()
                    self.log.info("Site %r, %s.", self.hook.site(), load.counts)
                    metrics.rows(self.kind, load.counts.ends)
                    span.set_attributes({f"assistant.rows.{end}": count for end, count in load.counts.ends.items()})

    def _findings(self, run: RunRef) -> Findings:
        if self.rejects_path:
            return Findings(storage_path(self.rejects_path))
        return findings_of(run)

    def _source_name(self, context: Context) -> str:
        return self.source_name or f"{context['ti'].dag_id}.{context['ti'].task_id}"

    def _defer_after(self, error: AssistantRateLimitError | AssistantAmbiguousError, until: float) -> None:
        """Defer if the service wants a pause, and there is time left for it; otherwise return."""
        is_refusal = isinstance(error, AssistantRateLimitError) or isinstance(error.__cause__, AssistantRateLimitError)
        asked = error.retry_after or 0.0
        if not self.deferrable or not (is_refusal or asked > self.max_pause):
            return
        pause = max(asked, SHORTEST_DEFERRAL)
        if self.hook.client.now() + pause > until:
            self.log.error("A pause of %.0f s ends after the timeout of %.0f s: not deferred.", pause, self.timeout)
            return
        from airflow.providers.standard.triggers.temporal import DateTimeTrigger

        moment = datetime.now(UTC) + timedelta(seconds=pause)
        self.log.info("The service asks to come back at %s; until then no worker is needed.", moment)
        texts = {name: getattr(self, name) for name in self.template_fields}
        rendered = {name: text for name, text in texts.items() if isinstance(text, str)}
        kwargs = {"until": until, "rendered": rendered}
        self.defer(trigger=DateTimeTrigger(moment=moment), method_name="resume", kwargs=kwargs)


def _seconds(value: float | timedelta) -> float:
    return value.total_seconds() if isinstance(value, timedelta) else value


class AssistantLoadRowsOperator(AssistantLoadOperator):
    """What loading question-and-answer and text documents share: rows become documents."""

    template_fields: Sequence[str] = (
        *AssistantLoadOperator.template_fields,
        "source",
        "columns",
        "constants",
        "key_columns",
        "csv_options",
    )
    source = SourceField()

    payload: ClassVar[type[Payload]]

    def __init__(
        self,
        *,
        source: Any,
        columns: Mapping[str, str] | None = None,
        constants: Mapping[str, str] | None = None,
        key_columns: str | Sequence[str] = (),
        csv_options: Mapping[str, str] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.source = source
        self.columns = columns
        self.constants = constants
        self.key_columns = key_columns
        self.csv_options = csv_options

    @abstractmethod
    def _call(self, site_id: str, document: Any) -> Call[CreatedDocument]:
        """Return the call that creates this document."""

    @contextlib.contextmanager
    def _rows(self, site_id: str) -> Iterator[Rows]:
        columns = mapping_of(self.payload, self.columns, self.constants)
        # Not before: a template, or another task's output, is text or a list only now.
        keys = key_names(self.key_columns)
        wanted = wanted_columns(self.payload, columns, keys)
        options: dict[str, Any] = {"csv_options": self.csv_options, "allow_empty": self.allow_empty}
        with open_source(self.source, wanted, self.root, **options) as source:
            yield DataframeRows(
                source,
                payload=self.payload,
                columns=columns,
                constants=self.constants or {},
                key_columns=keys,
                call=lambda document: self._call(site_id, document),
                allow_empty=self.allow_empty,
            )

    def reads(self) -> Sequence[Data]:
        """Return the files, where the rows come from files."""
        return files_in(self.source)

    def _is_whole(self, context: Context) -> bool:
        is_shard = isinstance(self.source, Mapping) and "row_groups" in self.source
        return super()._is_whole(context) and not is_shard


class AssistantLoadQAOperator(AssistantLoadRowsOperator):
    """
    Create one question-and-answer document per row (endpoint 4), each row once.

    The whole source is looked at before the first row is sent. What the ledger says is on the site already is
    not sent again, so a re-run, a retry or a second task with the same rows creates nothing twice.

    :param source: A dataframe (pandas, polars, pyarrow, DuckDB, …), a list of mappings, usually what another
        task returned; a path, object storage URL, glob, folder, or list of these, of Parquet, CSV or JSON
        lines; or a callable that returns one of these, or yields batches, and runs on the worker.
    :param columns: Which column each field comes from, where the names differ; the fields are ``title``,
        ``question``, ``answer`` and ``category``. Title and category are optional: without their column, or in a row
        where it is empty, they are not sent.
    :param constants: Fields with one value for all rows.
    :param key_columns: Columns that tell the rows apart; without any, the content itself does. Values are compared by
        value and not by type, see :func:`~airflow_provider_assistant.keys.key_text`.
    :param csv_options: How CSV files are written: a mapping with ``delimiter`` (default ``,``), ``encoding`` (default
        ``utf-8``) and ``quote`` (default ``"``), as far as they differ.

    The other parameters are those of :class:`AssistantLoadOperator`.
    """

    payload = QADocument
    endpoint = "documents/qa"
    kind = "qa"

    def _call(self, site_id: str, document: QADocument) -> Call[CreatedDocument]:
        return endpoints.create_qa_document(site_id, document)


class AssistantLoadTextOperator(AssistantLoadRowsOperator):
    """
    Create one text document per row (endpoint 3), each row once.

    The whole source is looked at before the first row is sent. What the ledger says is on the site already is
    not sent again, so a re-run, a retry or a second task with the same rows creates nothing twice.

    :param source: As for :class:`AssistantLoadQAOperator`.
    :param columns: Which column each field comes from, where the names differ; the fields are ``title``,
        ``content`` and ``category``. Title and category are optional: without their column, or in a row where it is
        empty, they are not sent.
    :param constants: Fields with one value for all rows.
    :param key_columns: Columns that tell the rows apart; without any, the content itself does. Values are compared by
        value and not by type, see :func:`~airflow_provider_assistant.keys.key_text`.
    :param csv_options: How CSV files are written: a mapping with ``delimiter`` (default ``,``), ``encoding`` (default
        ``utf-8``) and ``quote`` (default ``"``), as far as they differ.

    The other parameters are those of :class:`AssistantLoadOperator`.
    """

    payload = TextDocument
    endpoint = "documents/text"
    kind = "text"

    def _call(self, site_id: str, document: TextDocument) -> Call[CreatedDocument]:
        return endpoints.create_text_document(site_id, document)


class AssistantUploadFilesOperator(AssistantLoadOperator):
    """
    Create one document per file (endpoint 2), each file once; files are streamed.

    A file is told apart by its path below the given folder, and compared by its content: all of them are read once
    before the first is sent. The service sees the file's name; if several files have the same name, the folders
    that tell them apart stand before it (``de-readme.md``).

    :param files: One path or several: local paths, object storage URLs, globs or folders. A folder stands for
        all files below it.

    The other parameters are those of :class:`AssistantLoadOperator`.
    """

    template_fields: Sequence[str] = (*AssistantLoadOperator.template_fields, "files")
    endpoint = "documents"
    kind = "file"

    def __init__(self, *, files: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.files = files

    def reads(self) -> Sequence[Data]:
        """Return the files, or the folders that they are in."""
        return files_in(self.files)

    @contextlib.contextmanager
    def _rows(self, site_id: str) -> Iterator[Rows]:
        yield FileRows(
            storage_files(self.files, self.root, allow_empty=self.allow_empty),
            upload=self._upload,
            call=lambda upload: endpoints.upload_document(site_id, upload),
            allow_empty=self.allow_empty,
        )

    def _upload(self, path: Path_, filename: str) -> Upload:
        # Once more: a link may lead elsewhere by the time the file is sent.
        check_inside(path, None if self.root is None else storage_path(self.root))
        return as_upload(path, filename)
