"""Run the example DAGs on a live Airflow, show their results, and check them."""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.live import comparison, evaluation, handbook, traps
from tests.live.airflow import LiveAirflow
from tests.live.comparison import COMPARISON
from tests.live.evaluation import EVALUATION
from tests.live.handbook import HANDBOOK
from tests.live.process import POLL, Process, running
from tests.live.rest import RUN_OVER, WAITING
from tests.live.screen import Screen
from tests.live.service import AssistantService

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).parents[2]

KNOWLEDGE, SMOKE, ASYNC, BATCH, EXPORT, REPORT, APPROVAL = (
    "assistant_knowledge_base",
    "assistant_smoke",
    "assistant_async_chat",
    "assistant_chat_batch",
    "assistant_nightly_export",
    "assistant_weekly_report",
    "assistant_approve_baseline",
)
# The DAGs of one group run at the same time: questions need the documents.
GROUPS = ((KNOWLEDGE,), (SMOKE, ASYNC, BATCH))
EXPORTS = ("export_statistics", "export_limits", "export_feedback", "export_requests", "export_loads")
LOADS = ("load_configuration_reference", "upload_guides")
COUNTS = ("rows", "created", "unchanged", "rejected", "failed", "requests", "seconds")
RUN_TIMEOUT = 120
# The minimum number of days for a chart with lines.
DRAWN = 28
COLOURS = {"success": "green", "failed": "red", "upstream_failed": "red", "up_for_retry": "yellow"}


class DemoError(Exception):
    """Raised when the demo fails."""


class Demo:
    """One demo on one Airflow."""

    def __init__(
        self, home: Path, screen: Screen, airflow: LiveAirflow, service: AssistantService, *, degraded: bool = False
    ) -> None:
        self.home = home
        self.degraded = degraded
        self.lake = lake(home)
        self.screen = screen
        self.airflow = airflow
        self.service = service
        self.runs: dict[str, str] = {}
        self.handbooks: list[dict[str, Any]] = []
        self.states: defaultdict[tuple[str, str], list[str]] = defaultdict(list)

    def run(self) -> None:
        """Run the DAGs, show the results, and check that the API key has not leaked."""
        problems = []
        for part in (self._run_and_show, self._look_for_key):  # errors are the most likely place for a leaked key
            try:
                part()
            except DemoError as error:
                problems.append(str(error))
        if problems:
            raise DemoError("\n\n".join(problems))

    def _run_and_show(self) -> None:
        earlier = self._beside("the earlier month", "tests.live.history", self.lake.as_uri())
        staging = self._beside("the staging site", "tests.live.comparison", str(self.home / "staging.csv"))
        with running([earlier, staging]):
            self.screen.say("a month of earlier statistics and answers is generated with the embedded service", "bold")
            self.screen.say(f"the staging site {comparison.STAGING} is loaded, with fewer documents", "bold")
            for group in GROUPS:
                self._run_group(group)
            for process in (earlier, staging):
                process.wait(RUN_TIMEOUT)
        self._run_group([EVALUATION, APPROVAL])
        self._compare()
        self._load_handbook_twice()
        self._export_and_report()
        first = self._loads()
        self._run_group([KNOWLEDGE])
        self._show_knowledge({"first run": first, "second run": self._loads()})
        self._show_chat()
        self._show_async_chat()
        self._show_batch()
        self._show_lake()
        self._show_warehouse()
        self._show_handbook()
        self._show_comparison()
        self._show_approval()
        self._show_evaluation()
        self._load_traps()

    # -- running -----------------------------------------------------------------------------------

    def _beside(self, name: str, module: str, argument: str) -> Process:
        """Return a process that runs a module while DAGs run."""
        return Process(
            name,
            [sys.executable, "-m", module, argument],
            env=self.airflow.env,
            cwd=ROOT,
            log=self.home / f"{module.rpartition('.')[2]}.log",
        )

    def _compare(self) -> None:
        self.screen.say(f"{comparison.SHORT:.0%} of the answers now end after their first sentence")
        self.service.faults(short_answer_rate=comparison.SHORT, judge_position_bias=comparison.POSITION_BIAS)
        self._run_group([COMPARISON])
        self.service.faults(short_answer_rate=0, judge_position_bias=0)

    def _run_group(self, dag_ids: Sequence[str]) -> None:
        for dag_id in dag_ids:
            self.runs[dag_id] = self._start(dag_id)
            self.screen.say(f"{dag_id}: started", "bold")
        self._follow(dag_ids)

    def _start(self, dag_id: str) -> str:
        """
        Start a run and return its id.

        A DAG with a due run starts it when it is unpaused. In this case, that run is returned: a manually triggered
        run would wait for its end and find nothing to do.
        """
        dag = self.airflow.wait_dag(dag_id)
        due = dag["next_dagrun_run_after"]
        # A few hours after the last scheduled time, the next run is due on the next day.
        if not (dag["is_paused"] and due and datetime.fromisoformat(due) <= datetime.now(UTC)):
            return self.airflow.trigger(dag_id)
        self.airflow.unpause(dag_id)
        run = self.airflow.wait(
            f"the scheduled run of {dag_id}", lambda: next(iter(self.airflow.runs(dag_id)), None), timeout=RUN_TIMEOUT
        )
        return run["dag_run_id"]

    def _load_handbook_twice(self) -> None:
        self._run_group([HANDBOOK])
        self.handbooks = [self._xcom(HANDBOOK, "load")]
        self.screen.say("the handbook is edited: " + "; ".join(handbook.EDITS))
        handbook.edit(handbook_of(self.home))
        self._run_group([HANDBOOK])
        self.handbooks.append(self._xcom(HANDBOOK, "load"))

    def _export_and_report(self) -> None:
        """Wait for the DAG that the warehouse load starts by its asset."""
        # Asset events that occur while a DAG is paused do not start it later.
        self.airflow.wait_dag(REPORT)
        self.airflow.unpause(REPORT)
        self._run_group([EXPORT])
        found = self.airflow.wait(
            f"a run of {REPORT}", lambda: next(iter(self.airflow.runs(REPORT)), None), timeout=RUN_TIMEOUT
        )
        self.runs[REPORT] = found["dag_run_id"]
        self.screen.say(f"{REPORT}: started by the asset that {EXPORT} updated", "bold")
        self._follow([REPORT])

    def _follow(self, dag_ids: Sequence[str]) -> None:
        unfinished, failed = list(dag_ids), []
        deadline = time.monotonic() + RUN_TIMEOUT
        with self.screen.busy(", ".join(dag_ids)):
            while unfinished and time.monotonic() < deadline:
                self.airflow.check()
                self.service.check()
                for dag_id in list(unfinished):
                    # Read the run first, so that the tasks read afterwards are in their final states.
                    run_state = self.airflow.run(dag_id, self.runs[dag_id])["state"]
                    self._tell_changes(dag_id)
                    if run_state in RUN_OVER:
                        unfinished.remove(dag_id)
                        failed += [dag_id] if run_state == "failed" else []
                        self.screen.say(f"{dag_id}: {run_state}", COLOURS[run_state])
                time.sleep(POLL)
        if unfinished or failed:
            what = [f"{dag_id}: not over after {RUN_TIMEOUT} s" for dag_id in unfinished]
            what += [f"{dag_id}: failed" for dag_id in failed]
            bad = {"failed", "up_for_retry"}
            what += [self._log(*task) for task, states in self.states.items() if bad & {*states[-1:]}]
            raise DemoError("\n\n".join(what))

    def _tell_changes(self, dag_id: str) -> None:
        for task, state in self.airflow.task_states(dag_id, self.runs[dag_id]).items():
            seen = self.states[dag_id, task]
            if state not in (None, "scheduled", "queued", *seen[-1:]):
                seen.append(state)
                self.screen.say(f"{dag_id}.{task}: {state}", COLOURS.get(state, "cyan"))
                if (dag_id, task) == (APPROVAL, "approve") and state in WAITING:
                    self.airflow.answer(dag_id, self.runs[dag_id], task, "Approve")
                    self.screen.say("the demo approves through the REST API, as a person does in the UI", "bold")

    def _log(self, dag_id: str, task: str) -> str:
        task_id, _, index = task.rstrip("]").partition("[")
        log = self.airflow.task_log(dag_id, self.runs[dag_id], task_id, map_index=int(index) if index else -1)
        return "\n".join([f"{dag_id}.{task}, the end of its log:", *log.splitlines()[-30:]])

    # -- showing -----------------------------------------------------------------------------------

    def _xcom(self, dag_id: str, task_id: str) -> Any:
        value = self.airflow.xcom(dag_id, self.runs[dag_id], task_id)
        if not value:
            raise DemoError(f"{dag_id}.{task_id} returned nothing")
        return value

    def _loads(self) -> dict[str, dict[str, Any]]:
        return {task: self._xcom(KNOWLEDGE, task) for task in LOADS}

    def _show_knowledge(self, runs: dict[str, dict[str, dict[str, Any]]]) -> None:
        self.screen.show("Knowledge base: each row once, however often the DAG runs")
        rows = [
            [run, task, *(load[name] for name in COUNTS)] for run, loads in runs.items() for task, load in loads.items()
        ]
        self.screen.table(["", "task", *COUNTS], rows)
        first, second = runs.values()
        if any(load["created"] != load["rows"] for load in first.values()):
            raise DemoError("documents failed to load")
        if any(load["requests"] for load in second.values()):
            raise DemoError("the second run sent rows that were on the site already")

    def _show_chat(self) -> None:
        answer = self._xcom(SMOKE, "sync_chat")
        sources = answer.get("raw", {}).get("sources") or []
        titles = list(dict.fromkeys(source.get("title", "") for source in sources))
        if not answer.get("text") or not titles:
            raise DemoError(f"an answer without text or source: {answer}")
        self.screen.show("An answer and its sources", answer["text"])
        self.screen.show("", "\n".join(f"- {title}" for title in titles))

    def _show_async_chat(self) -> None:
        task = "wait_for_answer"
        answer = self._xcom(ASYNC, task)
        self.screen.show("An asynchronous answer", answer.get("text") or "")
        columns = ["request_id", "status", "polls", "seconds"]
        row = [*(answer.get(name, "") for name in columns), " → ".join(self.states[ASYNC, task])]
        self.screen.table([*columns, f"states of {task}"], [row])

    def _show_batch(self) -> None:
        task = "ask_golden_set"
        counts, summary = self._xcom(BATCH, task), self._xcom(BATCH, "summarise")
        self.screen.show("A golden set, asked in one task", counts["output_path"])
        columns = ["rows", "complete", "failed", "seconds_p50", "seconds_p99"]
        row = [*(counts[name] for name in columns), summary["as_expected"], " → ".join(self.states[BATCH, task])]
        self.screen.table([*columns, "as expected", f"states of {task}"], [row])
        if summary["missed"]:
            raise DemoError(f"not answered as expected: {summary['missed']}")

    def _show_lake(self) -> None:
        import pyarrow.parquet as pq

        for task in EXPORTS:
            exported = self._xcom(EXPORT, task)
            table = pq.read_table(comparison.local(exported["path"]))
            self.screen.show(f"{task}: {table.num_rows} rows read back", exported["path"])
            some = table.select(table.column_names[:6]).slice(0, 5)
            self.screen.table(some.column_names, [row.values() for row in some.to_pylist()])
            if table.num_rows != exported["rows"]:
                raise DemoError(f"{task} wrote {exported['rows']} rows, {table.num_rows} are there")
        files = sorted(self.lake.rglob("*.parquet"))
        shown = [str(path.relative_to(self.lake)) for path in files if "generated__" not in str(path)]
        shown.append(f"and {len(files) - len(shown)} of the generated evaluations")
        self.screen.show(f"Parquet files in {self.lake}", "\n".join(shown))
        if not files:
            raise DemoError(f"no Parquet file under {self.lake}")

    def _show_warehouse(self) -> None:
        import duckdb

        loaded, summary, report = (
            self._xcom(*task) for task in ((EXPORT, "load_warehouse"), (EXPORT, "summarise"), (REPORT, "draw"))
        )
        self.screen.show(f"The warehouse: {loaded['rows']} rows", str(warehouse(self.home)))
        view = "assistant.feedback_weekly"
        with duckdb.connect(str(warehouse(self.home)), read_only=True) as connection:
            rows = connection.table(view).to_arrow_table()
        self.screen.show(f"View {view}")
        self.screen.table(rows.column_names, [map(str, row.values()) for row in rows.to_pylist()])
        for site in summary["statistics"]:
            self.screen.show(f"View assistant.statistics_daily, site {site['site_id']}, one line per column")
            self.screen.table(["", ""], [(name, site[name]) for name in site if name not in {"tenant_id", "site_id"}])
        if not rows.num_rows or not summary["statistics"]:
            raise DemoError("a view without a row")
        self.screen.show(
            f"The picture of {report['days']} days; the embedded service generated the days before today",
            report["path"],
        )
        if report["days"] < DRAWN:
            raise DemoError(f"the picture has {report['days']} days, fewer than {DRAWN}")
        if not Path(comparison.local(report["path"])).read_bytes().startswith(b"\x89PNG"):
            raise DemoError("the picture is not a PNG file")

    def _show_handbook(self) -> None:
        documents = self.service.documents(limit=100_000)
        on_site = sum(document["category"] == "handbook" for document in documents)
        handbook.show(self.screen, *self.handbooks, on_site)
        problem = handbook.problem_of(*self.handbooks)
        chunks = self.lake / "handbook" / "chunks.parquet"
        problem = problem or handbook.difference(documents, chunks, self._xcom(HANDBOOK, "compare"))
        if problem:
            raise DemoError(problem)

    def _load_traps(self) -> None:
        written, preview, loaded = traps.load(self.home / "traps", self.airflow.env)
        if loaded:
            traps.show(self.screen, preview, loaded)
        if problem := traps.problem_of(written, loaded, self.service.documents(limit=100_000)):
            raise DemoError(problem)

    def _show_comparison(self) -> None:
        head = self._xcom(COMPARISON, "compare")
        summary = comparison.summary_of(head)
        comparison.show(self.screen, head, summary)
        if problem := comparison.problem_of(head, summary):
            raise DemoError(problem)

    def _show_approval(self) -> None:
        head = self._xcom(APPROVAL, "evaluate")
        approved = self.airflow.request("GET", "/api/v2/variables/assistant_baseline")["value"]
        self.screen.show("The approved baseline, in the Variable assistant_baseline", approved)
        if approved != head["summary_path"]:
            raise DemoError(f"the approved baseline should be {head['summary_path']}")

    def _show_evaluation(self) -> None:
        head, rated = self._xcom(EVALUATION, "evaluate"), self._xcom(EVALUATION, "rate")
        evaluation.show(self.screen, head, rated)
        if problem := evaluation.problem_of(head, rated, DRAWN):
            raise DemoError(problem)
        worse = self._degrade() if self.degraded else None
        columns, rows = evaluation.over_time(str(self.lake))
        self.screen.show(
            "Quality over time in the dataset evaluations; runs called generated__… are of generated answers"
        )
        self.screen.table(columns, rows)
        self.screen.last_words = evaluation.last_words(head, self._xcom(COMPARISON, "compare"), worse)

    def _degrade(self) -> dict[str, Any]:
        self.screen.say(f"the service cuts its answers to {evaluation.CUT} characters; {EVALUATION}: started", "bold")
        with self.screen.busy(EVALUATION):
            state, worse = evaluation.degrade(self.airflow, self.service)
        self.screen.say(f"{EVALUATION}: {state}", COLOURS[state])
        if state != "failed" or not worse or worse["verdict"] != "failed":
            raise DemoError(f"the gate did not notice that answers were cut: {worse}")
        evaluation.show(self.screen, worse, None)
        self.screen.say("the gate has caught it: the run failed, as it should", "green")
        return worse

    def _look_for_key(self) -> None:
        """Fail if the service's key is in any file of the demo, but for the service's own data."""
        key = self.service.api_key.encode()
        found = []
        for path in self.home.rglob("*"):
            if path.is_file() and self.service.home / "data" not in path.parents:
                with suppress(FileNotFoundError):  # Airflow is still running
                    found += [path] if key in path.read_bytes() else []
        if found:
            raise DemoError("the API key is in " + ", ".join(map(str, found)))
        self.screen.show("The API key is in no log and no file of Airflow's.")


def lake(home: Path) -> Path:
    """Return where the exports go."""
    return home / "lake"


def handbook_of(home: Path) -> Path:
    """Return the folder of the handbook."""
    return home / "handbook"


def warehouse(home: Path) -> Path:
    """Return the DuckDB file of the warehouse."""
    return home / "warehouse.duckdb"
