"""Render the page of the report."""

from __future__ import annotations

from functools import cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from airflow_provider_assistant.evaluation.report import charts, formats, sections, side_by_side
from airflow_provider_assistant.texts import shortened

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pyarrow as pa
    from jinja2 import Template

    from airflow_provider_assistant.evaluation.case import Case
    from airflow_provider_assistant.evaluation.summary import PairCounts, ScorerSummary, Summary

HERE = Path(__file__).parent
# Identifies the reports that this package wrote.
GENERATOR = '<meta name="generator" content="airflow-provider-assistant">'
QUANTILES = {"p50": "p50 (median)", "p75": "p75", "p90": "p90", "p95": "p95", "p99": "p99"}
FORMATS: dict[str, Callable[..., str]] = {
    name: getattr(formats, name)
    for name in ("count", "counted", "exact", "moment", "percent", "score", "seconds", "signed")
}

TIMES = {"latency": "Latency", "noticed_after": "Noticed after"}


def render(
    summary: Summary,
    cases: Sequence[Case],
    scores: pa.Table,
    trend: Sequence[Summary] = (),
    reasons: Mapping[tuple[str, int, str], str] = MappingProxyType({}),
    *,
    baseline_cases: Sequence[Case] = (),
) -> str:
    """
    Return the report of an evaluation as one HTML page that loads nothing and runs no scripts.

    The same input gives the same text, and the text can always be encoded in UTF-8. Long lists of questions are
    shortened; the report shows the number of omitted rows.

    :param summary: The summary of the evaluation.
    :param cases: The questions. Questions with equal scores are listed in this order.
    :param scores: The table of scores, one row per question and scorer.
    :param trend: Summaries of earlier evaluations, in any order. The report shows the last 30. Default: none.
    :param reasons: Reasons of judges by key of the question, number of its repetition, and scorer. Default: none.
    :param baseline_cases: Questions with the answers of the baseline, to show both answers side by side. Default: not
        known.
    :return: The HTML page.
    """
    runs = sections.runs(summary, trend)
    measure = _measure(summary)
    return _template().render(
        generator=GENERATOR,
        summary=summary,
        scorers=[(name, scorer, _picture(scorer)) for name, scorer in summary.scorers.items()],
        runs=runs,
        lines=_lines(summary, runs),
        measure=measure,
        timing=getattr(summary, measure),
        timing_name=TIMES[measure],
        durations=_durations(summary, cases),
        quantiles=QUANTILES,
        tags=sections.tags(summary),
        worst=sections.worst(summary, cases, scores),
        repeated=sections.repeated(summary, cases, scores),
        changes=sections.changes(summary, cases),
        pairwise=_pairwise(summary),
        pairs=side_by_side.pairs(summary, cases, baseline_cases),
        unanswered=sections.unanswered(cases),
        errors=sections.scoring_errors(scores),
        reasons=reasons,
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
    environment.filters.update(FORMATS, shortened=shortened)
    return environment.get_template("report.html.j2")


def _legible(value: Any) -> Any:
    # Markup is a subclass of str and contains only text that was made legible before.
    return formats.legible(value) if type(value) is str else value


def _markup(svg: str) -> Any:
    from markupsafe import Markup

    # Safe: the charts escape their text.
    return Markup(svg)  # noqa: S704


def _picture(scorer: ScorerSummary) -> Any:
    return _markup(charts.histogram(scorer.histogram)) if any(scorer.histogram) else None


def _pairwise(summary: Summary) -> tuple[PairCounts, Any] | None:
    """Return the counts of the judge that compares answers, and their chart; None without pairs."""
    counts = summary.pairs
    if counts is None or not counts.pairs:
        return None
    parts = [(counts.wins, "good"), (counts.equal, "faint"), (counts.losses, "bad")]
    return counts, _markup(charts.proportions(parts)) if any(count for count, _ in parts) else ""


def _measure(summary: Summary) -> str:
    """Return the duration to show: latency, or ``noticed_after`` if no reply has timestamps."""
    return "noticed_after" if summary.noticed_after.count and not summary.latency.count else "latency"


def _durations(summary: Summary, cases: Sequence[Case]) -> Any:
    measure = _measure(summary)
    times = (case.seconds if measure == "latency" else case.noticed_after for case in cases if case.answer is not None)
    values = [value for value in times if value is not None]
    timing = getattr(summary, measure)
    marks = [(name, value) for name in ("p50", "p95", "p99") if (value := getattr(timing, name)) is not None]
    return _markup(charts.durations(values, marks)) if values and marks else None


def _lines(summary: Summary, runs: Sequence[Summary]) -> list[tuple[str, str, Any]]:
    """Return title, current value and chart of every figure that at least two runs have."""
    measure = _measure(summary)
    figures: list[tuple[str, Callable[[Summary], float | None], Callable[[float | None], str], float]] = [
        ("Coverage", lambda one: one.questions.coverage, formats.percent, 1),
        ("Pass rate", lambda one: one.passes.rate if one.passes else None, formats.percent, 1),
        (f"{TIMES[measure]} p95", lambda one: getattr(one, measure).p95, formats.seconds, float("inf")),
    ]
    figures += [
        (name, partial(_mean, name), formats.score, 1) for name, scorer in summary.scorers.items() if scorer.histogram
    ]
    dates = [formats.day(one.asked_at) for one in runs]
    lines = []
    for name, figure, write, most in figures:
        values = [figure(one) for one in runs]
        if sum(value is not None for value in values) > 1:
            lines.append((name, write(values[-1]), _markup(charts.line(values, dates, write, most))))
    return lines


def _mean(scorer: str, summary: Summary) -> float | None:
    return summary.scorers[scorer].mean if scorer in summary.scorers else None
