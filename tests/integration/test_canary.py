"""The API key appears in no log, no output and no file."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import logging
import pickle
import random
import sqlite3
import traceback
from urllib.parse import quote

import pytest

from airflow_provider_assistant.client.defaults import ClientDefaults, set_client_defaults
from airflow_provider_assistant.hooks.assistant import AssistantHook
from airflow_provider_assistant.operators.chat import (
    AssistantChatOperator,
)
from airflow_provider_assistant.operators.chat_batch import AssistantChatBatchOperator
from airflow_provider_assistant.operators.documents import (
    AssistantLoadQAOperator,
    AssistantUploadFilesOperator,
)
from airflow_provider_assistant.operators.evaluation import AssistantEvaluateOperator
from airflow_provider_assistant.operators.feedback_batch import AssistantRateAnswersOperator
from airflow_provider_assistant.operators.limits import AssistantLimitsOperator
from airflow_provider_assistant.operators.submit_chat import AssistantSubmitChatOperator
from airflow_provider_assistant.sensors.chat import AssistantChatRequestSensor
from airflow_provider_assistant.transfers.ledger_to_parquet import AssistantRequestsToParquetOperator
from airflow_provider_assistant.transfers.limits_to_parquet import AssistantLimitsToParquetOperator
from airflow_provider_assistant.transfers.statistics_to_parquet import (
    AssistantStatisticsToParquetOperator,
)
from tests import proxies
from tests.judge import Judge
from tests.system.search import places


@pytest.fixture
def outputs(capfd, caplog):
    """Return all text in logs, standard output and standard error."""
    caplog.set_level(logging.DEBUG)

    def read() -> str:
        out, err = capfd.readouterr()
        return f"{out}{err}{caplog.text}"

    return read


def in_files(canary, *folders):
    return [path for folder in folders for path in folder.rglob("*") if path.is_file() and canary in path.read_bytes()]


def everything_about(error):
    chain = []
    while error is not None:
        chain += [str(error), repr(error), repr(vars(error)), "".join(traceback.format_exception(error))]
        chain.append(repr(pickle.dumps(error)))
        error = error.__cause__ or error.__context__
    return "\n".join(chain)


FAILURES = {
    "401": {"key": "canary-wrong-3b8e0c77aa"},
    "403": {"action": "status:403"},
    "500": {"action": "status:500"},
    "html": {"action": "status:502"},
    "drop": {"action": "drop"},
    "truncate": {"action": "truncate"},
    "429": {"action": "retry-after:3600"},
}


@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("operator", [AssistantLimitsOperator, AssistantChatOperator])
def test_no_key_after_failures(failure, operator, canary, connect, service, run_operator, tmp_path, outputs):
    key = FAILURES[failure].get("key", canary)
    connect(key=key)
    if action := FAILURES[failure].get("action"):
        service.answer(action, times=None)
    arguments = {} if operator is AssistantLimitsOperator else {"session_id": "s", "message": "m"}
    run = run_operator(operator, **arguments)
    assert run.state == "failed"
    assert key not in everything_about(run.error)
    assert key not in outputs()
    assert key not in repr(run.xcoms())
    assert in_files(key.encode(), tmp_path) == []


def test_the_representation_of_objects_hides_the_key(canary, connect):
    hook = AssistantHook()
    with hook.client as client:
        hook.get_limits()
        for thing in (hook, hook.settings, hook.settings.client, client, client.settings):
            assert canary not in f"{thing!r} {thing!s}"


JUDGE_KEY = "canary-judge-51b0c7d2e9"
PASSWORD = "canary p@ss/w0rd-8d1f"
TOKEN = base64.b64encode(f"corp:{PASSWORD}".encode()).decode()
ROWS = [{"id": f"r{n}", "title": f"T{n}", "question": "q?", "answer": "a", "category": "c"} for n in range(40)]
OTHER_ROWS = [{**row, "title": f"other {row['title']}", "question": f"{row['id']}?"} for row in ROWS]
QUESTIONS = [{"id": f"q{n}", "message": f"Question {n}?", "expected": "An answer."} for n in range(6)]


@pytest.fixture
def corporate(service, canary, tmp_path_factory, monkeypatch):
    """Return a proxy with credentials, through which alone the service and its judge can be reached."""
    pair = proxies.certificate(tmp_path_factory.mktemp("tls"))
    root, tls = service.server.root.removeprefix("http://"), proxies.server_context(pair)
    with (
        Judge(JUDGE_KEY) as judge,
        proxies.tls_front(root, tls) as front,
        proxies.tls_front(judge.host, tls) as judge_front,
        proxies.RecordingProxy(root, front) as proxy,
    ):
        proxy.others[proxies.NAME] = (judge.host, judge_front)

        def use(scheme, retries=8):
            connection = json.loads(service.server.conn_json(key=canary, retries=retries))
            connection["host"] = f"{scheme}://{proxies.LOCAL_NAME}"
            monkeypatch.setenv("AIRFLOW_CONN_ASSISTANT_DEFAULT", json.dumps(connection))
            model = judge.conn_json(host=f"{scheme}://{proxies.NAME}/v1")
            monkeypatch.setenv("AIRFLOW_CONN_PYDANTICAI_DEFAULT", model)

        monkeypatch.setenv("SSL_CERT_FILE", str(pair[0]))
        for name in ("HTTP_PROXY", "HTTPS_PROXY"):
            monkeypatch.setenv(name, f"corp:{quote(PASSWORD, safe='')}@{proxy.host}")
        for name in ("NO_PROXY", "no_proxy", "http_proxy", "https_proxy"):
            monkeypatch.delenv(name, raising=False)
        proxy.use = use
        yield proxy


def a_night(run, folder):
    """Load, upload, ask, evaluate with a judge, rate, export, and wait in the triggerer."""
    folder.mkdir()
    (folder / "handbook.txt").write_text("A handbook.")
    answers, lake = str(folder / "answers.parquet"), str(folder / "lake")
    run(AssistantLoadQAOperator, source=ROWS, findings_path=str(folder / "findings.parquet"), lake_path=lake)
    run(AssistantUploadFilesOperator, files=str(folder / "handbook.txt"), lake_path=lake)
    run(AssistantChatBatchOperator, source=QUESTIONS, output_path=answers, poll_interval=0.05, lake_path=lake)
    judged = {
        "scorers": ["token_f1", "judge.correctness"],
        "gate": ["token_f1 >= 0.1"],
        "on_fail": "report",
        "key_columns": "id",
    }
    scored = run(AssistantEvaluateOperator, answers=answers, output_path=str(folder / "run"), **judged)
    scores = scored.xcom()["scores_path"]
    rules = {"bad": "token_f1 < 0.3"}
    run(AssistantRateAnswersOperator, answers=answers, scores=scores, rules=rules)
    run(AssistantLimitsToParquetOperator, output_path=lake)
    run(AssistantStatisticsToParquetOperator, output_path=lake)
    run(AssistantRequestsToParquetOperator, output_path=lake)
    submitted = run(AssistantSubmitChatOperator, session_id="s", message="Question 3?").xcom()
    wait = {"request_id": submitted["request_id"], "poke_interval": 0.05, "deferrable": True}
    run(AssistantChatRequestSensor, **wait)


def outcomes(ledger_home):
    with contextlib.closing(sqlite3.connect(ledger_home / "assistant_ledger.db")) as ledger:
        rows = ledger.execute("SELECT state, count(*) FROM assistant_attempts GROUP BY state")
        return dict(rows.fetchall())


@pytest.mark.promise(
    "security", "The API key and the password of a proxy are in no log, file, XCom or error, whatever fails."
)
def test_a_night_behind_a_proxy_writes_no_secret(
    corporate, canary, service, run_operator, tmp_path, ledger_home, outputs, caplog
):
    """The proxy opens some tunnels, refuses others, repeats what it got, and at last refuses all."""
    for name in ("httpx", "httpcore", "aiohttp", "asyncio"):
        caplog.set_level(logging.DEBUG, name)
    service.behave(allow_duplicates=True)
    rng, shown, states = random.Random(5), [], []
    refusals = [proxies.echoes("407"), proxies.echoes("502"), proxies.says(b"garbage")]

    def run(kind, **arguments):
        done = run_operator(kind, **arguments)
        shown.extend(map(everything_about, done.errors))
        shown.append(repr(done.xcoms()))
        states.append(done.state)
        return done

    no_waits = ClientDefaults(sleep=lambda _: None, asleep=lambda _: asyncio.sleep(0))
    previous = set_client_defaults(no_waits)
    try:
        corporate.use("https")
        # A 407 ends each task at once. Nine refusals of one request in a row do not happen.
        corporate.refuse = lambda: rng.choice(refusals[1:]) if rng.random() < 0.25 else None
        a_night(run, tmp_path / "https")
        assert states.count("success") == len(states)
        corporate.use("https", retries=0)
        corporate.refuse = lambda: rng.choice(refusals)
        before = service.posts()
        run(AssistantLoadQAOperator, source=OTHER_ROWS, findings_path=str(tmp_path / "refused.parquet"))
        assert states[-1] == "failed"
        assert service.posts() == before
        assert outcomes(ledger_home).keys() <= {"created", "failed"}
        for head in corporate.heads:
            own = head.replace(f"Proxy-Authorization: Basic {TOKEN}\n", "")
            assert own != head
            assert not [secret for secret in (canary, JUDGE_KEY, PASSWORD, TOKEN) if secret in own]
        corporate.use("http")
        a_night(run, tmp_path / "http")
        assert states[-9:] == ["success"] * 9
    finally:
        set_client_defaults(previous)
    written = [*shown, outputs(), *(str(record.exc_info) for record in caplog.records)]
    assert any("Question 3?" in text for text in written)
    for secret in (canary, JUDGE_KEY, PASSWORD, quote(PASSWORD, safe=""), TOKEN):
        assert [text[:2000] for text in written if secret in text] == []
    assert places(tmp_path, "Question 3?")
    assert places(tmp_path, canary, JUDGE_KEY, PASSWORD, TOKEN) == set()
