"""The evaluate command goes on after an interruption by itself, and asks no question twice."""

from __future__ import annotations

import os
import re
import signal

import airflow.configuration
import pytest

from airflow_provider_assistant.__main__ import parser
from airflow_provider_assistant.cli.unfinished import TOO_OLD, unfinished_run
from airflow_provider_assistant.exceptions import AssistantInputError
from tests.live.process import wait_for
from tests.processes import processes
from tests.unit.cli.conftest import when

KEYS = ("refunds", "hours", "moon", "price", "parking")


@pytest.fixture
def golden(tmp_path):
    path = tmp_path / "golden.csv"
    path.write_text("key,message,expected\n" + "".join(f"{key},What about {key}?,All about {key}.\n" for key in KEYS))
    return path


@pytest.fixture
def evaluate(cli, golden, connection):
    return lambda *argv: cli("evaluate", golden, "--poll-interval", "0.05", "--timeout", "60", *argv)


@pytest.fixture
def judged(evaluate, judge, tmp_path):
    """Return a function that evaluates with a judge, which is asked about one answer after the other."""
    gate = tmp_path / "gate.yaml"
    gate.write_text("scorers: [judge.correctness]\njudge: {conn_id: judge, max_concurrency: 1}\n")
    return lambda *argv: evaluate("--gate", gate, *argv)


def asked(service):
    """Return the keys of the questions that the service got, in order."""
    return [re.search(r"about (\w+)", row["message"])[1] for row in service.chats()]


@pytest.mark.promise("evaluation", "An evaluation that was interrupted goes on without asking a question twice.")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_after_a_signal_the_same_command_polls_what_was_sent(evaluate, service, number, tmp_path):
    service.behave(processing_seconds=3600)
    saved = ("--save", tmp_path / "out") if number == signal.SIGTERM else ()
    killer = when(lambda: len(service.journal("GET", "chat/requests/")) > 5, lambda: os.kill(os.getpid(), number))
    ran = evaluate(*saved)
    killer.join()
    assert ran.code == 130
    kept = re.search(r"are kept in (\S+): the same command goes on", ran.err)[1]
    assert kept.startswith(str(tmp_path / ("out" if saved else "airflow-home")))
    service.behave(processing_seconds=0, rules=[{"action": "status:401", "path": "chat/async", "times": None}])
    ran = evaluate(*saved)
    assert (ran.code, "Going on with the interrupted run in" in ran.err) == (0, True), ran.err
    assert ran.out.splitlines()[-1].startswith("not judged: golden, 5 of 5 answered")
    assert sorted(asked(service)) == sorted(KEYS)
    assert not (tmp_path / "out" / "unfinished").exists()
    assert not list((tmp_path / "airflow-home").glob("assistant_evaluations/*"))


def test_requests_that_timed_out_are_polled_again_by_the_same_arguments(evaluate, service):
    service.behave(processing_seconds=3600)
    ran = evaluate("--timeout", "0.2")
    assert (ran.code, "the same command goes on" in ran.err) == (2, True), ran.err
    service.behave(processing_seconds=0)
    ran = evaluate("-o", "json")
    assert (ran.code, ran.json["answered"], len(asked(service))) == (0, 5, 5), ran.err
    assert evaluate("--repeat", "2", "--mode", "sync").code == 0
    assert len(asked(service)) == 15


def test_a_judge_that_is_down_loses_neither_answers_nor_verdicts(judged, judge, service, tmp_path):
    saved = ("--save", tmp_path / "out")
    # The judge gives two verdicts, and then refuses the key.
    judge.fault = lambda number, text: 403 if number > 1 else None
    ran = judged(*saved)
    assert ran.code == 2
    assert "Answers and verdicts so far are kept" in ran.err
    judge.fault = lambda number, text: None
    ran = judged(*saved, "-o", "json")
    assert (ran.code, list(ran.json["means"])) == (0, ["judge.correctness"]), ran.err
    assert sorted(asked(service)) == sorted(KEYS)
    assert judge.statuses.count(200) == 5


def test_a_signal_while_the_judge_is_asked_loses_nothing(judged, judge, service):
    judge.fault = lambda number, text: "hold" if number > 2 else None
    killer = when(lambda: len(judge.asked) == 4, lambda: os.kill(os.getpid(), signal.SIGTERM))
    ran = judged()
    killer.join()
    assert ran.code == 130, ran.err
    judge.fault = lambda number, text: None
    ran = judged("-o", "json")
    assert (ran.code, len(asked(service)), len(judge.asked)) == (0, 5, 6), ran.err


def test_an_old_interruption_is_forgotten(tmp_path):
    """Its answers are those of another assistant by then."""
    folder = tmp_path / "run"
    with unfinished_run(folder) as first:
        (folder / "answers.parquet").write_text("x")
    begun = (folder / "id").stat().st_mtime
    with unfinished_run(folder, now=begun + TOO_OLD - 1) as second:
        assert (second.id, second.is_resumed) == (first.id, True)
    with unfinished_run(folder, now=begun + TOO_OLD + 1) as third:
        assert (third.id != first.id, third.is_resumed) == (True, False)
        assert not (folder / "answers.parquet").exists()
        with pytest.raises(AssistantInputError, match="another process"), unfinished_run(folder):
            pass
        third.is_complete = True
    assert not folder.exists()


def _killed(argv, environment, home):
    os.environ.update(environment)
    airflow.configuration.AIRFLOW_HOME = home
    args = parser().parse_args(argv)
    args.func(args)


def test_a_killed_run_goes_on_at_once(evaluate, golden, service, ledger_home):
    """The lease of a killed process would hide its question for a minute."""
    service.behave(processing_seconds=3600)
    service.answer("hold", path="chat/async$", body="moon", times=None)
    environment = {name: value for name, value in os.environ.items() if name.startswith("AIRFLOW_CONN_")}
    argv = ["evaluate", str(golden), "--poll-interval", "0.05", "--timeout", "60"]
    process = processes.Process(target=_killed, args=(argv, environment, str(ledger_home)))
    process.start()
    wait_for("four questions", lambda: len(asked(service)) == 4, timeout=120)
    other = evaluate()
    assert (other.code, "another process is running this evaluation" in other.err) == (2, True)
    process.kill()
    process.join()
    service.behave(processing_seconds=0, rules=[])
    ran = evaluate("-o", "json")
    assert (ran.code, ran.json["answered"]) == (0, 5), ran.err
    assert "moon" in asked(service)[4:]
