"""The operator that evaluates answers: scores, comparison, gate and report. It sends no requests."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, get_args

from airflow.providers.common.compat.sdk import Context, ObjectStoragePath
from airflow.providers.standard.utils.skipmixin import SkipMixin  # in common-compat only from 1.14.1 on

from airflow_provider_assistant import parameters
from airflow_provider_assistant.asking.answers import site_of
from airflow_provider_assistant.evaluation.rules import (
    DEFAULT_SCORERS,
    JUDGE,
    Criteria,
    OnFail,
    parse_criteria,
    parse_rule,
)
from airflow_provider_assistant.exceptions import AssistantGateFailedError, AssistantInputError
from airflow_provider_assistant.failures import FailureContext, explained
from airflow_provider_assistant.hooks.task_parameters import (
    Checks,
    check_given,
    is_template,
    naming_task,
)
from airflow_provider_assistant.lake import datasets
from airflow_provider_assistant.ledger import RunRef, Site
from airflow_provider_assistant.names import task_name
from airflow_provider_assistant.observability import metrics
from airflow_provider_assistant.observability.lineage import LineageDataset, table_at
from airflow_provider_assistant.operators.base import AssistantBaseOperator
from airflow_provider_assistant.operators.datasets import publish_run
from airflow_provider_assistant.operators.links import AssistantReportLink
from airflow_provider_assistant.operators.runs import instance_suffix
from airflow_provider_assistant.operators.source import UntemplatedField, files_in
from airflow_provider_assistant.operators.tries import note_result, recorded_as
from airflow_provider_assistant.storage.opening import storage_path
from airflow_provider_assistant.tables import Columns, read_rows
from airflow_provider_assistant.tables.whole import table_of

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_assistant.evaluation.judge import Judge
    from airflow_provider_assistant.evaluation.run import Evaluation
    from airflow_provider_assistant.evaluation.runs import RunFolder


class AssistantEvaluateOperator(AssistantBaseOperator, SkipMixin):
    """
    Score answers, compare them with a baseline, check the rules of a gate, and write a report.

    The operator writes three files to ``<output_path>/<name>/<time and id of the run>/``: ``scores.parquet``, one row
    per answer and one column per scorer; ``report.html``; and, last, ``summary.json``, see
    :class:`~airflow_provider_assistant.evaluation.summary.Summary`. The files do not contain the time of the
    evaluation, so a retry writes the same bytes. The operator needs the extra ``evaluation`` and sends requests only if
    a scorer is a judge, such as ``judge.correctness``; then it also writes ``verdicts.parquet``, and a retry asks only
    for the verdicts that are missing.

    .. seealso::
        For more information on how to use this operator, take a look at the guide:
        :doc:`/evaluate/evaluate`

    :param answers: The answers: the Parquet file of
        :class:`~airflow_provider_assistant.operators.chat_batch.AssistantChatBatchOperator`, or a dataframe, a list of
        mappings, a path to Parquet, CSV or JSON files, or a callable that returns one of these. The column
        ``answer`` and the key columns are required.
    :param expectations: A source with some of the columns ``expected``, ``must_include``, ``must_not_include``,
        ``expected_url``, ``expect_no_answer``, ``weight`` and ``tags``. Default: None, they are columns of ``answers``.
    :param output_path: Folder of the evaluations: a local path or an object storage URL.
    :param scorers: Names of scorers, ``column:<name>`` for a numeric column of the answers, or dotted paths of your own
        functions. Default: ``exact_match``, ``token_f1``, ``must_include``, ``must_not_include``, ``refusal``,
        ``latency`` and ``confidence_score``.
    :param refusal_phrases: Sentences with which the assistant refuses, for the scorer ``refusal``, which knows English
        ones. Default: none.
    :param judge: Options of the judges: a mapping, see
        :class:`~airflow_provider_assistant.evaluation.rubrics.JudgeOptions`. Default: None, their defaults.
    :param pass_if: Condition for a question to pass, such as ``token_f1 >= 0.5 and must_include >= 1``. A scorer that
        is not applicable to a question is ignored for that question. Default: None, no pass rate.
    :param gate: Rules, such as ``coverage >= 0.98``, ``token_f1[billing] >= 0.5``, ``latency p95 <= 20`` or
        ``token_f1 drop <= 0.02``. The gate passes if all rules hold. A ``drop`` fails only if the answers got worse by
        more than chance explains; ``newly_failing <= 2`` counts questions that usually passed before. Without a rule
        on ``coverage``, 90 % of the questions must have an answer. A rule on a judge needs another one on its agreement
        with people, such as ``judge.correctness agreement >= 0.6 on >= 50 labels``. Default: no rules.
    :param on_fail: What a failed gate does: ``fail`` (default) fails the task without retries; ``skip_downstream``
        succeeds and skips the tasks directly downstream; ``report`` succeeds.
    :param baseline: What to compare with: ``previous``, the last 28 runs of the same name that did not get worse; or
        the path of the folder of one evaluation. Default: None, no comparison.
    :param key_columns: Column or columns that identify a question, in ``answers`` and ``expectations``. Default:
        ``key``.
    :param csv_options: Format of files: a mapping with some of the fields of
        :class:`~airflow_provider_assistant.tables.csv_files.CsvOptions`, such as ``delimiter`` and ``encoding``.
    :param allow_empty: Whether answers without rows or files succeed with zero counts, without files and without a
        verdict. Default: False, empty answers are an error.
    :param name: Name of the evaluation; ``previous`` refers to evaluations of the same name. Default:
        ``<dag_id>.<task_id>``; a mapped task appends its index.
    :param lake_path: Folder of the datasets. If set, the operator also writes the figures to the dataset
        ``evaluations``. Default: None.
    :param timezone: IANA name of the zone of the partition's day, such as ``Europe/Berlin``. Default: the zone of the
        DAG's schedule.
    """

    template_fields: Sequence[str] = (
        "answers",
        "expectations",
        "output_path",
        "scorers",
        "refusal_phrases",
        "judge",
        "pass_if",
        "gate",
        "baseline",
        "csv_options",
        "name",
        "lake_path",
        "timezone",
    )
    parameter_checks: ClassVar[Checks] = {"on_fail": parameters.choice(*get_args(OnFail))}
    operator_extra_links = (AssistantReportLink(),)
    answers = UntemplatedField()
    expectations = UntemplatedField()
    inherits_from_skipmixin = True

    # Path of the report, read by AssistantReportLink.
    report: ObjectStoragePath | None = None
    folder: RunFolder | None = None
    judges: Judge | None = None

    def __init__(
        self,
        *,
        answers: Any,
        output_path: str,
        expectations: Any = None,
        scorers: Sequence[str] = DEFAULT_SCORERS,
        refusal_phrases: Sequence[str] = (),
        judge: Mapping[str, Any] | None = None,
        pass_if: str | None = None,
        gate: Sequence[str] = (),
        on_fail: OnFail = "fail",
        baseline: str | None = None,
        key_columns: str | Sequence[str] = "key",
        csv_options: Mapping[str, Any] | None = None,
        allow_empty: bool = False,
        name: str | None = None,
        lake_path: str | None = None,
        timezone: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.answers = answers
        self.expectations = expectations
        self.output_path = output_path
        self.scorers = scorers
        self.refusal_phrases = refusal_phrases
        self.judge = judge
        self.pass_if = pass_if
        self.gate = gate
        self.on_fail: OnFail = on_fail
        self.baseline = str(baseline) if isinstance(baseline, os.PathLike) else baseline
        self.key_columns = key_columns
        self.csv_options = csv_options
        self.allow_empty = allow_empty
        self.name = name
        self.lake_path = lake_path
        self.timezone = timezone
        check_given(self)
        with naming_task(self.task_id):
            self._check_arguments()

    @explained
    @recorded_as("evaluation")
    def execute(self, context: Context) -> dict[str, Any]:
        """
        Evaluate the answers and write scores, summary and report.

        :param context: Airflow's task context.
        :return: ``name``; ``verdict`` (``passed``, ``failed`` or ``none``); ``questions`` and ``answered``, counts;
            ``coverage`` and ``pass_rate``, shares of 1; ``means``, a mapping from scorer to weighted mean;
            ``failed_rules``, a list of the first ten with ``rule``, ``verdict`` (``failed`` or ``worse``), ``reason``
            and ``questions``, the keys of the worst ten; ``worse``, the figures that got worse by more than chance
            explains; ``failing``, the number of questions that do not fulfil ``pass_if``; ``newly_failing``, the keys
            of the first ten of them that usually passed before; ``judge_tokens``; ``baseline``, the folder of the
            latest run compared with; ``scores_path``, ``summary_path``, ``report_path`` and ``lake_path``.
            The task pushes it to XCom even if the gate fails. With ``allow_empty`` and no answers, the verdict is
            ``none`` and the paths are None.
        :raises AssistantInputError: A rule, a scorer, the baseline or a source is invalid, and nothing was written.
        :raises AssistantError: The model of the judges is not available. The verdicts so far are saved, and a retry
            continues.
        :raises AssistantGateFailedError: The gate failed, and ``on_fail`` is ``fail``. All files are written. Airflow
            does not retry the task.
        """
        # Imported here because numpy and the models are slow to import, and Airflow parses DAG files every few seconds.
        from airflow_provider_assistant.evaluation.golden import read_cases
        from airflow_provider_assistant.evaluation.run import EvaluationJob, evaluate
        from airflow_provider_assistant.evaluation.runs import RunFolder
        from airflow_provider_assistant.evaluation.scorers import scorers_of

        name, run = self._name(context), self._run(context)
        criteria = self._criteria(self.scorers)
        folder = RunFolder.of(self.output_path, name, context["dag_run"].run_after, str(run["run_id"]))
        folder.check_owner(run)
        scorers = scorers_of(self.scorers, self.refusal_phrases)
        self.judges = self._judges(self.scorers)
        answers = self._table(self.answers)
        if not answers.num_rows:
            return self._empty_result(context)
        expectations = None if self.expectations is None else self._table(self.expectations)
        self.folder = folder
        job = EvaluationJob(
            name=name,
            cases=read_cases(answers, expectations, key_columns=self.key_columns),
            folder=folder,
            scorers=scorers,
            criteria=criteria,
            baseline=self.baseline,
            judges=self.judges,
            on_fail=self.on_fail,
            run=run,
            site=self._site().get("site_id"),
        )
        evaluation = evaluate(job)
        self.report = folder.report
        lake_file = self._publish(context, evaluation) if self.lake_path else None
        return self._finish(context, evaluation, lake_file)

    def site_of_try(self) -> Site:
        """Return the site that answered."""
        site = self._site()
        return Site(site.get("service") or "", site.get("site_id") or "")

    def source_of_try(self, context: Context) -> str:
        """Return the name of the evaluation."""
        return self._name(context)

    def on_kill(self) -> None:
        """Stop asking the judges. The next try continues with the answers that have no verdict yet."""
        if self.judges:
            self.judges.cancel()

    def failure_context(self, context: Context) -> FailureContext:
        """Return the evaluation and the files that it wrote, for the log lines of a failure."""
        doing = f"evaluation {self._name(context)!r} in {self.output_path}"
        written = "Nothing was written."
        if self.judges and self.folder and self.folder.verdicts.exists():
            written = f"The verdicts so far were saved: {self.folder.verdicts}."
        if self.report:
            written = f"Scores, summary and report were written: {self.report}."
        return FailureContext(doing, safe=written)

    def lineage_inputs(self) -> Sequence[LineageDataset]:
        """Return the files with the answers and the expectations."""
        return [*files_in(self.answers), *files_in(self.expectations)]

    def _check_arguments(self) -> None:
        """Check the arguments that are not templates, so that mistakes show when the DAG is parsed."""
        from airflow_provider_assistant.evaluation.scorers import check_name, checked_phrases

        names = None
        if not is_template(self.scorers):
            names = parameters.checked("scorers", self.scorers, parameters.text_list)
            for name in names:
                check_name(name)
            if not is_template(self.judge):
                self._judges(names)
        if not is_template(self.refusal_phrases):
            checked_phrases(self.refusal_phrases)
        if not any(map(is_template, (self.gate, self.pass_if, self.baseline))):
            self._criteria(names)
        elif isinstance(self.gate, list | tuple):
            # Some rules may be complete already.
            for rule in self.gate:
                if not is_template(rule):
                    parse_rule(rule, names)

    def _criteria(self, names: Sequence[str] | None) -> Criteria:
        return parse_criteria(self.pass_if, self.gate, names, has_baseline=self.baseline is not None)

    def _judges(self, names: Sequence[str]) -> Judge | None:
        """Return the judges among the scorers; None if no scorer asks a model and no option is given."""
        if self.judge is None and not any(name.startswith(JUDGE) for name in names):
            return None
        from airflow_provider_assistant.evaluation.judge import Judge

        return Judge(self.judge, names)

    def _table(self, source: Any) -> pa.Table:
        rows = read_rows(source, Columns(rest=True), csv_options=self.csv_options, allow_empty=self.allow_empty)
        return table_of(rows)

    def _empty_result(self, context: Context) -> dict[str, Any]:
        from airflow_provider_assistant.evaluation.results import empty_result

        name = self._name(context)
        if not self.allow_empty:
            raise AssistantInputError(
                "answers has no rows",
                safe="Nothing was written.",
                todo="If empty answers are valid, set allow_empty=True.",
                field="answers",
            )
        self.log.info("%s: no answers; no files are written and the gate is not judged.", name)
        return self.emit_asset_events(context, empty_result(name, self.scorers))

    def _name(self, context: Context) -> str:
        return self.name or f"{task_name(self.dag_id, self.task_id)}{instance_suffix(RunRef.of(context))}"

    def _run(self, context: Context) -> dict[str, str | None]:
        """Return the ids and the times of the task instance, for ``summary.json``."""
        run, dag_run = RunRef.of(context), context["dag_run"]
        return {
            "dag_id": run.dag_id,
            "run_id": run.run_id,
            "task_id": run.task_id,
            "map_index": str(run.map_index) if run.map_index >= 0 else None,
            # Iterations of a loop (Airflow 3.4) differ only in their region.
            **({"region": run.region} if run.region else {}),
            "logical_date": dag_run.logical_date.isoformat() if dag_run.logical_date else None,
            "run_after": dag_run.run_after.isoformat(),
        }

    def _site(self) -> Mapping[str, str | None]:
        """Return what identifies the site that answered; empty if not known."""
        return site_of(storage_path(self.answers)) if isinstance(self.answers, str) else {}

    def _publish(self, context: Context, evaluation: Evaluation) -> str:
        """Replace this run's file in the dataset ``evaluations``, and return its path."""
        from airflow_provider_assistant.evaluation.results import evaluation_rows

        site, moment = self._site(), context["dag_run"].logical_date
        rows = [{**row, **site} for row in evaluation_rows(evaluation, moment)]
        return publish_run(self, context, rows, str(self.lake_path), datasets.EVALUATIONS, self.timezone).path

    def _finish(self, context: Context, evaluation: Evaluation, lake_file: str | None) -> dict[str, Any]:
        """Log the verdict, then fail, skip or succeed as ``on_fail`` says."""
        from airflow_provider_assistant.evaluation import results

        summary = evaluation.summary
        result = results.task_result(summary, evaluation.job.folder, lake_file)
        self._log_verdict(evaluation, result)
        shown = {name: result[name] for name in ("means", "coverage", "pass_rate")}
        metrics.evaluation(summary.name, summary.gate.verdict, **shown)
        self.lineage_outputs = (table_at(result["scores_path"], evaluation.table), *self.lineage_outputs)
        note_result(self, result)
        returned = self.emit_asset_events(context, result)
        if summary.gate.verdict != "failed" or self.on_fail == "report":
            return returned
        if self.do_xcom_push:
            # Airflow does not push the return value of a task that ends with an exception.
            items = returned if self.multiple_outputs else {}
            for key, value in {**items, "return_value": returned}.items():
                context["ti"].xcom_push(key, value)
        if self.on_fail == "fail":
            way_out = "If the limits are too strict, change the gate."
            if summary.gate.is_worse:
                way_out = (
                    f"If the change is wanted, accept it: set baseline={str(evaluation.job.folder.path)!r}, or give "
                    "the evaluation a new name, so that it is not compared with the runs before."
                )
            raise AssistantGateFailedError(
                f"Gate failed: {results.failures_text(summary.gate.rules)} ({summary.name})",
                todo=f"Open the report: {result['report_path']}. A retry would judge the same answers: repair the "
                f"assistant or the golden set and ask again. {way_out}",
            )
        relatives = context["task"].get_direct_relatives(upstream=False)
        downstream = [task for task in relatives if not task.is_teardown]
        skipped = ", ".join(task.task_id for task in downstream)
        self.log.info("Skipping %s.", skipped or "nothing: this task has no downstream tasks")
        self.skip(ti=context["ti"], tasks=downstream)
        return returned

    def _log_verdict(self, evaluation: Evaluation, result: Mapping[str, Any]) -> None:
        """Log the verdict, the rules and the failing questions."""
        from airflow_provider_assistant.evaluation.failing import failing_lines
        from airflow_provider_assistant.evaluation.results import means_text, notes_of

        summary = evaluation.summary
        figures = f"Coverage {result['coverage']:.4g}, {means_text(summary)}"
        self.log.info("%s: %s. %s. Report: %s", summary.name, summary.gate.verdict, figures, result["report_path"])
        for rule in summary.gate.rules:
            level = logging.INFO if rule.verdict == "passed" else logging.WARNING
            self.log.log(level, "%s: %s (%s)", rule.word, rule.rule, rule.reason)
        for line in (*failing_lines(evaluation), *notes_of(summary)):
            self.log.info("%s", line)
