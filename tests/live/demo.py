"""
The demo: the example DAGs on a real Airflow against the embedded service.

Run as ``python -m tests.live.demo``; with ``--keep``, Airflow and the service stay until Ctrl-C; with ``--degraded``,
the service loses documents at the end, and the evaluation detects it.
"""

from __future__ import annotations

import argparse
import csv
import shutil
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from rich.box import SIMPLE
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tests.live import handbook
from tests.live.airflow import LiveAirflow
from tests.live.clients import local_client
from tests.live.process import POLL, NotReadyError
from tests.live.rest import RUN_OVER, WAITING
from tests.live.service import AssistantService

ROOT = Path(__file__).parents[2]
# Seconds of an answer: long enough to observe that a task defers while it waits.
THINKING = 4
RUN_TIMEOUT = 300
KNOWLEDGE, SMOKE, EVALUATION, APPROVAL, HANDBOOK, EXPORT = (
    f"assistant_{name}"
    for name in ("knowledge_base", "smoke", "evaluation", "approve_baseline", "handbook", "nightly_export")
)
LOADS = ("load_configuration_reference", "upload_guides")
EXPORTS = ("export_statistics", "export_limits", "export_feedback", "export_requests", "export_loads")
COUNTS = ("rows", "created", "unchanged", "changed", "stale", "deleted", "rejected", "failed", "requests")


class DemoError(Exception):
    """Raised when the demo fails."""


def check(is_right: Any, problem: str) -> None:
    """Raise an error unless what was seen is right."""
    if not is_right:
        raise DemoError(problem)


class Screen:
    """Lines and tables on the terminal, without the API key."""

    def __init__(self) -> None:
        self._console = Console(highlight=False, soft_wrap=True, width=None if sys.stdout.isatty() else 110)
        self._start, self.secret = time.monotonic(), ""

    def _clean(self, value: Any) -> str:
        text = str(value)
        return escape(text.replace(self.secret, "***") if self.secret else text)

    def say(self, text: str) -> None:
        """Print a line with the seconds since the start."""
        self._console.print(f"[dim]{time.monotonic() - self._start:6.1f} s[/]  {self._clean(text)}")

    def show(self, title: str, text: str = "", columns: Sequence[str] = (), rows: Iterable[Sequence[Any]] = ()) -> None:
        """Print a heading, a text and a table."""
        self._console.print(f"\n[bold]{self._clean(title)}[/]\n{self._clean(text)}".rstrip())
        if columns:
            table = Table(*columns, box=SIMPLE, header_style="bold")
            for row in rows:
                table.add_row(*(self._clean(cell)[:60] for cell in row))
            self._console.print(table, soft_wrap=False)


class Demo:
    """One demo on one Airflow."""

    def __init__(self, home: Path, screen: Screen, airflow: LiveAirflow, service: AssistantService) -> None:
        self.home, self.screen, self.airflow, self.service = home, screen, airflow, service
        self.runs: dict[str, str] = {}
        self.states: defaultdict[tuple[str, str], list[str]] = defaultdict(list)

    def run(self, *, degraded: bool) -> None:
        """Run the DAGs, and show and check their results."""
        self.run_dags(KNOWLEDGE)  # questions need the documents
        self.run_dags(SMOKE)
        self.show_answers()
        self.run_dags(EVALUATION, APPROVAL)
        self.show_evaluation()
        self.load_handbook_twice()
        self.export()
        self.load_knowledge_again()
        if degraded:
            self.degrade()

    # -- running -----------------------------------------------------------------------------------

    def run_dags(self, *dag_ids: str, state: str = "success") -> None:
        """Run DAGs at the same time, and check that they end in a state."""
        for dag_id in dag_ids:
            self.runs[dag_id] = self._start(dag_id)
            self.screen.say(f"{dag_id}: started")
        self.follow(*dag_ids, state=state)

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
        return self._next_run(dag_id)

    def _next_run(self, dag_id: str) -> str:
        self.airflow.unpause(dag_id)
        run = self.airflow.wait(f"a run of {dag_id}", lambda: next(iter(self.airflow.runs(dag_id)), None))
        return run["dag_run_id"]

    def follow(self, *dag_ids: str, state: str = "success") -> None:
        """Tell the states of the tasks of some runs until all of them are over."""
        unfinished, failed = list(dag_ids), []
        deadline = time.monotonic() + RUN_TIMEOUT
        while unfinished:
            check(time.monotonic() < deadline, f"{', '.join(unfinished)}: not over after {RUN_TIMEOUT} s")
            self.airflow.check()
            self.service.check()
            for dag_id in list(unfinished):
                # Read the run first, so that the tasks read afterwards are in their final states.
                run_state = self.airflow.run_state(dag_id, self.runs[dag_id])
                self._tell_changes(dag_id)
                if run_state in RUN_OVER:
                    unfinished.remove(dag_id)
                    self.screen.say(f"{dag_id}: {run_state}")
                    failed += [dag_id] if run_state != state else []
            time.sleep(POLL)
        bad = [task for task, states in self.states.items() if {"failed", "up_for_retry"} & {*states[-1:]}]
        check(not failed, "\n\n".join([f"{', '.join(failed)}: not {state}", *(self._log(*task) for task in bad)]))

    def _tell_changes(self, dag_id: str) -> None:
        for task, state in self.airflow.task_states(dag_id, self.runs[dag_id]).items():
            seen = self.states[dag_id, task]
            if state not in (None, "scheduled", "queued", *seen[-1:]):
                seen.append(state)
                self.screen.say(f"{dag_id}.{task}: {state}")
                if (dag_id, task) == (APPROVAL, "approve") and state in WAITING:
                    self.airflow.answer(dag_id, self.runs[dag_id], task, "Approve")
                    self.screen.say("the demo approves through the REST API, as a person does in the UI")

    def _log(self, dag_id: str, task: str) -> str:
        task_id, _, index = task.rstrip("]").partition("[")
        log = self.airflow.task_log(dag_id, self.runs[dag_id], task_id, map_index=int(index or -1))
        return "\n".join([f"{dag_id}.{task}, the end of its log:", *log.splitlines()[-30:]])

    def result(self, dag_id: str, task_id: str) -> Any:
        """Return what a task has returned."""
        value = self.airflow.xcom(dag_id, self.runs[dag_id], task_id)
        check(value, f"{dag_id}.{task_id} returned nothing")
        return value

    # -- showing -----------------------------------------------------------------------------------

    def show_answers(self) -> None:
        """Show an answer, and one that was awaited in the triggerer."""
        answer = self.result(SMOKE, "sync_chat")
        self.screen.show("An answer", answer["text"])
        waiting = self.result(SMOKE, "wait_for_answer")
        states = " → ".join(self.states[SMOKE, "wait_for_answer"])
        self.screen.show(f"An asynchronous answer: {states}", waiting["text"])

    def show_evaluation(self) -> None:
        """Show the evaluation, the ratings and the approved baseline."""
        head, rated = self.result(EVALUATION, "evaluate"), self.result(EVALUATION, "rate")
        shares = {"coverage": head["coverage"], "pass rate": head["pass_rate"], **head["means"]}
        rows = [["" if share is None else f"{share:.3f}" for share in shares.values()]]
        title = f"The evaluation of {head['questions']} questions: {head['verdict']}"
        self.screen.show(title, head["report_path"], [*shares], rows)
        check(head["verdict"] == "passed", f"the gate: {head['failed_rules']}")
        check("</html>" in local(head["report_path"]).read_text(encoding="utf-8"), "the report is not complete")
        ends = ("sent", "already_sent", "not_rated", "not_answered", "failed")
        self.screen.show("Its answers, rated by rule", "", ends, [[rated[end] for end in ends]])
        check(rated["sent"] and head["questions"] == sum(rated[end] for end in ends), "the ratings do not add up")
        approved = self.airflow.request("GET", "/api/v2/variables/assistant_baseline")["value"]
        self.screen.show("The approved baseline, in the Variable assistant_baseline", approved)
        check(approved == self.result(APPROVAL, "evaluate")["summary_path"], "another baseline was approved")

    def load_handbook_twice(self) -> None:
        """Load a handbook, edit it, and load it again: the site equals the folder."""
        loads = []
        for edit in (None, handbook.edit):
            if edit:
                edit(self.home / "handbook")
            self.run_dags(HANDBOOK)
            loads.append(self.result(HANDBOOK, "load"))
        rows = [[load[count] for count in COUNTS] for load in loads]
        self.screen.show("A handbook in chunks, and after three edits", "\n".join(handbook.EDITS), COUNTS, rows)
        documents, chunks = self.service.documents(), self.home / "lake" / "handbook" / "chunks.parquet"
        problem = handbook.problem_of(*loads)
        problem = problem or handbook.difference(documents, chunks)
        check(not problem, str(problem))

    def export(self) -> None:
        """Show the datasets and the warehouse."""
        import duckdb
        import pyarrow.parquet as pq

        self.run_dags(EXPORT)
        rows = []
        for task in EXPORTS:
            exported = self.result(EXPORT, task)
            count = pq.read_table(local(exported["path"])).num_rows
            check(count == exported["rows"], f"{task} wrote {exported['rows']} rows, {count} are there")
            rows.append([task, count, local(exported["path"]).relative_to(self.home)])
        self.screen.show("Rows of the exports, read back", "", ["task", "rows", "file"], rows)
        view = "assistant.feedback_daily"
        with duckdb.connect(str(self.home / "warehouse.duckdb"), read_only=True) as connection:
            table = connection.table(view).to_arrow_table()
        found = [list(map(str, row.values())) for row in table.to_pylist()]
        self.screen.show(f"The warehouse, view {view}", "", table.column_names, found)
        check(found and self.result(EXPORT, "summarise")["statistics"], "a view without a row")

    def load_knowledge_again(self) -> None:
        """Load the knowledge base a second time: nothing is sent."""
        loads = {("first run", task): self.result(KNOWLEDGE, task) for task in LOADS}
        self.run_dags(KNOWLEDGE)
        loads |= {("second run", task): self.result(KNOWLEDGE, task) for task in LOADS}
        counts = [name for name in COUNTS if all(name in load for load in loads.values())]
        rows = [[*which, *(load[name] for name in counts)] for which, load in loads.items()]
        self.screen.show("Knowledge base: each row once, however often the DAG runs", "", ["", "task", *counts], rows)
        for (run, task), load in loads.items():
            if run == "first run":
                check(load["created"] == load["rows"], f"{task}: documents failed to load")
            else:
                check(load["requests"] == 0, f"{task}: the second run sent rows that were on the site already")

    def degrade(self) -> None:
        """Delete two thirds of the documents at the service: the evaluation fails."""
        documents = [document["id"] for document in self.service.documents()]
        lost = [document_id for number, document_id in enumerate(documents) if number % 3]
        url = f"{self.service.base_url}/m2m/sites/{self.service.site_id}/documents/bulk-delete"
        with local_client(headers={"X-API-Key": self.service.api_key}) as client:
            for start in range(0, len(lost), 100):
                client.post(url, json={"document_ids": lost[start : start + 100]}).raise_for_status()
        self.screen.say("the service has lost two thirds of its documents")
        self.run_dags(EVALUATION, state="failed")
        head = self.result(EVALUATION, "evaluate")
        rules = "\n".join(f"- {rule['rule']}: {rule['reason']}" for rule in head["failed_rules"])
        self.screen.show(f"The evaluation of the worse answers: {head['verdict']}", f"{rules}\n{head['report_path']}")
        check(head["verdict"] == "failed", "the gate did not notice that documents were lost")

    def look_for_key(self) -> None:
        """Fail if the service's key is in any file of the demo, but for the service's own data."""
        key, found = self.service.api_key.encode(), []
        for path in self.home.rglob("*"):
            if path.is_file() and self.service.home not in path.parents:
                with suppress(FileNotFoundError):  # Airflow is still running
                    found += [str(path)] if key in path.read_bytes() else []
        check(not found, "the API key is in " + ", ".join(found))
        self.screen.show("The API key is in no log and no file of Airflow's.")


def local(url: str) -> Path:
    """Return the path of a local file."""
    return Path(unquote(urlsplit(url).path) if "://" in url else url)


def demonstrate(home: Path, screen: Screen, options: argparse.Namespace) -> int:
    """Start everything, run the demo, and end everything; return 0 on success."""
    with ExitStack() as stack:
        service = stack.enter_context(AssistantService(home / "service", processing_seconds=THINKING))
        screen.secret = service.api_key
        # The example DAG of the handbook deletes outdated documents.
        service.connection["extra"]["manage_documents"] = True
        screen.say(f"service: {service.base_url}; Airflow is starting")
        handbook.write(home / "handbook")
        lake = (home / "lake").as_uri()
        places = {"LAKE": lake, "WAREHOUSE": str(home / "warehouse.duckdb"), "HANDBOOK": str(home / "handbook")}
        env = {f"AIRFLOW_VAR_ASSISTANT_{name}": place for name, place in places.items()}
        env |= {**service.env, "AIRFLOW__ASSISTANT__LAKE_PATH": lake}
        airflow = stack.enter_context(LiveAirflow(home / "airflow", ROOT / "dags", env))
        screen.say(f"Airflow: {airflow.base_url}")
        demo, problems = Demo(home, screen, airflow, service), []
        # The key is looked for in any case: errors are the most likely place for a leak.
        for part in (lambda: demo.run(degraded=options.degraded), demo.look_for_key):
            try:
                part()
            except DemoError as error:
                problems.append(error)
                screen.say(str(error))
        if options.keep:
            keep(home, screen, airflow, service)
        screen.say("ending every process")
    return 1 if problems else 0


def keep(home: Path, screen: Screen, airflow: LiveAirflow, service: AssistantService) -> None:
    """Lose the response to one document, print the addresses, and keep everything running until Ctrl-C."""
    path = home / "lost_response.csv"
    with path.open("w", encoding="utf-8") as file:
        csv.writer(file).writerows([["title", "question", "answer"], ["Hours", "When is it open?", "From 9 to 5."]])
    service.faults(rules=[{"action": "store-then-drop", "path": "documents/qa"}])
    options = ["--key", "title", "--on-ambiguous", "skip"]
    command = [sys.executable, "-m", "airflow", "assistant", "load", str(path), *options]
    subprocess.run(command, env=airflow.env, cwd=home, capture_output=True, timeout=RUN_TIMEOUT, check=False)
    service.faults(rules=[])
    places = {
        "start here": f"{airflow.base_url}/plugin/assistant",
        "user": airflow.user,
        "password": airflow.password,
        "service": service.base_url,
        "files": home,
    }
    screen.show("Airflow and the service run until Ctrl-C", "", ["", ""], places.items())
    screen.say("the response to one document was lost on purpose: settle it on the page")
    while True:
        airflow.check()
        service.check()
        time.sleep(POLL)


def _end(number: int, _: Any) -> None:
    raise SystemExit(128 + number)


def main() -> int:
    """Run the demo; return 0 on success."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep", action="store_true", help="leave everything running until Ctrl-C")
    parser.add_argument("--degraded", action="store_true", help="let the service lose documents in the end")
    parser.add_argument("--home", type=Path, default=ROOT / ".demo", help="emptied, then written to")
    options = parser.parse_args()
    home, screen = options.home.resolve(), Screen()
    if home.exists() and any(home.iterdir()) and not (home / "lake").is_dir():
        parser.error(f"{home} is not empty and not from a demo")
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _end)
    shutil.rmtree(home, ignore_errors=True)
    (home / "lake").mkdir(parents=True)
    try:
        return demonstrate(home, screen, options)
    except NotReadyError as error:
        screen.say(str(error))
        return 1
    except KeyboardInterrupt:
        return 0 if options.keep else 130


if __name__ == "__main__":
    sys.exit(main())
