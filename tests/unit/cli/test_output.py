"""Output on a terminal, in a pipe and as JSON."""

from __future__ import annotations

import json
import logging

import pytest

from airflow_provider_assistant.cli.output import Console, LogLines

KEY = 'k"ey/+1 é'


@pytest.fixture
def out():
    made = Console(as_json=False)
    made.hide(KEY)
    return made


@pytest.mark.parametrize("spelled", [KEY, json.dumps(KEY)[1:-1], "k%22ey%2F%2B1%20%C3%A9"])
def test_a_secret_is_hidden_however_it_is_spelled(out, spelled):
    assert out.clean(f"before {spelled} after") == "before *** after"


def test_no_way_out_lets_a_secret_through(capsys):
    for as_json in (False, True):
        out = Console(as_json=as_json)
        out.hide(KEY)
        out.line(KEY)
        out.fields((KEY, "", 0), ("x", "", 0))
        out.table(("a",), [(KEY,)])
        out.result({"a": [KEY], KEY: 1})
        out.note(KEY)
        out.error(KEY)
        LogLines(out).handle(logging.LogRecord("test", logging.WARNING, "", 0, "said %s", (KEY,), None))
        said = "".join(capsys.readouterr())
        assert "***" in said
        assert KEY not in said
        assert json.dumps(KEY)[1:-1] not in said


def test_an_empty_secret_hides_nothing(out):
    out.hide("")
    out.hide(None)
    out.hide("  ")
    assert out.clean("a b") == "a b"


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


def test_a_pipe_gets_lines_with_tabs(capsys):
    out = Console(as_json=False)
    out.table(("name", "value"), [("a\nb", None), ("[red]c[/red]", 1)])
    out.fields(("ok", "green", 9), ("x", "", 9))
    out.line("x" * 300, "green")
    assert capsys.readouterr().out == f"name\tvalue\na\\nb\t\n[red]c[/red]\t1\nok\tx\n{'x' * 300}\n"


def test_a_program_gets_one_line_of_json_and_nothing_else(capsys):
    out = Console(as_json=True)
    out.line("for people")
    out.table(("for",), [("people",)])
    out.fields(("for people", "", 0))
    with out.busy("waiting"), out.progress("loading") as shown:
        shown(1, 2)
    out.result({"text": "two\nlines \x1b[31m"})
    said = capsys.readouterr()
    assert said.out == '{"text": "two\\nlines \\u001b[31m"}\n'
    assert said.err == ""


def test_a_pipe_sees_no_progress(out, capsys):
    with out.busy("waiting"), out.progress("loading") as shown:
        shown(1, 2)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("word", ["test", "1234", "assistant", "key"])
def test_a_key_that_is_an_ordinary_word_changes_no_output(out, word):
    """Short or word-like keys are not replaced: that would change numbers in JSON and words in sentences."""
    out.hide(word)
    assert out.clean(f"this is a {word}: 1234") == f"this is a {word}: 1234"
