"""The demo's evaluation: its results, its files, and an evaluation of worse answers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.live.comparison import local
from tests.live.rest import RUN_OVER

if TYPE_CHECKING:
    from tests.live.rest import AirflowApi
    from tests.live.screen import Screen
    from tests.live.service import AssistantService

EVALUATION = "assistant_evaluation"
# Characters of the worse answers: they end in the middle of the first sentence.
CUT = 40
TIMEOUT = 120


def show(screen: Screen, head: dict[str, Any], rated: dict[str, Any] | None) -> None:
    """Show the result of an evaluation and the number of ratings sent."""
    shares = {"coverage": head["coverage"], "pass rate": head["pass_rate"], **head["means"]}
    screen.show(f"The evaluation of {head['questions']} questions: {head['verdict']}", head["summary_path"])
    screen.table([*shares], [["" if share is None else f"{share:.3f}" for share in shares.values()]])
    for rule in head["failed_rules"]:
        screen.show("", f"- {rule['rule']}: {rule['reason']}")
    if rated:
        counts = ("rows", "sent", "already_sent", "not_rated", "not_answered", "failed", "by_rating")
        screen.show("Its answers, rated by rule")
        screen.table(counts, [[rated[count] for count in counts]])


def problem_of(head: dict[str, Any], rated: dict[str, Any], drawn: int) -> str | None:
    """
    Return the errors of an evaluation that should have passed.

    :param drawn: number of evaluations that the trend chart must show
    """
    path = local(head["report_path"])
    page = Path(path).read_text(encoding="utf-8")
    if "</html>" not in page:
        return f"{path} is not a complete report"
    trend = re.search(r"The last (\d+) evaluations", page)
    if not trend or int(trend[1]) < drawn:
        return f"the trend in {path} shows fewer than {drawn} evaluations"
    ends = ("sent", "already_sent", "not_rated", "not_answered", "failed")
    if rated["rows"] != head["questions"] or rated["rows"] != sum(rated[end] for end in ends) or not rated["sent"]:
        return f"the ratings do not add up: {rated}"
    return None if head["verdict"] == "passed" else f"the gate: {head['verdict']}"


def over_time(lake: str) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Return the quality over time in the lake's dataset: one evaluation a week, and the last two days."""
    import duckdb

    query = """
        SELECT date, run_id, verdict, round(coverage, 3) AS coverage, scorer, round(mean, 3) AS mean
        FROM read_parquet(?, union_by_name => true, hive_partitioning => true)
        WHERE scorer IN ('token_f1', 'must_include')
            AND ((current_date - date) % 7 = 1 OR date >= current_date - 1)
        ORDER BY asked_at, scorer
    """
    with duckdb.connect() as connection:
        found = connection.execute(query, [f"{lake}/evaluations/*/*.parquet"])
        return [column[0] for column in found.description], found.fetchall()


def degrade(airflow: AirflowApi, service: AssistantService) -> tuple[str, dict[str, Any] | None]:
    """
    Evaluate again with truncated answers, and return the run's state and the message of its gate.

    Afterwards the service sends complete answers again.
    """
    airflow.wait("the end of other evaluations", lambda: _all_over(airflow), timeout=TIMEOUT)
    service.faults(answer_limit=CUT)
    try:
        run_id = airflow.trigger(EVALUATION)
        state = airflow.wait_run(EVALUATION, run_id, TIMEOUT)
    finally:
        service.faults(answer_limit=None)
    return state, airflow.xcom(EVALUATION, run_id, "evaluate")


def last_words(head: dict[str, Any], compared: dict[str, Any], degraded: dict[str, Any] | None = None) -> list[str]:
    """Return the verdicts and the paths of the reports."""
    lines = [_verdict("Verdict", head), _verdict("Verdict on the staging site, which lacks documents", compared)]
    if degraded:
        lines.append(_verdict(f"Verdict on answers cut to {CUT} characters", degraded))
    return lines


def _verdict(what: str, head: dict[str, Any]) -> str:
    failed = [rule["rule"] for rule in head["failed_rules"]]
    because = f" ({', '.join(failed)})" if failed else ""
    return f"{what}: {head['verdict']}{because}\nReport: {local(head['report_path'])}"


def _all_over(airflow: AirflowApi) -> bool:
    runs = airflow.request("GET", f"/api/v2/dags/{EVALUATION}/dagRuns")["dag_runs"]
    return all(run["state"] in RUN_OVER for run in runs)
