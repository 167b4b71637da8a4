"""Judges of an evaluation: a host of models on a real socket, reached through Airflow's hook, and labels of people."""

from __future__ import annotations

import pytest
from airflow.providers.common.compat.sdk import ObjectStoragePath

from airflow_provider_assistant.evaluation.golden import Case
from airflow_provider_assistant.evaluation.judge import Judge
from airflow_provider_assistant.evaluation.rules import Condition, Rule, Term
from airflow_provider_assistant.exceptions import AssistantInputError
from tests.judge import Judge as Host
from tests.unit.evaluation.judges import Model

CONNECTION = "AIRFLOW_CONN_PYDANTICAI_DEFAULT"
RIGHT, WRONG = "Refunds are paid within 5 days.", "Refunds are paid within 9 days."
CORRECTNESS = "judge.correctness"


def case(number, answer=None, **row):
    """Every second answer is wrong, in a number."""
    answer = answer or (RIGHT if number % 2 else WRONG)
    return Case(f"q{number}", f"Question {number}?", answer, expected=(RIGHT,), row=row)


def agreement_rule(labels):
    text = f"{CORRECTNESS} agreement >= 0.6 on >= {labels} labels"
    return Rule(text, f"{CORRECTNESS} agreement", CORRECTNESS, None, False, Term(CORRECTNESS, ">=", 0.6), labels)


@pytest.fixture
def host(monkeypatch):
    with Host() as host:
        monkeypatch.setenv(CONNECTION, host.conn_json())
        yield host


@pytest.fixture
def saved(tmp_path):
    return ObjectStoragePath(f"file://{tmp_path}/verdicts.parquet")


def test_a_judge_asks_the_model_of_an_airflow_connection(host, saved):
    judge = Judge(None, ["equal", CORRECTNESS])
    cases = [case(0), case(1), Case("q2", "Question 2?", None), Case("q3", "Question 3?", "5 days")]
    judged = judge.judge(cases, saved)
    found = judged.judgements[CORRECTNESS]
    assert [one.score for one in found] == [0, 1, None, None]
    assert "Missing: 5" in found[0].reason
    facts = judged.facts[CORRECTNESS]
    assert facts.model == "openai:word-overlap"
    assert facts.input_tokens > facts.output_tokens == 40
    # A retry of the whole task knows them.
    assert Judge(None, [CORRECTNESS]).judge(cases, saved).judgements[CORRECTNESS] == found
    assert len(host.asked) == 2


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"extra": {}}, "No model"),
        ({"extra": {"model": "word-overlap"}}, "cannot be used"),
        ({"conn_type": "http"}, "cannot be used"),
    ],
)
def test_a_connection_that_cannot_be_used_is_refused_before_anything_is_asked(host, monkeypatch, fields, reason):
    monkeypatch.setenv(CONNECTION, host.conn_json(**fields))
    with pytest.raises(AssistantInputError, match=reason):
        Judge(None, [CORRECTNESS]).check([case(0)])
    monkeypatch.delenv(CONNECTION)
    with pytest.raises(AssistantInputError, match="pydanticai_default"):
        Judge(None, [CORRECTNESS]).check([case(0)])
    # Without judges, nothing is needed.
    Judge(None, ["equal"]).check([case(0)])


def labelled_by(model, cases, saved, terms=(), options=None, scorers=("judge.friendly",)):
    options = {
        "rubrics": {name.removeprefix("judge."): "The answer is friendly." for name in scorers},
        **(options or {}),
    }
    judge = Judge(options, scorers, create_agent=model.agent)
    judge.check(cases)
    return judge.judge(cases, saved, Condition("", tuple(terms))).agreements.get(scorers[0])


def scored(key, answer, **row):
    return Case(key, key, answer, row=row)


@pytest.mark.promise("evaluation", "The agreement of a judge with people is measured on what decides.")
def test_agreement_is_measured_on_the_score_and_on_the_condition_that_decides(saved):
    """Fault: a judge that says pass with a score of 0.2 agreed, and the gate decided on the score."""
    cases = [scored(f"q{number}", "0.2" if number % 2 else "0", human=bool(number % 2)) for number in range(40)]
    on_score = labelled_by(Model(), cases, saved)
    assert on_score.labels == 40
    assert on_score.kappa < 0.3
    # The condition agrees, but means are of scores: the lower one counts.
    assert labelled_by(Model(), cases, saved, [Term("judge.friendly", ">=", 0.1)]) == on_score
    clear = [scored(f"q{number}", str(number % 2), human=bool(number % 2)) for number in range(40)]
    assert labelled_by(Model(), clear, saved).kappa == 1
    assert labelled_by(Model(), clear, saved, [Term("judge.friendly", ">=", 0)]).kappa < 0.1


def test_a_label_is_about_the_answer_that_the_person_has_seen(saved):
    cases = [
        scored(f"q{number}", "0", human="pass" if seen == "1" else "FAIL", human_answer=seen)
        for number, seen in enumerate(["1", "0", "1", "", "1", " ", "1", None] * 3)
    ]
    model = Model()
    assert labelled_by(model, cases, saved).kappa == 1
    assert len(model.asked) == 36  # the other half has seen the same answer


def test_labels_may_be_in_tables_of_their_own(tmp_path, saved):
    table = tmp_path / "labels.csv"
    table.write_text("key,message,answer,human\n" + "".join(f"l{n},Question {n}?,{n % 2},{n % 2}\n" for n in range(30)))
    found = labelled_by(Model(), [scored("q", "1")], saved, options={"labels": str(table)})
    assert (found.labels, found.kappa) == (30, 1)
    assert labelled_by(Model(), [scored("q", "1")], saved) is None


def test_several_judges_have_labels_of_their_own(saved):
    names = ("judge.friendly", "judge.short")
    cases = [scored(f"q{n}", str(n % 2), **{"human.friendly": n % 2, "human.short": (n + 1) % 2}) for n in range(20)]
    assert labelled_by(Model(), cases, saved, scorers=names).kappa == 1
    assert labelled_by(Model(), cases, saved, scorers=names[::-1]).kappa == -1
    with pytest.raises(AssistantInputError, match=r"could be about any of them.*human\.friendly"):
        labelled_by(Model(), [scored("q", "1", human=True)], saved, scorers=names)


@pytest.mark.parametrize(("label", "count"), [("maybe", None), ("", 0), (None, 0), ("Yes", 1), (0, 1), ("bad", 1)])
def test_a_label_is_pass_or_fail(saved, label, count):
    cases = [scored("q", "1", human=label)]
    if count is None:
        with pytest.raises(AssistantInputError, match="question 'q': human must be pass or fail, not 'maybe'"):
            labelled_by(Model(), cases, saved)
    else:
        found = labelled_by(Model(), cases, saved)
        assert (found.labels if found else 0) == count


def test_too_few_labels_are_found_before_anything_is_asked(host):
    cases = [case(number, human=True) for number in range(19)]
    with pytest.raises(AssistantInputError, match="needs 20 labels, and there are 19"):
        Judge(None, [CORRECTNESS]).check(cases, [agreement_rule(20)])
    Judge(None, [CORRECTNESS]).check([*cases, case(20, human=False)], [agreement_rule(20)])
    # Before the questions are asked, it is only known which of them have a label.
    Judge(None, [CORRECTNESS]).check([Case("q", "?", None, row={"human": True})], [agreement_rule(1)])
    assert host.asked == []


def test_an_answer_that_could_not_be_judged_counts_as_a_fail_of_the_judge(saved):
    model = Model(lambda number, answer: {"score": "?"} if answer == "1" else None)
    cases = [scored(f"q{number}", str(number % 2), human=bool(number % 2)) for number in range(20)]
    found = labelled_by(model, cases, saved)
    assert (found.labels, found.kappa) == (20, 0)
