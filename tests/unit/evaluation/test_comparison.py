"""Comparing two evaluations: only unchanged questions are compared."""

from __future__ import annotations

import pyarrow as pa
import pytest

from airflow_provider_assistant.evaluation.baseline import Baseline, EarlierRun
from airflow_provider_assistant.evaluation.comparison import compare
from airflow_provider_assistant.evaluation.rules import parse_condition
from airflow_provider_assistant.evaluation.scorers import Scorer
from airflow_provider_assistant.evaluation.scoring import scores_schema
from airflow_provider_assistant.evaluation.units import Unit

UP = {"token_f1": True}


def row(key, score, *, case="same", scorer="token_f1", outcome=None, status=None, weight=1.0, tags=(), source=None):
    outcome = outcome or ("scored" if score is not None else "unanswered")
    status = status or ("failed" if outcome == "unanswered" else "complete")
    return {
        "key": key,
        "repetition": 1,
        "case": case,
        "scorer": scorer,
        "score": score,
        "outcome": outcome,
        "error": None,
        "weight": weight,
        "tags": list(tags),
        "seconds": None,
        "status": status,
        "seconds_source": source,
    }


def table(*rows):
    return pa.Table.from_pylist(list(rows), schema=scores_schema())


def units_of_rows(rows):
    """Return a unit per key, with the weight and the tags of its row."""
    found = {}
    for one in rows:
        found[one["key"]] = Unit(one["key"], {one["key"]: one["case"]}, one["weight"], frozenset(one["tags"]))
    return list(found.values())


def compared_runs(now, *earlier, up=UP, units=None, pass_if=None, is_compared=None):
    """Compare rows with those of earlier runs, latest first."""
    runs = []
    for before, is_one in zip(earlier, is_compared or [True] * len(earlier), strict=True):
        scores = table(*before) if isinstance(before, list) else before
        runs.append(EarlierRun(scores, is_compared=is_one))
    scorers = []
    for name, higher_is_better in up.items():
        kind = "latency" if name == "latency" else "check"
        scorers.append(Scorer(name, kind, lambda case: None, higher_is_better, is_share=name != "latency"))
    run = EarlierRun(table(*now))
    condition = parse_condition(pass_if) if pass_if else None
    return compare(run, units or units_of_rows(now), Baseline(runs, {"path": "p"}), scorers, condition)


def compared(now, before, up=UP):
    return compared_runs(now, before, up=up).comparison


def test_questions_are_paired_by_key_whatever_their_order():
    now = [row("a", 0.5), row("b", 1.0), row("c", 0.25)]
    found = compared(now, [row("c", 0.75), row("a", 0.5), row("b", 0.5)]).scorers["token_f1"]
    assert (found.paired, found.mean) == (3, 0.0)
    assert (found.worse, found.better) == (1, 1)
    assert [(change.key, change.before, change.after) for change in found.worst] == [("c", 0.75, 0.25)]
    assert [(change.key, change.before, change.after) for change in found.best] == [("b", 0.5, 1.0)]
    assert found == compared(now[::-1], [row("a", 0.5), row("b", 0.5), row("c", 0.75)]).scorers["token_f1"]


def test_what_changed_came_or_went_is_counted_and_not_averaged():
    found = compared(
        [row("same", 0.5), row("changed", 0.0, case="new"), row("added", 0.0)],
        [row("same", 0.5), row("changed", 1.0, case="old"), row("removed", 1.0)],
    )
    assert (found.same, found.changed, found.added, found.removed) == (1, 1, 1, 1)
    assert found.scorers["token_f1"].paired == 1
    assert found.scorers["token_f1"].mean == 0.0


@pytest.mark.parametrize("lacks", ["now", "before"])
def test_a_question_without_a_score_on_one_side_is_no_zero(lacks):
    full, gap = [row("a", 1.0), row("b", 1.0)], [row("a", 1.0), row("b", None)]
    found = compared(*((gap, full) if lacks == "now" else (full, gap)))
    assert found.same == 2
    assert (found.scorers["token_f1"].paired, found.scorers["token_f1"].mean) == (1, 0.0)
    assert found.coverage_before == (1.0 if lacks == "now" else 0.5)


def test_the_mean_is_weighted_with_the_weights_of_now():
    now = [row("a", 1.0, weight=3.0), row("b", 0.0)]
    before = [row("a", 0.0, weight=1.0), row("b", 0.0, weight=9.0)]
    assert compared(now, before).scorers["token_f1"].mean == 0.75


def test_more_is_worse_where_less_is_better():
    now, before = ([row(key, seconds, scorer="latency") for key in "ab"] for seconds in (9.0, 4.0))
    found = compared(now, before, {"latency": False}).scorers["latency"]
    assert (found.mean, found.worse, found.better) == (5.0, 2, 0)
    assert [change.key for change in found.worst] == ["a", "b"]


@pytest.mark.parametrize(
    ("now", "before", "changed"),
    [
        ("measured", "service", True),
        ("service", "measured", True),
        ("measured", "measured", False),
    ],
)
def test_a_measured_latency_is_not_compared_with_one_by_the_service_s_times(now, before, changed):
    rows_now = [row(key, 9.0, scorer="latency", source=now) for key in "abc"]
    rows_before = [row(key, 4.0, scorer="latency", source=before) for key in "abc"]
    rows_before[2]["seconds_source"] = "service" if before == "measured" else "measured"
    found = compared(rows_now, rows_before, {"latency": False})
    assert found.changed_latency is changed
    assert ("latency" in found.scorers) is not changed


def test_tags_are_compared_by_themselves():
    now = [row("a", 0.0, tags=["billing"]), row("b", 1.0, tags=["billing", "de"]), row("c", 1.0)]
    found = compared(now, [row(key, 1.0) for key in "abc"])
    assert {tag: scorers["token_f1"].mean for tag, scorers in found.tags.items()} == {"billing": -0.5, "de": 0.0}
    assert found.tags["billing"]["token_f1"].worst == []
    assert found.tags["billing"]["token_f1"].worse == 1


def test_the_fifty_worst_are_named_worst_first():
    now = [row(f"{number:03}", number / 100) for number in range(80)]
    found = compared(now, [row(f"{number:03}", 1.0) for number in range(80)]).scorers["token_f1"]
    assert found.worse == 80
    assert [change.key for change in found.worst] == [f"{number:03}" for number in range(50)]


def test_a_scorer_that_the_baseline_did_not_have_is_left_out():
    found = compared([row("a", 1.0), row("a", 1.0, scorer="chrf")], [row("a", 1.0)], {**UP, "chrf": True})
    assert list(found.scorers) == ["token_f1"]


def test_the_old_value_is_the_mean_of_the_runs_and_only_a_new_low_is_a_loss():
    earlier = [[row("a", 1.0), row("b", 1.0)], [row("a", 0.5), row("b", 1.0)], [row("a", None), row("b", 1.0)]]
    found = compared_runs([row("a", 0.5), row("b", 0.5)], *earlier).comparison
    assert found.runs == 3
    difference = found.scorers["token_f1"]
    assert difference.mean == pytest.approx((-0.25 - 0.5) / 2)
    assert [(change.key, change.before, change.after) for change in difference.worst] == [("b", 1.0, 0.5)]
    assert (difference.worse, difference.unchanged) == (1, 1)


def test_a_run_that_is_left_out_is_one_of_the_last_three_runs_and_no_baseline():
    stay = [row(str(number), 1.0) for number in range(20)]
    lost = [row(str(number), 0.0 if number < 4 else 1.0) for number in range(20)]
    found = compared_runs(lost, lost, lost, *[stay] * 4, is_compared=[False, False, True, True, True, True])
    difference = found.comparison.scorers["token_f1"]
    assert (found.comparison.runs, difference.mean, difference.together) == (4, -0.2, pytest.approx(-0.2))
    assert difference.together_error < difference.error
    assert found.comparison.passes is None
    assert len(found.losses["token_f1"]) == 4


def test_what_could_have_been_compared_is_counted():
    now = [row("same", 1.0), row("edited", 1.0, case="new"), row("added", 1.0), row("lost", None, outcome="error")]
    before = [row(key, 1.0, case="old" if key == "edited" else "same") for key in ("same", "edited", "lost", "gone")]
    difference = compared(now, before).scorers["token_f1"]
    # The error counts as the worst score.
    assert (difference.paired, difference.comparable, difference.mean) == (2, 5, -0.5)


def test_errors_count_as_the_worst_score_in_every_run():
    failed = [row("a", None, outcome="error"), row("b", 1.0)]
    assert compared(failed, failed).scorers["token_f1"].mean == 0
    assert compared([row("a", 0.0), row("b", 1.0)], failed).scorers["token_f1"].mean == 0


def test_one_bad_night_does_not_change_what_is_usual():
    usual = [[row("a", 1.0), row("b", 1.0)]] * 9
    runs = [[row("a", 0.0), row("b", 1.0)], *usual]
    found = compared_runs([row("a", 0.0), row("b", 0.0)], *runs, pass_if="token_f1 >= 0.5")
    assert found.newly_failing == ["a", "b"]
    found = compared_runs([row("a", 0.0), row("b", 0.0)], *runs[:9], pass_if="token_f1 >= 0.5")
    assert found.newly_failing == ["b"]


def test_newly_failing_questions_usually_passed_before():
    earlier = [
        [row("always", 1.0), row("once not", 0.0), row("fails", 0.0), row("error", 1.0), row("gap", None)],
        [row("always", 1.0), row("once not", 1.0), row("fails", 0.0), row("error", 1.0), row("gap", 1.0)],
    ]
    now = [row(key, 0.0) for key in ("always", "once not", "fails", "gap", "new")]
    now.append(row("error", None, outcome="error"))
    found = compared_runs(now, *earlier, pass_if="token_f1 >= 0.5")
    assert found.newly_failing == ["always", "gap", "error"]
    assert found.comparison.passes.paired == 5
