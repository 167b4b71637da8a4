"""Output on a terminal, in a pipe and for programs."""

from __future__ import annotations

import json
import logging

import pytest
import yaml

from airflow_provider_assistant.cli.output import SHOWN, Console, LogLines

KEY = 'k"ey/+1 é'
FORMATS = ("table", "plain", "json", "yaml")


@pytest.fixture
def out():
    made = Console()
    made.hide(KEY)
    return made


@pytest.mark.parametrize("spelled", [KEY, json.dumps(KEY)[1:-1], "k%22ey%2F%2B1%20%C3%A9"])
def test_a_secret_is_hidden_however_it_is_spelled(out, spelled):
    assert out.clean(f"before {spelled} after") == "before *** after"


@pytest.mark.parametrize("output", FORMATS)
def test_no_format_lets_a_secret_through(output, capsys):
    out = Console(output)
    out.hide(KEY)
    out.result({"a": [KEY], KEY: 1}, [{"a": KEY}], text=KEY)
    out.note(KEY)
    out.error(KEY)
    LogLines(out).handle(logging.LogRecord("test", logging.WARNING, "", 0, "said %s", (KEY,), None))
    written = "".join(capsys.readouterr())
    assert "***" in written
    assert KEY not in written
    assert json.dumps(KEY)[1:-1] not in written


@pytest.mark.parametrize("secret", ["", None, "  ", "test", "1234", "assistant", "key"])
def test_a_key_that_is_an_ordinary_word_changes_no_output(out, secret):
    """Short or word-like keys are not replaced: that would change numbers in JSON and words in sentences."""
    out.hide(secret)
    assert out.clean(f"this is a {secret}: 1234") == f"this is a {secret}: 1234"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2Jgone", "\\x1b[2Jgone"),
        ("a\rb", "a\\rb"),
        ("\x9b31m", "\\x9b31m"),
        ("abc\u202edcba", "abc\\u202edcba"),
        ("two\nlines\tof text", "two\nlines\tof text"),
        ("Größe 📐 名前\u00a0x", "Größe 📐 名前\u00a0x"),
    ],
)
def test_an_answer_cannot_steer_the_terminal(out, text, shown):
    assert out.clean(text) == shown


VALUE = {"text": "two\nlines \x1b[31m", "rows": [1, None]}
ROWS = [{"name": "a\nb", "value": None}, {"name": "[red]c[/red]", "value": "1.10"}]


@pytest.mark.promise("command line", "Programs get the whole result as JSON or YAML, and nothing else.")
def test_a_program_gets_the_result_and_nothing_else(capsys):
    for output, read in (("json", json.loads), ("yaml", yaml.safe_load)):
        out = Console(output)
        with out.busy("waiting"), out.progress("loading") as shown:
            shown(1, 2)
        out.result(VALUE, ROWS, text="for people")
        out.line("for people")
        out.note("for people")
        written = capsys.readouterr()
        assert (read(written.out), written.err) == (VALUE, "")
        assert "\x1b" not in written.out
        assert output != "json" or written.out.count("\n") == 1


def test_plain_rows_are_lines_with_tabs(capsys):
    with Console("plain").progress("loading") as shown:
        shown(1, 2)
    Console("plain").result(VALUE, ROWS, [], text="x" * 300)
    assert capsys.readouterr() == (f"name\tvalue\na\\nb\t\n[red]c[/red]\t1.10\n{'x' * 300}\n", "")


def test_a_table_has_the_first_rows(capsys):
    Console().result(VALUE, ROWS * SHOWN)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["name", "|", "value"]
    assert sum("[red]c[/red] | 1.10" in line for line in lines) == SHOWN / 2
    assert lines[-1] == f"… and {SHOWN} more: see --output plain or json"
