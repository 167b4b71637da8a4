"""The demo: the example DAGs on a real Airflow against the embedded service.

Run as ``python -m tests.live.demo``; with ``--keep``, Airflow and the service stay until Ctrl-C; with ``--degraded``,
the service's answers become worse at the end, and the evaluation detects it.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from tests.live import comparison, handbook
from tests.live.airflow import LiveAirflow
from tests.live.example_dags import RUN_TIMEOUT, Demo, DemoError, handbook_of, lake, warehouse
from tests.live.process import POLL, NotReadyError, processes_in
from tests.live.screen import Screen
from tests.live.service import AssistantService

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType

ROOT = Path(__file__).parents[2]

# Long enough to observe that a task defers while it waits for an answer.
THINKING = 4
# Days in the service's statistics.
HISTORY = 30


def demonstrate(home: Path, dags: Path, screen: Screen, *, stay: bool, degraded: bool) -> int:
    """Start all components, run the demo and stop all components; return 0 on success."""
    code = 0
    with ExitStack() as stack:
        try:
            service = stack.enter_context(
                AssistantService(home / "service", processing_seconds=THINKING, history=HISTORY)
            )
            screen.hide(service.api_key)
            # The example DAG of the handbook deletes outdated documents.
            service.connection["extra"]["manage_documents"] = True
            screen.say(f"service: {service.base_url}")
            screen.say(f"it generates {HISTORY - 1} days of statistics before today (--history {HISTORY})")
            handbook.write(handbook_of(home))
            places = {
                "LAKE": lake(home).as_uri(),
                "WAREHOUSE": str(warehouse(home)),
                "HANDBOOK": str(handbook_of(home)),
            }
            env = {**service.env, **{f"AIRFLOW_VAR_ASSISTANT_{name}": place for name, place in places.items()}}
            env["AIRFLOW__ASSISTANT__LAKE_PATH"] = places["LAKE"]
            env["AIRFLOW_VAR_ASSISTANT_STAGING_SITE"] = comparison.STAGING
            airflow = LiveAirflow(home / "airflow", dags, env)
            screen.say("Airflow is starting")
            with screen.busy("Airflow is starting"):
                stack.enter_context(airflow)
            screen.say(f"Airflow: {airflow.base_url}")
            try:
                Demo(home, screen, airflow, service, degraded=degraded).run()
            except DemoError as error:
                screen.say(str(error), "red")
                code = 1
            if stay:
                keep(home, screen, airflow, service)
        except NotReadyError as error:
            screen.say(str(error), "red")
            code = 1
        finally:
            screen.say("ending every process")
    return code


def load_ambiguously(home: Path, screen: Screen, airflow: LiveAirflow, service: AssistantService) -> None:
    """Load a document whose response is lost, so that the page has something to settle."""
    rows = home / "lost_response.csv"
    rows.write_text("title,question,answer\nOpening hours,When is the office open?,From 9 to 5.\n", encoding="utf-8")
    service.faults(rules=[{"action": "store-then-drop", "match": {"path": "documents/qa"}}])
    options = ["--key", "title", "--on-ambiguous", "skip"]
    command = [sys.executable, "-m", "airflow", "assistant", "load", str(rows), *options]
    subprocess.run(command, env=airflow.env, cwd=home, capture_output=True, timeout=RUN_TIMEOUT, check=False)
    service.faults(rules=[])
    screen.say("the response to one document was lost on purpose: settle it on the page", "bold")


def keep(home: Path, screen: Screen, airflow: LiveAirflow, service: AssistantService) -> None:
    """Print the URLs and paths, and keep everything running until Ctrl-C."""
    load_ambiguously(home, screen, airflow, service)
    screen.show("Airflow and the service are running")
    places = [
        ("start here", f"{airflow.base_url}/plugin/assistant"),
        ("Airflow", airflow.base_url),
        ("user", airflow.user),
        ("password", airflow.password),
        ("service", service.base_url),
        ("files", str(home)),
    ]
    screen.table(["", ""], places)
    screen.show("They run until Ctrl-C, which ends every process; the files stay until the next demo.")
    while True:
        airflow.check()
        service.check()
        time.sleep(POLL)


def _end(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo; return 0 on success."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep", action="store_true", help="leave everything running until Ctrl-C")
    parser.add_argument("--degraded", action="store_true", help="let the service get worse in the end")
    parser.add_argument("--home", type=Path, default=ROOT / ".demo", help="emptied, then written to")
    parser.add_argument("--dags", type=Path, default=ROOT / "dags", help="folder of the DAGs")
    options = parser.parse_args(arguments)
    home = options.home.resolve()
    screen = Screen()
    if home.exists() and any(home.iterdir()) and not lake(home).is_dir():
        parser.error(f"{home} is not empty and not from a demo")
    if busy := processes_in(home):
        pids = ", ".join(str(process.pid) for process in busy)
        screen.say(f"{home} is in use by the processes {pids}", "red")
        return 1
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _end)
    shutil.rmtree(home, ignore_errors=True)
    lake(home).mkdir(parents=True)
    try:
        return demonstrate(home, options.dags, screen, stay=options.keep, degraded=options.degraded)
    except KeyboardInterrupt:
        return 0 if options.keep else 130
    finally:
        screen.say("every process has ended")
        screen.show("", "\n".join(screen.last_words))


if __name__ == "__main__":
    sys.exit(main())
