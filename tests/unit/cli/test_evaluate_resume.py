"""Answers of the evaluate command are kept as they arrive, and no question is asked twice."""

from __future__ import annotations

import errno
import os
import re
import signal
import threading

import airflow.configuration
import pyarrow.parquet as pq
import pytest

from airflow_provider_assistant.__main__ import parser
from airflow_provider_assistant.asking.batch import Batch
from airflow_provider_assistant.cli import evaluate as module
from airflow_provider_assistant.evaluation.judging import judging
from airflow_provider_assistant.sending import sender
from tests.live.process import wait_for
from tests.processes import processes

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


def when(condition, act):
    """Act in a thread as soon as a condition holds."""

    def run():
        wait_for("the condition", condition, timeout=120, interval=0.01)
        act()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def asked(service):
    """Return the keys of the questions that the service got, in order."""
    return [re.search(r"about (\w+)", row["message"])[1] for row in service.chats()]


def kept_folder(ran):
    return re.search(r"[Kk]ept in ([^:\n]+?)(?:: |\.? *$)", ran.err, re.MULTILINE)[1]


@pytest.mark.promise("evaluation", "An evaluation that was interrupted resumes without asking a question twice.")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_keeps_the_requests_and_resume_polls_only_those(evaluate, service, number, code, tmp_path):
    service.behave(processing_seconds=3600)
    saved = ("--save", tmp_path / "out") if number == signal.SIGTERM else ()
    killer = when(lambda: len(service.journal("GET", "chat/requests/")) > 5, lambda: os.kill(os.getpid(), number))
    ran = evaluate(*saved)
    killer.join()
    assert ran.code == code
    assert "0 answers, 5 open requests. The same command with --resume" in ran.err
    assert kept_folder(ran).startswith(str(tmp_path / ("out" if saved else "airflow-home")))
    service.behave(processing_seconds=0, rules=[{"action": "status:401", "path": "chat/async", "times": None}])
    # The same command asks everything, and leaves what was kept if it cannot.
    assert evaluate(*saved).code == 2
    ran = evaluate(*saved, "--resume", "-o", "json")
    assert (ran.code, ran.json["answered"]) == (0, 5), ran.err
    assert sorted(asked(service)) == sorted(KEYS)
    assert not (tmp_path / "out" / "unfinished").exists()
    assert not list((tmp_path / "airflow-home").glob("assistant_evaluations/*"))


def test_only_questions_without_an_answer_are_asked_again(evaluate, service):
    service.behave(fail_messages="moon|price")
    ran = evaluate()
    assert ran.code == 0
    assert "2 questions without an answer. The same command with --resume asks only these" in ran.err
    service.behave(fail_messages=None)
    other = evaluate("--mode", "sync", "--resume")
    assert (other.code, "was started with --mode async, not sync" in other.err) == (2, True)
    ran = evaluate("--resume", "-o", "json")
    assert (ran.code, ran.json["answered"], sorted(asked(service)[5:])) == (0, 5, ["moon", "price"])
    # Nothing is left to resume, so that all questions are asked.
    again = evaluate("--resume")
    assert (again.code, len(asked(service))) == (0, 12)
    assert "there is no unfinished run" in again.err


def test_sync_answers_are_kept_one_by_one(evaluate, service, tmp_path, monkeypatch):
    monkeypatch.setattr(sender, "GRACE", 0.1)
    service.answer("hold", path="/chat$", body="moon", times=None)
    saved = ("--mode", "sync", "--save", tmp_path / "out")
    killer = when(lambda: len(asked(service)) == 4, lambda: os.kill(os.getpid(), signal.SIGINT))
    ran = evaluate(*saved)
    killer.join()
    service.behave(rules=[])
    assert (ran.code, "4 answers. The same" in ran.err) == (130, True), ran.err
    ran = evaluate(*saved, "--resume", "-o", "json")
    assert (ran.code, ran.json["answered"]) == (0, 5), ran.err
    # It is not known whether the service got the request that was cancelled.
    assert set(asked(service)[4:]) == {"moon"}
    assert pq.read_table(tmp_path / "out" / "answers.parquet")["key"].to_pylist() == list(KEYS)


def test_a_judge_that_is_down_loses_neither_answers_nor_verdicts(judged, judge, service, tmp_path):
    saved = ("--save", tmp_path / "out")
    # The judge gives two verdicts, and then refuses the key.
    judge.fault = lambda number, text: 403 if number > 1 else None
    ran = judged(*saved)
    assert ran.code == 2
    assert "5 answers" in ran.err
    assert "The same command with --resume" in ran.err
    judge.fault = lambda number, text: None
    ran = judged(*saved, "--resume", "-o", "json")
    assert (ran.code, list(ran.json["means"])) == (0, ["judge.correctness"]), ran.err
    assert sorted(asked(service)) == sorted(KEYS)
    assert judge.statuses.count(200) == 5


def test_a_signal_while_the_judge_is_asked_loses_nothing(judged, judge, service, monkeypatch):
    monkeypatch.setattr(judging, "GRACE", 0.1)
    judge.fault = lambda number, text: "hold" if number > 2 else None
    killer = when(lambda: len(judge.asked) == 4, lambda: os.kill(os.getpid(), signal.SIGTERM))
    ran = judged()
    killer.join()
    assert (ran.code, "5 answers, the verdicts of the judges" in ran.err) == (143, True), ran.err
    judge.fault = lambda number, text: None
    ran = judged("--resume", "-o", "json")
    assert (ran.code, len(asked(service)), len(judge.asked)) == (0, 5, 6), ran.err


def test_a_signal_before_the_judge_is_asked_sends_it_nothing(judged, judge, monkeypatch):
    def interrupted(_file):
        os.kill(os.getpid(), signal.SIGINT)
        return {}

    monkeypatch.setattr("airflow_provider_assistant.operators.judging._saved_verdicts", interrupted)
    ran = judged()
    assert (ran.code, len(judge.asked), "5 answers" in ran.err) == (130, 0, True), ran.err


def test_requests_that_timed_out_are_polled_again(evaluate, service):
    service.behave(processing_seconds=3600)
    ran = evaluate("--timeout", "0.2")
    assert (ran.code, "0 answers, 5 open requests" in ran.err) == (2, True), ran.err
    service.behave(processing_seconds=0)
    ran = evaluate("--resume", "-o", "json")
    assert (ran.code, ran.json["answered"], len(asked(service))) == (0, 5, 5), ran.err


def test_a_report_that_cannot_be_written_loses_nothing(evaluate, golden, service, monkeypatch, tmp_path):
    def full(*_, **_options):
        raise OSError(errno.ENOSPC, "No space left on device")

    report = tmp_path / "new" / "folder" / "out.html"
    with monkeypatch.context() as patched:
        patched.setattr(module, "render", full)
        ran = evaluate("--report", report)
    assert (ran.code, "No space left" in ran.err, "5 answers" in ran.err) == (2, True, True)
    # Corrected expectations count, and a question with another text is asked again.
    lines = golden.read_text().replace("All about hours.", "").replace("What about price?", "What about the costs?")
    golden.write_text(lines)
    ran = evaluate("--report", report, "--resume", "-o", "json")
    assert (ran.code, asked(service)[5:], report.exists()) == (0, ["the"], True), ran.err
    assert ran.json["answered"] == 5


def test_a_signal_before_the_first_request_sends_none(evaluate, service, monkeypatch):
    prepare = ChatBatch.submit

    def interrupted(batch, questions, turn):
        os.kill(os.getpid(), signal.SIGINT)
        prepare(batch, questions, turn)

    with monkeypatch.context() as patched:
        patched.setattr(ChatBatch, "submit", interrupted)
        ran = evaluate()
    assert (ran.code, ran.err.split()) == (130, ["Interrupted."])
    assert not service.posts()


def test_both_sites_are_resumed(evaluate, service):
    service.answer("status:404", path="sites/acme-shop/", times=None)
    assert evaluate("--against-site", "acme-shop").code == 2
    service.behave(rules=[])
    ran = evaluate("--against-site", "acme-shop", "--resume", "-o", "json")
    assert (ran.code, ran.json["comparison"]["token_f1"]["paired"]) == (0, 5), ran.err
    sites = [row["site"] for row in service.chats()]
    assert sorted(sites) == ["acme-docs"] * 5 + ["acme-shop"] * 5


def test_a_complete_evaluation_is_not_asked_again_by_resume(evaluate, service, tmp_path):
    assert evaluate("--save", tmp_path / "out").code == 0
    ran = evaluate("--save", tmp_path / "out", "--resume")
    assert (ran.code, len(asked(service))) == (2, 5)
    assert "is complete" in ran.err
    assert "--answers" in ran.err


def _killed(argv, environment, home):
    os.environ.update(environment)
    airflow.configuration.AIRFLOW_HOME = home
    args = parser().parse_args(argv)
    args.func(args)


def test_a_killed_run_is_resumed_at_once(evaluate, golden, service, ledger_home):
    """The lease of a killed process would hide its question for a minute."""
    service.behave(processing_seconds=3600)
    service.answer("hold", path="chat/async$", body="moon", times=None)
    environment = {name: value for name, value in os.environ.items() if name.startswith("AIRFLOW_CONN_")}
    argv = ["evaluate", str(golden), "--poll-interval", "0.05"]
    process = processes.Process(target=_killed, args=(argv, environment, str(ledger_home)))
    process.start()
    wait_for("four questions", lambda: len(asked(service)) == 4, timeout=120)
    other = evaluate("--resume")
    assert (other.code, "another process is running this evaluation" in other.err) == (2, True)
    process.kill()
    process.join()
    service.behave(processing_seconds=0, rules=[])
    ran = evaluate("--resume", "-o", "json")
    assert (ran.code, ran.json["answered"]) == (0, 5), ran.err
    assert "moon" in asked(service)[4:]
