"""Render the page of the report."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_provider_assistant.evaluation.report import charts, formats, sections, side_by_side
from airflow_provider_assistant.texts import shortened

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jinja2 import Template

    from airflow_provider_assistant.evaluation.evaluate import Evaluation
    from airflow_provider_assistant.evaluation.summary import PairCounts, ScorerSummary, Summary

HERE = Path(__file__).parent
# Identifies the reports that this package wrote.
GENERATOR = '<meta name="generator" content="airflow-provider-assistant">'
QUANTILES = {"p50": "p50 (median)", "p75": "p75", "p90": "p90", "p95": "p95", "p99": "p99"}
TIMES = {"latency": "Latency", "noticed_after": "Noticed after"}
FORMATS: dict[str, Callable[..., str]] = {
    name: getattr(formats, name)
    for name in ("count", "counted", "exact", "moment", "percent", "score", "seconds", "signed")
}


@dataclass(frozen=True, slots=True)
class _Line:
    """The trend of a figure: its current value and its chart."""

    title: str
    value: str
    picture: Any


def render(evaluation: Evaluation, trend: Sequence[Summary] = ()) -> str:
    """
    Return the report of an evaluation as one HTML page that loads nothing and runs no scripts.

    The same input gives the same text, and the text can always be encoded in UTF-8. Long lists of questions are
    shortened; the report shows the number of omitted rows. Questions with equal scores are listed in their order.

    :param trend: Summaries of earlier evaluations, in any order. The report shows the last 30.
    """
    summary = evaluation.summary
    runs = sections.runs(summary, trend)
    measure = _measure(summary)
    return _template().render(
        generator=GENERATOR,
        summary=summary,
        scorers=[(name, scorer, _picture(scorer)) for name, scorer in summary.scorers.items()],
        runs=runs,
        lines=_lines(summary, runs, measure),
        measure=measure,
        timing=getattr(summary, measure),
        timing_name=TIMES[measure],
        durations=_durations(evaluation, measure),
        quantiles=QUANTILES,
        tags=sections.tags(summary),
        worst=sections.worst(evaluation),
        repeated=sections.repeated(evaluation),
        messages={case.key: case.message for case in evaluation.cases},
        most_changes=sections.MAX_CHANGES,
        pairwise=_pairwise(summary),
        pairs=side_by_side.pairs(evaluation),
        unanswered=sections.unanswered(evaluation),
        errors=sections.scoring_errors(evaluation),
        reasons=evaluation.reasons,
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
    if counts.errors == counts.pairs:
        return counts, ""
    parts = [(counts.wins, "good"), (counts.equal, "faint"), (counts.losses, "bad")]
    return counts, _markup(charts.proportions(parts))


def _measure(summary: Summary) -> str:
    """Return the duration to show: latency, or ``noticed_after`` if no reply has timestamps."""
    return "noticed_after" if summary.noticed_after.count and not summary.latency.count else "latency"


def _durations(evaluation: Evaluation, measure: str) -> Any:
    values = []
    for case in evaluation.cases:
        value = case.seconds if measure == "latency" else case.noticed_after
        if case.answer is not None and value is not None:
            values.append(value)
    timing = getattr(evaluation.summary, measure)
    marks = [(name, getattr(timing, name)) for name in ("p50", "p95", "p99")]
    if not values or timing.p50 is None:
        return None
    return _markup(charts.durations(values, marks))


def _lines(summary: Summary, runs: Sequence[Summary], measure: str) -> list[_Line]:
    """Return the trend of every figure that at least two runs have."""
    percent = formats.percent
    durations = [getattr(run, measure).p95 for run in runs]
    lines = [
        _line("Coverage", [run.questions.coverage for run in runs], runs, percent),
        _line("Pass rate", [run.pass_rate for run in runs], runs, percent),
        _line(f"{TIMES[measure]} p95", durations, runs, formats.seconds, math.inf),
    ]
    for name, scorer in summary.scorers.items():
        if scorer.histogram:
            lines.append(_line(name, [run.means.get(name) for run in runs], runs, formats.score))
    return [line for line in lines if line is not None]


def _line(
    title: str,
    values: Sequence[float | None],
    runs: Sequence[Summary],
    write: Callable[[float | None], str],
    most: float = 1,
) -> _Line | None:
    known = [value for value in values if value is not None]
    if len(known) < 2:
        return None
    dates = [formats.day(run.asked_at) for run in runs]
    return _Line(title, write(values[-1]), _markup(charts.line(values, dates, write, most)))
