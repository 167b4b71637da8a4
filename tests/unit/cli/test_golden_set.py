"""The command golden-set check, and what it finds."""

from __future__ import annotations

import pytest

HEAD = "key;question;expected;must_include;must_not_include;expect_no_answer;tags"
ROWS = (
    "1;When are refunds paid?;In five days.;five days;;;billing",
    "2;Who built the moon?;;;;;",
    "3;When is it open?;From nine.;ten;nine;;",
    "4;Where is it?;Here.;;;true;",
)


@pytest.fixture
def golden(tmp_path):
    path = tmp_path / "golden.csv"
    path.write_text("\n".join([HEAD, *ROWS]) + "\n")
    return path


def test_findings_are_listed(cli, golden, tmp_path):
    gate = tmp_path / "gate.yaml"
    gate.write_text("gate: ['token_f1[billing] drop <= 0.1']")
    check = ("golden-set", "check", golden, "--csv-option", "delimiter=;", "--column", "message=question")
    ran = cli(*check, "--gate", gate, "-o", "json")
    assert ran.code == 1, ran.err
    assert [(one["finding"], *one["rows"], *one["keys"]) for one in ran.json] == [
        ("no_expectation", 2, "2"),
        ("contradiction", 3, "3"),
        ("contradiction", 3, "3"),
        ("contradiction", 4, "4"),
    ]
    reasons = [one["reason"] for one in ran.json]
    assert "the expected answer 'From nine.' lacks 'ten' of must_include" in reasons
    assert "'From nine.' is expected and has 'nine' of must_not_include" in reasons
    shown = cli(*check, "-o", "plain")
    assert shown.lines[1][:3] == ["no_expectation", "2", "2"]
    assert shown.lines[-1] == ["questions: 4, findings: 4"]
    golden.write_text("\n".join([HEAD, *ROWS, ROWS[0]]))
    ran = cli(*check)
    assert (ran.code, "1 duplicate key, such as '1'" in ran.err) == (2, True)


def test_a_set_without_findings(cli, golden):
    golden.write_text("message,expected\nWhen are refunds paid?,In five days.\n")
    ran = cli("golden-set", "check", golden)
    assert (ran.code, ran.out) == (0, "questions: 1, findings: 0\n")


@pytest.mark.promise("evaluation", "golden-set check and evaluate take the same arguments about a golden set.")
def test_what_check_accepts_evaluate_accepts(cli, connection, tmp_path):
    """Fault: check accepted --column and the others, and evaluate refused the same golden set."""
    golden = tmp_path / "golden.csv"
    golden.write_bytes(
        "Id;Question;expected;lang;chat;n\n1;Où?;Là.;fr;a;1\n2;Quand?;Bientôt.;fr;a;2\n".encode("cp1252")
    )
    gate = tmp_path / "gate.yaml"
    gate.write_text("scorers: [token_f1]\ngate: ['token_f1 >= 0']")
    arguments = (
        *("--column", "message=Question", "--column", "response_language=lang", "--key", "Id"),
        *("--csv-option", "delimiter=;", "--encoding", "cp1252", "--gate", gate),
    )
    checked = cli("golden-set", "check", golden, *arguments)
    assert (checked.code, checked.out) == (0, "questions: 2, findings: 0\n"), checked.err
    ran = cli("evaluate", golden, *arguments, "--poll-interval", "0.05", "-o", "json")
    assert (ran.code, ran.json["answered"]) == (0, 2), ran.err
    for arguments in (("--key", "ID"), ("--column", "message=Frage"), ("--csv-option", "delimiter")):
        both = [cli(*command, golden, *arguments) for command in (("golden-set", "check"), ("evaluate",))]
        assert [ran.code for ran in both] == [2, 2]
        assert both[0].err == both[1].err
