"""The pages about the command line agree with its parser."""

from __future__ import annotations

import re
import shlex

import pytest

from airflow_provider_assistant.__main__ import parser
from airflow_provider_assistant.cli import runner
from tests.docs.command_line import PAGE, written
from tests.docs.pages import ROOT, blocks, section, table

REFERENCE = str(PAGE.relative_to(ROOT))
COMMAND = re.compile(r"^(?:\$ )?(?:airflow assistant|python -m airflow_provider_assistant) ([^#\n]*)", re.MULTILINE)


def commands():
    found = []
    for block in blocks("bash", "sh", "console"):
        joined = block.code.replace("\\\n", " ")
        found += [(block.name, line) for line in COMMAND.findall(joined)]
    return found


def test_the_reference_is_what_the_parser_says():
    assert PAGE.read_text() == written(), "python -m tests.docs.command_line updates it"


@pytest.mark.parametrize(("where", "line"), commands())
def test_every_command_of_the_pages_can_be_typed(where, line):
    words = shlex.split(line.partition("|")[0].partition(">")[0].partition("&&")[0])
    parser().parse_args([word for word in words if word != "…"])


def test_the_pages_show_every_command():
    shown = {line.split()[0] for _, line in commands()}
    assert shown >= {"smoke", "limits", "chat", "load", "ledger", "sandbox"}


def test_exit_codes():
    documented = {int(row["Code"]) for row in table(section(REFERENCE, "Exit codes"))}
    names = ("OK", "WRONG", "INPUT", "REFUSED", "LATER", "LEDGER", "BUG", "INTERRUPTED", "TERMINATED")
    assert documented == {getattr(runner, name) for name in names}


def test_json_fields_of_every_command_are_named():
    named = {row["Command"].strip("`") for row in table(section(REFERENCE, "JSON"))}
    headings = set(re.findall(r"^### airflow assistant (.*)$", PAGE.read_text(), re.MULTILINE))
    assert named == headings
