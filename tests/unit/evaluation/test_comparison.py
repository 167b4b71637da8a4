"""Comparing two evaluations: only unchanged questions are compared."""

from __future__ import annotations

import pyarrow as pa
import pytest

from airflow_provider_assistant.evaluation.comparison import compare
from airflow_provider_assistant.evaluation.scoring import scores_schema
from airflow_provider_assistant.exceptions import AssistantInputError

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


def compared(now, before, up=UP):
    return compare(table(*now), table(*before), higher_is_better=up, baseline={"path": "p"})


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
        ("measured", None, True),
        ("measured", "measured", False),
        ("service", None, False),
    ],
)
def test_a_measured_latency_is_not_compared_with_one_by_the_service_s_times(now, before, changed):
    rows_now = [row(key, 9.0, scorer="latency", source=now) for key in "abc"]
    rows_before = [row(key, 4.0, scorer="latency", source=before) for key in "abc"]
    rows_before[2]["seconds_source"] = "service" if before == "measured" else "measured"
    found = compared(rows_now, rows_before, {"latency": False})
    if before is None:
        # A table of an older version.
        old = table(*rows_before).drop_columns(["seconds_source"])
        found = compare(table(*rows_now), old, higher_is_better={"latency": False}, baseline={"path": "p"})
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


def test_a_table_that_holds_no_scores_is_refused():
    with pytest.raises(AssistantInputError, match="'p' is not a table of scores: it has no column case, scorer"):
        compare(table(), pa.table({"key": ["a"]}), higher_is_better=UP, baseline={"path": "p"})
