"""Every command on a page can be typed."""

from __future__ import annotations

import re
import shlex

import pytest

from airflow_provider_assistant.__main__ import parser
from tests.docs.pages import blocks

COMMAND = re.compile(r"^(?:\$ )?(?:airflow assistant|python -m airflow_provider_assistant) ([^#\n]*)", re.MULTILINE)
COMMANDS = [
    (block.name, line)
    for block in blocks("bash", "sh", "console")
    for line in COMMAND.findall(block.code.replace("\\\n", " "))
]


@pytest.mark.promise("command line", "Every command in the documentation can be typed as it is.")
@pytest.mark.parametrize(("where", "line"), COMMANDS)
def test_every_command_of_the_pages_can_be_typed(where, line):
    words = shlex.split(line.partition("|")[0].partition(">")[0].partition("&&")[0])
    parser().parse_args([word for word in words if word != "…"])


def test_the_pages_show_the_commands_of_every_day():
    shown = {line.split()[0] for _, line in COMMANDS}
    assert shown >= {"smoke", "read", "chat", "load", "ledger", "sandbox"}
