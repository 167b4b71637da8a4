"""The evaluate command: checks its input, asks a golden set, and exits with the verdict of the gate."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from junitparser import JUnitXml

HEAD = "key,message,expected,tags\n"
ROWS = "q1,When are refunds paid?,In five days.,billing\nq2,When is it open?,From nine.,shop\n"
GATE = "scorers: [token_f1]\npass_if: token_f1 >= 0.5\n"
JUDGED = "scorers: [judge.correctness]\njudge: {conn_id: judge}\n"


@pytest.fixture
def evaluate(cli, connection, tmp_path, monkeypatch):
    """Return a function that writes a golden set and a gate file, and evaluates them."""
    monkeypatch.chdir(tmp_path)

    def run(*argv, golden=HEAD + ROWS, gate=GATE, encoding="utf-8"):
        (tmp_path / "golden.csv").write_bytes(golden.encode(encoding))
        (tmp_path / "gate.yaml").write_text(gate)
        options = () if "--gate" in argv else ("--gate", "gate.yaml")
        return cli("evaluate", "golden.csv", "--poll-interval", "0.05", *options, *argv)

    return run


@pytest.mark.promise("evaluation", "The verdict of the gate is the exit code of evaluate, and is in its JUnit file.")
def test_the_verdict_is_the_exit_code(evaluate, service, tmp_path):
    passing = f"{GATE}gate: ['coverage >= 0.9', 'token_f1[billing] >= 0.0']"
    files = ("--junit", "a/out.xml", "--report", "b/c/out.html")
    ran = evaluate(*files, "-o", "json", gate=passing)
    assert ran.code == 0, ran.err
    assert (ran.json["verdict"], ran.json["questions"], ran.json["answered"]) == ("passed", 2, 2)
    assert [rule["verdict"] for rule in ran.json["rules"]] == ["passed", "passed"]
    report = (tmp_path / "b/c/out.html").read_text()
    # The command wrote no other file, and no task ran.
    assert ("acme-docs" in report, "see <code>" in report, "task" in report) == (True, False, False)
    (suite,) = JUnitXml.fromfile("a/out.xml")
    # Two questions do not pass, and the gate tolerates them.
    assert (suite.name, suite.tests, suite.failures, suite.skipped) == ("golden", 4, 0, 2)
    assert len(service.journal("POST", "session/close$")) == 2
    service.behave(fail_messages="open")
    ran = evaluate(*files, "-o", "plain", gate=passing)
    assert (ran.code, "coverage >= 0.9\tfailed" in ran.out) == (1, True)
    assert ran.lines[-1][0].startswith("failed: golden, 1 of 2 answered; ")
    assert next(iter(JUnitXml.fromfile("a/out.xml"))).failures > 0
    assert not list(tmp_path.glob("**/.probe*"))


def test_what_cannot_be_judged_is_no_verdict(evaluate, service):
    service.behave(fail_messages=".")
    ran = evaluate()
    assert (ran.code, "no question has an answer (2 asked)" in ran.err) == (2, True)
    service.reset()
    service.answer("status:401", times=None)
    assert evaluate().code == 2


def test_an_evaluation_is_saved_for_a_later_one(evaluate, tmp_path):
    first = evaluate("--save", "first", "--repeat", "2", "-o", "json")
    assert (first.code, first.json["questions"]) == (0, 4), first.err
    names = sorted(path.name for path in (tmp_path / "first").iterdir())
    assert names == ["answers.parquet", "report.html", "scores.parquet", "summary.json"]
    assert pq.read_table("first/answers.parquet")["repetition"].to_pylist() == [1, 2] * 2
    compared = {"gate": "gate: [token_f1 drop <= 0.01]\nscorers: [token_f1]"}
    again = evaluate("--against", "first", "-o", "json", **compared)
    assert again.code == 0, again.err
    change = again.json["figures"]["token_f1"]["change"]
    assert (change["mean"], change["questions"]) == (0.0, 2)
    assert "Compared with" in evaluate("--against", "first", **compared).out


BAD_GATES = (
    ("gate: [", "not YAML"),
    ("- coverage >= 1", "not a mapping"),
    ("rules: [coverage >= 1]", "unknown fields rules. A gate file has scorers, judge, pass_if, gate, refusal_phrases"),
    ("gate: coverage >= 1", "gate must be a list of rules"),
    ("gate: [bleu >= 1]", "there is no figure 'bleu'"),
    ("gate: [pass_rate >= 1]", "needs pass_if"),
    ("gate: [token_f1 drop <= 0.1]", "needs a baseline. Set baseline='previous', or --against"),
    (f"{GATE}gate: ['token_f1[biling] >= 0']", "no question has the tag 'biling'; there are billing, shop"),
    ("gate: [must_include >= 1]", "the gate needs must_include, and the golden set has no column 'must_include'"),
    ("scorers: ['column:second']", "the answers have no column 'second'; did you mean 'seconds'"),
    (f"{JUDGED}gate: ['judge.correctness >= 0.1']", "agreement"),
)


def test_a_mistake_in_the_gate_file_costs_no_question(evaluate, cli, service, judge):
    for gate, reason in BAD_GATES:
        ran = evaluate(gate=gate)
        assert (ran.code, ran.out, reason in ran.err) == (2, "", True), (gate, ran.err)
        checked = cli("golden-set", "check", "golden.csv", "--gate", "gate.yaml")
        assert reason in checked.err or "baseline" in reason, (gate, checked.err)
    assert not service.journal()
    # A column that only the answers have.
    assert evaluate(gate="scorers: ['column:seconds']").code == 0


def changed(column, cell):
    return f"{HEAD.strip()},{column}\n{ROWS.splitlines()[0]},{cell}\n{ROWS.splitlines()[1]},\n"


BAD_GOLDEN_SETS = (
    (changed("weight", "much"), "golden.csv: question 'q1': weight 'much': "),
    (changed("must_includ", "five"), "column 'must_includ': did you mean 'must_include'?"),
    (
        HEAD + ROWS + "q1,Another question?,,\n",
        "golden.csv: 1 duplicate key, such as 'q1'. Nothing was sent. Give --key",
    ),
    (HEAD + ROWS + ",Another question?,,\n", "is empty"),
    (HEAD + ROWS + "q3,,Something.,\n", "golden.csv: 1 question cannot be asked, such as row 3"),
    ("message,expected\n" + "Open?,Yes.\n" * 2, "golden.csv: 1 duplicate key, such as 'Open?'"),
    ("KEY,message,expected\nq1,Open?,Yes.\n", "column 'KEY': did you mean 'key'? With this name,"),
    ("key,Message\nq1,Open?\n", "golden.csv has no column message; did you mean 'Message'?"),
    (HEAD.replace("tags", "answer") + ROWS, "source has a column answer, which is also a column of the output"),
    ("key,message\n", "no rows"),
)


@pytest.mark.promise("evaluation", "A mistake in the golden set is found before the first question is asked.")
def test_a_mistake_in_the_golden_set_costs_no_question(evaluate, service):
    for golden, reason in BAD_GOLDEN_SETS:
        ran = evaluate(golden=golden)
        assert (ran.code, ran.out, reason in ran.err) == (2, "", True), (golden, ran.err)
    ran = evaluate(golden=HEAD + ROWS.replace("nine", "9 €"), encoding="cp1252")
    assert (ran.code, "--encoding" in ran.err, "another encoding than utf-8" in ran.err) == (2, True, True), ran.err
    assert not service.journal()


def test_a_mistake_in_the_arguments_costs_no_question(evaluate, service, tmp_path):
    (tmp_path / "a_file").write_text("")
    (tmp_path / "a_folder").mkdir()
    pq.write_table(pa.table({"key": ["q1"]}), tmp_path / "table.parquet")
    for argv, reason in (
        (("--gate", "nowhere.yaml"), "--gate nowhere.yaml: it cannot be read: No such file"),
        (("--gate", "a_folder"), "--gate a_folder: it cannot be read: Is a directory"),
        (("--report", "a_folder"), "--report 'a_folder' is a folder"),
        (("--report", "a_file/out.html"), "a_file"),
        (("--junit", "a_file/below/out.xml"), "a_file"),
        (("--save", "a_file"), "a_file"),
        (("--save", "nosuch://bucket/out"), "nosuch://"),
        (("--against", "nowhere"), "baseline 'nowhere' has no summary.json"),
        (("--against", "a_folder"), "it is not an evaluation"),
        (("--against", "previous"), "baseline 'previous' has no summary.json"),
        (("--conn-id", "nowhere"), "there is no connection 'nowhere'"),
        (("--answers", "nowhere.parquet"), "nowhere.parquet"),
        (("--answers", "golden.csv"), "golden.csv: answers have no column 'answer'"),
        (("--turn", "tags"), "turn needs session"),
        (("--column", "message=Question"), "no column Question"),
        (("--timeout", "nan"), "--timeout must be more than 0 seconds"),
        (("--poll-interval", "0"), "--poll-interval must be more than 0 seconds"),
        (("--against", "table.parquet"), "baseline 'table.parquet' has no summary.json"),
        (("--repeat", "0"), "--repeat must be at least 1"),
    ):
        ran = evaluate(*argv)
        # With Airflow 3.1, some messages name the absolute path.
        error = ran.err.replace(f"{tmp_path}/", "")
        assert (ran.code, ran.out, reason in error) == (2, "", True), (argv, ran.err)
    assert not service.journal()


def test_a_judge_that_cannot_be_used_costs_no_question(evaluate, service, judge, monkeypatch):
    monkeypatch.setenv("AIRFLOW_CONN_JUDGE", judge.conn_json(extra={}))
    assert "No model" in evaluate(gate=JUDGED).err
    monkeypatch.delenv("AIRFLOW_CONN_JUDGE")
    assert "the connection 'judge' cannot be used: The conn_id `judge` isn't defined" in evaluate(gate=JUDGED).err
    assert not service.journal()


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_saved_answers_are_scored_without_a_connection(evaluate, cli, service, tmp_path, monkeypatch, suffix):
    assert evaluate("--save", "first").code == 0
    asked = service.posts()
    monkeypatch.delenv("AIRFLOW_CONN_ASSISTANT_DEFAULT")
    answers = pq.read_table("first/answers.parquet").select(["key", "message", "answer", "expected"])
    answers = answers.set_column(2, "answer", pa.array(["In five days.", None]))
    pq.write_table(answers, "answers.parquet")
    lines = [
        ",".join(answers.column_names),
        "q1,When are refunds paid?,In five days.,In five days.",
        "q2,When is it open?,,",
    ]
    (tmp_path / "answers.csv").write_text("\n".join(lines) + "\n")
    for file in (("golden.csv",), ()):
        ran = cli("evaluate", *file, "--answers", f"answers.{suffix}", "--gate", "gate.yaml", "-o", "json")
        assert (ran.code, ran.json["questions"], ran.json["answered"]) == (0, 2, 1), ran.err
        assert ran.json["means"] == {"token_f1": 1.0}
    other = evaluate("--answers", "first/answers.parquet", golden=HEAD + "q9,What?,Nothing.,\n")
    assert (other.code, "no key in common" in other.err) == (2, True)
    assert cli("evaluate", "-o", "json").code == 2
    assert service.posts() == asked
    assert not (tmp_path / "airflow-home" / "assistant_evaluations").exists()


def test_columns_that_the_arguments_name_are_not_misspelt(evaluate, service):
    golden = "Tags,Expected,Weight,message,expected\nq1,a@example.com,en,When is it open?,From nine.\n"
    columns = ("--key", "Tags", "--column", "email=Expected", "--column", "response_language=Weight")
    ran = evaluate(*columns, "-o", "json", golden=golden)
    assert (ran.code, ran.json["answered"], service.chats()[0]["language"]) == (0, 1, "en"), ran.err
