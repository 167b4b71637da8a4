"""The evaluate command: asks a golden set, and exits with the verdict of the gate."""

from __future__ import annotations

from xml.etree import ElementTree

import pyarrow.parquet as pq
import pytest
from junitparser import Failure, JUnitXml

from airflow_provider_assistant.sandbox.messages import DEFAULT_KEY

QUESTIONS = {
    "refunds": ("When are refunds paid?", "Refunds are paid in five days.", "billing"),
    "hours": ("When is the shop open?", "The shop is open from nine to five.", "shop"),
    "moon": ("Who built the moon?", "", "none"),
}
GATE = """
scorers: [token_f1, must_include]
pass_if: token_f1 >= 0.5
gate:
  - coverage >= 0.9
  - token_f1[billing] >= 0.0
"""


@pytest.fixture
def golden(tmp_path):
    path = tmp_path / "golden.csv"
    rows = [f"{key},{message},{expected},{tag}" for key, (message, expected, tag) in QUESTIONS.items()]
    path.write_text("\n".join(["key,message,expected,tags", *rows]) + "\n")
    return path


@pytest.fixture
def gate(tmp_path):
    def written(text=GATE):
        path = tmp_path / "gate.yaml"
        path.write_text(text)
        return path

    return written


@pytest.fixture
def evaluate(cli, golden, connection):
    return lambda *argv: cli("evaluate", golden, "--poll-interval", "0.05", "--timeout", "30", *argv)


def test_a_gate_that_passes(evaluate, gate, tmp_path, service):
    files = [tmp_path / name for name in ("out.xml", "out.html")]
    ran = evaluate("--gate", gate(), "--junit", files[0], "--report", files[1], "-o", "json")
    assert ran.code == 0, ran.err
    assert (ran.json["verdict"], ran.json["questions"], ran.json["answered"]) == ("passed", 3, 3)
    assert set(ran.json["means"]) == {"token_f1", "must_include"}
    assert [rule["verdict"] for rule in ran.json["rules"]] == ["passed", "passed"]
    report = files[1].read_text()
    assert '<dt>Site</dt><dd><span class="code" dir="auto">acme-docs</span>' in report
    # The command wrote no other file, and no task ran.
    assert "see <code>" not in report
    assert "task" not in report
    (suite,) = JUnitXml.fromfile(str(files[0]))
    # Two questions do not pass, and the gate tolerates them.
    assert (suite.name, suite.tests, suite.failures, suite.errors, suite.skipped) == ("golden", 4, 0, 0, 2)
    assert [case.name for case in suite][:2] == ["coverage >= 0.9", "token_f1[billing] >= 0.0"]
    assert len(service.journal("POST", "session/close$")) == 3


def test_judges_of_a_gate_file(evaluate, gate, golden, tmp_path, service, judge):
    judged = "scorers: [judge.correctness]\njudge: {conn_id: judge}\n"
    refused = evaluate("--gate", gate(f"{judged}gate: ['judge.correctness >= 0.1']"))
    assert refused.code == 2
    assert "agreement" in refused.err
    assert service.posts("/chat/") == 0
    ran = evaluate("--gate", gate(judged), "--save", tmp_path / "saved", "-o", "json")
    assert ran.code == 0, ran.err
    # The service has no documents, so its answers are wrong.
    assert ran.json["means"] == {"judge.correctness": 0}
    # The question without an expected answer is not judged.
    assert pq.read_table(tmp_path / "saved" / "verdicts.parquet").num_rows == 2
    assert ran.json["judge_tokens"] > 0


@pytest.mark.promise("evaluation", "A gate that fails is exit code 1, with the rules and questions in the JUnit file.")
def test_a_gate_that_fails(evaluate, gate, tmp_path):
    gate_file = gate("gate: ['token_f1 >= 1.0', 'coverage >= 0.9', 'latency p95 <= 100']")
    ran = evaluate("--gate", gate_file, "--junit", tmp_path / "out.xml")
    assert ran.code == 1
    assert "token_f1 >= 1.0\tfailed" in ran.out
    assert ran.out.splitlines()[-1].startswith("failed: golden, 3 of 3 answered; ")
    (suite,) = JUnitXml.fromfile(str(tmp_path / "out.xml"))
    # A rule fails, and the two questions because of which it does.
    assert (suite.tests, suite.failures) == (5, 3)
    assert [[type(one) for one in case.result] for case in suite] == [[Failure], [], [], [Failure], [Failure]]


def test_questions_without_an_answer_are_named_in_the_junit_file(evaluate, gate, service, tmp_path):
    service.behave(fail_messages="moon")
    ran = evaluate("--gate", gate(), "--junit", tmp_path / "out.xml")
    assert ran.code == 1
    assert "2 of 3 questions answered" in ElementTree.parse(tmp_path / "out.xml").findtext("testsuite/system-out")
    (suite,) = JUnitXml.fromfile(str(tmp_path / "out.xml"))
    assert any(case.name == "moon" and "no answer: failed" in case.result[0].message for case in suite)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("gate: [", "not YAML"),
        ("- coverage >= 1", "not a mapping"),
        (
            "rules: [coverage >= 1]",
            "unknown fields rules. A gate file has scorers, judge, pass_if, gate, refusal_phrases",
        ),
        ("gate: coverage >= 1", "gate must be a list of rules"),
        ("gate: [bleu >= 1]", "there is no figure 'bleu'"),
        ("gate: [pass_rate >= 1]", "needs pass_if"),
        ("gate: [token_f1 drop <= 0.1]", "needs a baseline. Set baseline='previous', or --against"),
    ],
)
def test_a_gate_file_with_a_mistake_is_refused_before_the_first_question(text, reason, evaluate, gate, service):
    ran = evaluate("--gate", gate(text))
    assert (ran.code, ran.out) == (2, "")
    assert reason in ran.err
    assert not service.journal()


def test_what_cannot_be_judged_has_an_exit_code_of_its_own(evaluate, gate, golden, service):
    service.behave(fail_messages=".")
    ran = evaluate("--gate", gate())
    assert ran.code == 2
    assert "no question has an answer (3 asked)" in ran.err
    service.reset()
    service.answer("status:401", times=None)
    assert evaluate("--gate", gate()).code == 2
    golden.unlink()
    assert evaluate().code == 2


def test_an_evaluation_is_saved_for_a_later_one(evaluate, gate, tmp_path, service):
    first = evaluate("--save", tmp_path / "first", "--repeat", "2", "-o", "json")
    assert (first.code, first.json["questions"]) == (0, 6), first.err
    names = sorted(path.name for path in (tmp_path / "first").iterdir())
    assert names == ["answers.parquet", "report.html", "scores.parquet", "summary.json"]
    assert pq.read_table(tmp_path / "first" / "answers.parquet")["repetition"].to_pylist() == [1, 2] * 3
    gate_file = gate("gate: [token_f1 drop <= 0.01]\nscorers: [token_f1]")
    again = evaluate("--gate", gate_file, "--against", tmp_path / "first", "-o", "json")
    assert again.code == 0, again.err
    change = again.json["figures"]["token_f1"]["change"]
    assert (change["mean"], change["questions"]) == (0.0, 2)
    assert "Compared with" in evaluate("--gate", gate_file, "--against", tmp_path / "first").out


def test_sentences_of_the_gate_file_are_refusals(cli, gate, golden, ledger_home):
    golden.write_text("key,message,answer,expect_no_answer\nmoon,Who?,Det ved jeg desværre ikke.,true\n")
    text = "scorers: [refusal]\ngate: ['refusal >= 1']\n"
    sentences = "refusal_phrases: [Det ved jeg desværre ikke]\n"
    for content, code in ((text, 1), (text + sentences, 0)):
        assert cli("evaluate", "--answers", golden, "--gate", gate(content)).code == code


def test_a_base_url_and_a_key_in_the_environment_are_enough(cli, golden, service, ledger_home, monkeypatch):
    monkeypatch.setenv("ASSISTANT_BASE_URL", service.url)
    monkeypatch.setenv("ASSISTANT_API_KEY", DEFAULT_KEY)
    ran = cli("evaluate", golden, "--site", "acme-docs", "--mode", "sync", "-o", "json")
    assert ran.code == 0, ran.err
    monkeypatch.setenv("ASSISTANT_API_KEY", "a-wrong-key-0123456789")
    ran = cli("evaluate", golden, "--site", "acme-docs", "--mode", "sync")
    assert ran.code == 2
    assert "a-wrong-key-0123456789" not in ran.out + ran.err
