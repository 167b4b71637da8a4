"""Render the page of the report."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_provider_assistant.evaluation.excerpts import told
from airflow_provider_assistant.evaluation.report import charts, formats, sections, side_by_side
from airflow_provider_assistant.evaluation.report.cards import cards
from airflow_provider_assistant.evaluation.report.head import head_of
from airflow_provider_assistant.evaluation.rules import COVERAGE, PASS_RATE
from airflow_provider_assistant.texts import counted, shortened

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jinja2 import Template

    from airflow_provider_assistant.evaluation.evaluate import Evaluation
    from airflow_provider_assistant.evaluation.judge_summary import PairCounts
    from airflow_provider_assistant.evaluation.summary import Difference, ScorerSummary, Summary

HERE = Path(__file__).parent
# Identifies the reports that this package wrote.
GENERATOR = '<meta name="generator" content="airflow-provider-assistant">'
QUANTILES = {"p50": "p50 (median)", "p75": "p75", "p90": "p90", "p95": "p95", "p99": "p99"}
TIMES = {"latency": "Latency", "noticed_after": "Noticed after"}
FORMATS: dict[str, Callable[..., str]] = {
    name: getattr(formats, name) for name in ("count", "exact", "moment", "percent", "score", "seconds", "signed")
}
FORMATS["counted"] = counted


@dataclass(frozen=True, slots=True)
class _Trend:
    """The trend of a figure: its current value and its chart."""

    title: str
    value: str
    picture: Any


def owner_tag(dag_id: str) -> str:
    """
    Return the tag of a report that names the DAG whose task wrote it.

    :param dag_id: Empty if no task wrote it.
    """
    return f'<meta name="dag-id" content="{escape(dag_id)}">'


def render(
    evaluation: Evaluation, trend: Sequence[Summary] = (), *, files: str | None = "the folder of this file"
) -> str:
    """
    Return the report of an evaluation as one HTML page that loads nothing and runs no scripts.

    The same input gives the same text, and the text can always be encoded in UTF-8. Long lists of questions are
    shortened; the report shows the number of omitted rows. Questions with equal scores are listed in their order.

    :param trend: Summaries of earlier evaluations, in any order. The report shows the last 30.
    :param files: Folder of ``scores.parquet`` and ``summary.json``, in words; None if they are not written.
    """
    summary = evaluation.summary
    runs = sections.runs(summary, trend)
    measure = _measure(summary)
    failing = cards(evaluation)
    scorers = []
    for name, scorer in summary.scorers.items():
        scorers.append((name, scorer, _histogram(scorer)))
    return _template().render(
        generator=GENERATOR,
        owner=owner_tag(summary.run.get("dag_id") or ""),
        summary=summary,
        scorers=scorers,
        runs=runs,
        lines=_trends(summary, runs, measure),
        measure=measure,
        timing=getattr(summary, measure),
        timing_name=TIMES[measure],
        timing_note=_timing_note(summary, measure),
        durations=_durations(evaluation, measure),
        quantiles=QUANTILES,
        tags=sections.tags(summary),
        head=head_of(summary, runs, failing),
        failing=failing,
        repeated=sections.repeated(evaluation),
        messages={case.key: case.message for case in evaluation.cases},
        differences=_differences(summary),
        changed_scorers=_changed_scorers(summary),
        most_changes=sections.MAX_CHANGES,
        pairwise=_pairwise(summary),
        pairs=side_by_side.pairs(evaluation),
        unanswered=sections.unanswered(evaluation),
        errors=sections.scoring_errors(evaluation),
        reasons=evaluation.reasons,
        files=files,
    )


@cache
def _template() -> Template:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        autoescape=True,
        finalize=_legible,
        loader=FileSystemLoader(HERE),
        lstrip_blocks=True,
        trim_blocks=True,
        undefined=StrictUndefined,
    )
    environment.filters.update(FORMATS, shortened=shortened, told=told)
    return environment.get_template("report.html.j2")


def _legible(value: Any) -> Any:
    # Markup is a subclass of str and contains only text that was made legible before.
    if type(value) is str:
        return formats.legible(value)
    return value


def _markup(svg: str) -> Any:
    from markupsafe import Markup

    # Safe: the charts escape their text.
    return Markup(svg)  # noqa: S704


def _histogram(scorer: ScorerSummary) -> Any:
    """Return the chart of a scorer; None if it has no scores from 0 to 1."""
    if not any(scorer.histogram):
        return None
    return _markup(charts.histogram(scorer.histogram))


def _differences(summary: Summary) -> dict[str, Difference]:
    """Return the differences to the baseline by name of the figure: the shares first, then the scorers."""
    comparison = summary.comparison
    if comparison is None:
        return {}
    shares = {PASS_RATE: comparison.passes, COVERAGE: comparison.coverage}
    known_shares = {name: difference for name, difference in shares.items() if difference}
    return known_shares | comparison.scorers


def _changed_scorers(summary: Summary) -> list[tuple[str, Difference]]:
    """Return the scorers whose scores changed, with their differences."""
    if summary.comparison is None:
        return []
    differences = summary.comparison.scorers.items()
    return [(name, difference) for name, difference in differences if difference.worst or difference.best]


def _pairwise(summary: Summary) -> tuple[PairCounts, Any] | None:
    """Return the counts of the judge that compares answers, and their chart; None without pairs."""
    counts = summary.pairs
    if counts is None or not counts.pairs:
        return None
    if counts.errors == counts.pairs:
        return counts, ""
    parts = [(counts.wins, "good"), (counts.equal, "faint"), (counts.losses, "bad")]
    return counts, _markup(charts.proportions(parts))


def _measure(summary: Summary) -> str:
    """Return the duration to show: latency, or ``noticed_after`` if no reply has timestamps."""
    if summary.noticed_after.count and not summary.latency.count:
        return "noticed_after"
    return "latency"


def _timing_note(summary: Summary, measure: str) -> str:
    """Return where the durations come from, and how exact they are."""
    if measure == "noticed_after":
        answers = counted(summary.noticed_after.count, "answer")
        return (
            f"Seconds from submission to the poll that found the answer, for {answers}. The service's "
            "replies have no timestamps, and no poll came close to the end of an answer, so the latency is "
            "not known; these times depend on the poll interval."
        )
    known = summary.latency.count
    measured = summary.latency_error
    sources = []
    if known > measured.count:
        sources.append(f"{formats.count(known - measured.count)} by the service's timestamps")
    if measured.count:
        longest = formats.seconds(measured.maximum)
        median = formats.seconds(measured.p50)
        sources.append(f"{formats.count(measured.count)} measured, at most {longest} too long (median {median})")
    note = f"Latency in seconds, for {counted(known, 'answer')}: {'; '.join(sources)}."
    unknown = summary.questions.answered - known
    if unknown:
        note += f" Not known for {counted(unknown, 'answer')}."
    return note


def _durations(evaluation: Evaluation, measure: str) -> Any:
    """Return the chart of the durations of the answered questions; None if there are none."""
    seconds = []
    for case in evaluation.cases:
        duration = case.seconds if measure == "latency" else case.noticed_after
        if case.answer is not None and duration is not None:
            seconds.append(duration)
    timing = getattr(evaluation.summary, measure)
    if not seconds or timing.p50 is None:
        return None
    marks = [("p50", timing.p50), ("p95", timing.p95), ("p99", timing.p99)]
    return _markup(charts.durations(seconds, marks))


def _trends(summary: Summary, runs: Sequence[Summary], measure: str) -> list[_Trend]:
    """Return the trend of every figure that at least two runs have."""
    coverages = [run.questions.coverage for run in runs]
    pass_rates = [run.pass_rate for run in runs]
    durations = [getattr(run, measure).p95 for run in runs]
    trends = [
        _trend("Coverage", coverages, runs, formats.percent),
        _trend("Pass rate", pass_rates, runs, formats.percent),
        _trend(f"{TIMES[measure]} p95", durations, runs, formats.seconds, most=math.inf),
    ]
    for name, scorer in summary.scorers.items():
        # Only scores from 0 to 1 have a histogram.
        if scorer.histogram:
            means = [run.means.get(name) for run in runs]
            trends.append(_trend(name, means, runs, formats.score))
    return [trend for trend in trends if trend is not None]


def _trend(
    title: str,
    values: Sequence[float | None],
    runs: Sequence[Summary],
    format_value: Callable[[float | None], str],
    most: float = 1,
) -> _Trend | None:
    """Return the trend of a figure, with one value per run; None if fewer than two runs have it."""
    runs_with_value = sum(value is not None for value in values)
    if runs_with_value < 2:
        return None
    dates = [formats.day(run.asked_at) for run in runs]
    chart = charts.line(values, dates, format_value, most)
    return _Trend(title=title, value=format_value(values[-1]), picture=_markup(chart))
