"""AssistantEvaluateOperator: its files, its verdicts and its errors."""

from __future__ import annotations

import importlib
import os
import signal
import sys
from collections import Counter
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_assistant.evaluation import arrays, report
from airflow_provider_assistant.evaluation.runs import COLUMNS
from airflow_provider_assistant.evaluation.summary import Summary
from airflow_provider_assistant.exceptions import AssistantGateFailedError, AssistantInputError
from airflow_provider_assistant.lake import datasets
from airflow_provider_assistant.operators.evaluation import AssistantEvaluateOperator, AssistantReportLink
from tests.processes import preload, processes

preload(__name__, "jinja2", "pandas")

NIGHT = datetime(2026, 11, 21, tzinfo=UTC)
SCORERS = ["exact_match", "token_f1", "must_include"]


def question(number, answer="In five days.", expected="In five days.", status="complete", **more):
    return {
        "key": f"q{number:02}",
        "message": f"Question {number}?",
        "answer": answer if status == "complete" else None,
        "status": status,
        "error": None,
        "seconds": 1.0 + number,
        "submitted_at": NIGHT + timedelta(seconds=number),
        "expected": expected,
        "tags": ["even"] if number % 2 == 0 else ["odd"],
        **more,
    }


def good(count=20, **more):
    return [question(number, **more) for number in range(count)]


def worse(count=20):
    return [question(number, answer="I like trains.") for number in range(count)]


class Ti(SimpleNamespace):
    def xcom_push(self, key, value):
        self.pushed[key] = value


def context(moment=NIGHT, run_id=None, map_index=-1, dag_id="nightly"):
    run_id = run_id or f"scheduled__{moment.isoformat()}"
    return {
        "ti": Ti(dag_id=dag_id, task_id="judge", run_id=run_id, map_index=map_index, pushed={}),
        "dag_run": SimpleNamespace(run_after=moment, logical_date=moment, run_id=run_id),
        "task": SimpleNamespace(get_direct_relatives=lambda upstream: []),
    }


def execute(operator, **of_run):
    operator.render_template_fields({})
    return operator.execute(context(**of_run))


def judging(folder, answers, **arguments):
    from airflow.sdk import DAG

    with DAG("nightly", schedule=None):
        return AssistantEvaluateOperator(
            **{
                "task_id": "judge",
                "answers": answers,
                "output_path": str(folder / "evaluations"),
                "scorers": SCORERS,
                **arguments,
            }
        )


@pytest.fixture
def operator(tmp_path):
    return partial(judging, tmp_path)


def page_without_charts(evaluation):
    return f"{len(evaluation.trend)} runs before"


@pytest.fixture
def evaluate(operator, monkeypatch):
    """Evaluate as the run of a given day, without charts, which are slow."""
    monkeypatch.setattr(report, "render", page_without_charts)

    def run(answers, *, night=0, run_id=None, map_index=-1, **arguments):
        moment = NIGHT + timedelta(days=night)
        return execute(operator(answers, **arguments), moment=moment, run_id=run_id, map_index=map_index)

    return run


@pytest.mark.parametrize("form", ["list", "folder"])
def test_no_answers_are_an_error_unless_they_may_be_missing(form, operator, tmp_path):
    (tmp_path / "none").mkdir()
    answers = {"list": [], "folder": str(tmp_path / "none")}[form]
    with pytest.raises(AssistantInputError, match="allow_empty=True"):
        execute(operator(answers, gate=["coverage >= 0.9"]))
    head = execute(operator(answers, gate=["coverage >= 0.9"], allow_empty=True))
    assert (head["verdict"], head["questions"], head["answered"], head["report_path"]) == ("none", 0, 0, None)
    assert set(head) == set(execute(operator(good(2))))


def test_answers_and_expectations_in_another_csv_dialect(operator, tmp_path):
    (tmp_path / "answers.csv").write_bytes("key;answer\n1;für immer\n".encode("latin-1"))
    (tmp_path / "expected.csv").write_bytes("key;expected\n1;für immer\n".encode("latin-1"))
    head = execute(
        operator(
            str(tmp_path / "answers.csv"),
            expectations=str(tmp_path / "expected.csv"),
            csv_options={"delimiter": ";", "encoding": "latin-1"},
        )
    )
    assert head["means"]["exact_match"] == 1


def summary_of(head):
    return Summary.model_validate_json(Path(head["summary_path"]).read_text())


def folder_of(head):
    return str(Path(head["summary_path"]).parent)


def files(root):
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


# -- files -------------------------------------------------------------------------------


@pytest.mark.promise("evaluation", "The scores, the summary, the report and XCom of an evaluation say the same.")
def test_three_files_say_the_same(operator, tmp_path):
    answers = [*good(18), question(18, answer="No."), question(19, status="failed")]
    head = execute(operator(answers, pass_if="token_f1 >= 0.5", gate=["coverage >= 0.9", "pass_rate >= 0.9"]))
    folder = (
        tmp_path
        / "evaluations"
        / "nightly.judge"
        / ("2026-11-21T00-00-00.000000Z_scheduled__2026-11-21T00_00_00_00_00")
    )
    assert sorted(path.name for path in folder.iterdir()) == ["report.html", "scores.parquet", "summary.json"]
    summary = summary_of(head)
    assert (summary.questions.total, summary.questions.answered) == (20, 19)
    assert summary.questions.unanswered == {"failed": 1}
    assert summary.figures["pass_rate"].count == 19
    assert summary.value("token_f1") == pytest.approx(18 / 19)
    assert (summary.scorers["token_f1"].scored, summary.scorers["must_include"].scored) == (19, 0)
    assert (summary.value("coverage", "odd"), summary.value("pass_rate", "odd")) == (0.9, 1.0)
    assert summary.asked_at == NIGHT.isoformat()
    assert summary.gate.verdict == head["verdict"] == "passed"
    scores = pq.read_table(folder / "scores.parquet")
    assert scores.column_names == [*COLUMNS, *SCORERS]
    assert Counter(scores["passed"].to_pylist()) == {True: 18, False: 1, None: 1}
    assert "<html" in (folder / "report.html").read_text()
    assert head == {
        "name": "nightly.judge",
        "verdict": "passed",
        "questions": 20,
        "answered": 19,
        "coverage": 0.95,
        "pass_rate": pytest.approx(18 / 19),
        "means": {"exact_match": pytest.approx(18 / 19), "token_f1": pytest.approx(18 / 19), "must_include": None},
        "failed_rules": [],
        "worse": [],
        "failing": 1,
        "newly_failing": None,
        "judge_tokens": None,
        "baseline": None,
        "scores_path": str(folder / "scores.parquet"),
        "summary_path": str(folder / "summary.json"),
        "report_path": str(folder / "report.html"),
        "lake_path": None,
    }


# -- retries and kills -----------------------------------------------------------------------------


def killed(at, folder, arguments):
    """Evaluate in a new process, and kill it before or after a rename. A process with threads cannot be forked."""
    steps = iter(range(100))
    rename = Path.replace

    def replace(path, target):
        if next(steps) == at:
            os.kill(os.getpid(), signal.SIGKILL)
        renamed = rename(path, target)
        if next(steps) == at:
            os.kill(os.getpid(), signal.SIGKILL)
        return renamed

    Path.replace = replace
    report.render = page_without_charts
    execute(judging(folder, good(), **arguments))


@pytest.mark.promise("evaluation", "An evaluation that is killed and retried leaves the files of one that was not.")
@pytest.mark.parametrize("killed_at", [0, 3, 5, 8])
def test_an_evaluation_that_is_killed_ends_the_same_after_a_retry(killed_at, evaluate, tmp_path):
    """Kill the process before and after the rename of a file."""
    arguments = {"lake_path": str(tmp_path / "lake"), "pass_if": "token_f1 >= 0.5", "gate": ["pass_rate >= 0.5"]}
    evaluate([*worse(5), *good(20)[5:]], **arguments)
    child = processes.Process(target=killed, args=(killed_at, tmp_path, arguments))
    child.start()
    child.join()
    assert child.exitcode == -signal.SIGKILL
    folder = tmp_path / "evaluations" / "nightly.judge"
    (run,) = folder.iterdir()
    # An evaluation with a summary is complete.
    assert (run / "summary.json").exists() is (killed_at >= 5)
    evaluate(good(), **arguments)
    after = files(tmp_path)
    for path in sorted(tmp_path.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    evaluate(good(), **arguments)
    assert after == files(tmp_path)


# -- the gate --------------------------------------------------------------------------------------


@pytest.mark.promise("evaluation", "A failed gate fails the task without a retry, after everything is written.")
def test_a_failed_gate_fails_the_task_for_good_after_everything_is_written(evaluate):
    with pytest.raises(AssistantGateFailedError) as caught:
        evaluate(worse(), gate=["token_f1 >= 0.6", "coverage >= 1"])
    assert isinstance(caught.value, AirflowFailException)
    assert "'token_f1 >= 0.6'" in str(caught.value)
    page = Path(str(caught.value).split("Open the report: ")[1].split(". A retry")[0])
    assert page.exists()
    summary = Summary.model_validate_json((page.parent / "summary.json").read_text())
    assert (summary.gate.verdict, summary.gate.on_fail) == ("failed", "fail")


@pytest.mark.parametrize(
    ("on_fail", "answers", "judged", "behind"),
    [
        ("fail", worse, "failed", "upstream_failed"),
        ("skip_downstream", good, "success", "success"),
        ("skip_downstream", worse, "success", "skipped"),
        ("report", worse, "success", "success"),
    ],
)
def test_task_state_summary_report_and_xcom_agree(on_fail, answers, judged, behind, run_operator, tmp_path):
    def build():
        from airflow.providers.standard.operators.empty import EmptyOperator

        judge = AssistantEvaluateOperator(
            task_id="judge",
            answers=answers(),
            output_path=str(tmp_path),
            scorers=SCORERS,
            gate=["token_f1 >= {{ 0.6 }}"],
            on_fail=on_fail,
            retries=2,
        )
        judge >> EmptyOperator(task_id="deploy") >> EmptyOperator(task_id="tell", trigger_rule="all_done")

    run = run_operator(build, stored=True)
    assert run.task_state("judge") == judged
    assert run.tries("judge") == 1
    assert run.task_state("deploy") == behind
    assert run.task_state("tell") == "success"
    passed = answers is good
    head = run.xcom("judge")
    summary = summary_of(head)
    assert head["verdict"] == summary.gate.verdict == ("passed" if passed else "failed")
    assert run.xcom("judge", key="verdict") == head["verdict"]
    assert summary.gate.on_fail == on_fail
    assert summary.gate.rules[0].rule == "token_f1 >= 0.6"
    page = Path(head["report_path"]).read_text()
    assert f"<title>{'Passed' if passed else 'Failed'}: " in page
    # The link exists for every verdict.
    link = run.xcom("judge", key="_link_AssistantReportLink")
    assert unquote(link) == f"/assistant/reports/{run.dag_id}/{run.run_id}/judge/-1"


# -- the baseline ----------------------------------------------------------------------------------

DROP = {"gate": ["token_f1 drop <= 0.02"], "baseline": "previous"}


@pytest.mark.promise("evaluation", "A loss on purpose is accepted by the path that the error of the red gate names.")
def test_a_loss_on_purpose_is_accepted_as_the_error_says(evaluate):
    for night in range(3):
        evaluate(good(), night=night, **DROP)
    with pytest.raises(AssistantGateFailedError, match="give the evaluation a new name") as caught:
        evaluate(worse(), night=3, **DROP)
    accepted = str(caught.value).split("set baseline='")[1].split("'")[0]
    head = evaluate(worse(), night=4, **{**DROP, "baseline": accepted})
    assert (head["verdict"], head["baseline"]) == ("passed", accepted)


@pytest.mark.parametrize(
    ("baseline", "says"),
    [
        ("/no/such/folder", "baseline '/no/such/folder' has no summary.json"),
        ("SELF", "the output folder of this run itself"),
        ("NOT_PARQUET", "cannot be read"),
        ("OTHER_PARQUET", "is not a table of scores"),
    ],
)
def test_a_baseline_that_is_not_there_is_refused_before_anything_is_written(baseline, says, evaluate, tmp_path):
    first = evaluate(good())
    broken = evaluate(good(), name="broken")
    if baseline == "NOT_PARQUET":
        Path(broken["scores_path"]).write_text("no")
    elif baseline == "OTHER_PARQUET":
        pq.write_table(pa.table({"key": ["a"]}), broken["scores_path"])
    before = files(tmp_path)
    given = {"SELF": folder_of(first)}.get(baseline, baseline if baseline.startswith("/") else folder_of(broken))
    with pytest.raises(AssistantInputError, match=says):
        evaluate(good(), baseline=given)
    assert files(tmp_path) == before


# -- invalid input ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"scorers": ["bleu"]}, "there is no scorer 'bleu', only exact_match"),
        ({"gate": ["token_f1[ >= 0.5"]}, "Write it like"),
        ({"gate": ["token_f1 >= {{ x }}", "chrf >= 0.5"]}, "there is no figure 'chrf'"),
        ({"gate": ["coverage >= 98"]}, "write 0.98 for 98 %"),
        ({"refusal_phrases": ["a|b"]}, "refusal_phrases"),
        ({"pass_if": "token_f1 > high"}, "is not 'scorer >= number'"),
        ({"gate": ["pass_rate >= 0.5"]}, "needs pass_if"),
        ({"gate": ["token_f1 drop <= 0.1"]}, "needs a baseline"),
        ({"scorers": ["judge.policy"]}, "judge.policy has no text"),
        ({"judge": {"rubrics": {"tone": "Be polite."}}}, "add 'judge.tone' to scorers"),
        (
            {"scorers": ["judge.correctness"], "gate": ["judge.correctness >= 0.8"]},
            "Add a rule such as 'judge.correctness agreement",
        ),
        ({"baseline": {"run": "x"}}, "baseline"),
        ({"baseline": ""}, "baseline is empty"),
    ],
)
def test_what_cannot_be_done_is_refused_when_the_dag_is_parsed(arguments, says, operator):
    with pytest.raises(AssistantInputError, match=says):
        operator([], **arguments)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"gate": ["{{ rule }}"]}, "there is no figure 'chrf'"),
        ({"pass_if": "{{ rule }}"}, "there is no scorer 'chrf'"),
        ({"scorers": ["{{ scorer }}"]}, "there is no scorer 'bleu'"),
        ({"scorers": ["no_such_module.score"]}, "cannot be imported"),
    ],
)
def test_what_is_rendered_is_refused_before_anything_is_written(arguments, says, operator, tmp_path):
    built = operator(good(), **arguments)
    built.render_template_fields({"rule": "chrf >= 0.5", "scorer": "bleu"})
    with pytest.raises(AssistantInputError, match=says):
        built.execute(context())
    assert files(tmp_path) == {}


def test_without_the_extra_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "numpy", None)
    with pytest.raises(AssistantInputError, match=r"pip install 'airflow-provider-assistant\[evaluation\]'"):
        importlib.reload(arrays)


# -- the lake --------------------------------------------------------------------------------------


def test_the_lake_has_a_row_for_each_evaluation_and_scorer(evaluate, tmp_path):
    root = tmp_path / "lake"
    evaluate(good(), lake_path=str(root))
    head = evaluate(worse(), night=1, lake_path=str(root), on_fail="report", **DROP)
    table = pq.ParquetDataset(root / "evaluations").read()
    assert table.num_rows == 2 * len(SCORERS)
    assert set(table.column_names) == {*datasets.EVALUATIONS.schema().names, "date"}
    (row,) = (row for row in table.to_pylist() if row["path"] == head["summary_path"] and row["scorer"] == "token_f1")
    assert (row["verdict"], row["mean"], row["difference"]) == ("failed", 0.0, -1.0)
    assert row["difference_low"] == -1 < row["difference_high"] < -0.8
    assert (row["name"], row["coverage"], row["map_index"]) == ("nightly.judge", 1.0, -1)
    assert Path(head["lake_path"]).parent.name == "date=2026-11-22"


# -- the link --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("base", "prefix"), [("https://airflow.example.com", ""), ("https://example.com/af/", "/af")])
def test_the_link_is_that_of_the_instance_below_the_ui(base, prefix, operator, monkeypatch):
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", base)
    built = operator(good())
    execute(built, map_index=3)
    instance = Ti(dag_id="nightly", task_id="judge", run_id="manual__2026-11-21T00:00:00+00:00", map_index=3)
    link = AssistantReportLink().get_link(built, ti_key=instance)
    assert link == f"{prefix}/assistant/reports/nightly/manual__2026-11-21T00%3A00%3A00%2B00%3A00/judge/3"
