"""The evaluate command checks all input before it asks the first question."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

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
    misspelt = f"{GATE}gate: ['token_f1[biling] >= 0']"
    assert "no question has the tag 'biling'; there are billing, shop" in evaluate(gate=misspelt).err
    assert not service.journal()


def test_a_judge_that_cannot_be_used_costs_no_question(evaluate, service, judge, monkeypatch):
    monkeypatch.setenv("AIRFLOW_CONN_JUDGE", judge.conn_json(extra={}))
    assert "No model" in evaluate(gate=JUDGED).err
    monkeypatch.delenv("AIRFLOW_CONN_JUDGE")
    assert "the connection 'judge' cannot be used: The conn_id `judge` isn't defined" in evaluate(gate=JUDGED).err
    assert not service.journal()


def test_folders_of_outputs_are_created(evaluate, tmp_path):
    ran = evaluate("--report", "a/b/out.html", "--junit", "c/out.xml", "--save", "d/e")
    assert ran.code == 0, ran.err
    for name in ("a/b/out.html", "c/out.xml", "d/e/summary.json"):
        assert (tmp_path / name).is_file()
    assert not list(tmp_path.glob("**/.probe*"))


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
