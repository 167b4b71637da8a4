"""The definitions that every ``airflow`` command imports."""

from __future__ import annotations

import inspect
from typing import get_args

import pytest
from airflow.cli.cli_config import ActionCommand, GroupCommand

from airflow_provider_assistant.__main__ import parser
from airflow_provider_assistant.cli import definition
from airflow_provider_assistant.cli.definition import get_cli_commands
from airflow_provider_assistant.ledger import Kind, Which
from airflow_provider_assistant.ledger.settle import Settled
from airflow_provider_assistant.provider_info import get_provider_info
from tests.versions import import_string


def actions(commands=None, above=()):
    for command in commands or get_cli_commands():
        if isinstance(command, GroupCommand):
            yield from actions(command.subcommands, (*above, command.name))
        else:
            assert isinstance(command, ActionCommand)
            yield " ".join((*above, command.name)), command


ACTIONS = dict(actions())


def test_these_are_the_commands():
    assert set(ACTIONS) == {
        "assistant documents check",
        "assistant documents reconcile",
        "assistant documents list",
        "assistant golden-set check",
        "assistant knowledge preview",
        *(
            f"assistant {name}"
            for name in ("smoke", "read", "chat", "load", "findings", "evaluate", "erase", "sandbox")
        ),
        *(f"assistant ledger {name}" for name in (*("list", "resolve", "rename", "loads", "prune"),)),
    }


def test_airflow_is_told_of_them():
    (path,) = get_provider_info()["cli"]
    assert import_string(path) is get_cli_commands


@pytest.mark.parametrize("name", ACTIONS)
def test_every_command_leads_to_a_function_that_knows_its_arguments(name):
    command = ACTIONS[name]
    path = inspect.getclosurevars(command.func).nonlocals["import_path"]
    assert callable(import_string(path))
    flags = {flag for arg in command.args for flag in arg.flags}
    assert {"--output", "--verbose"} <= flags
    assert all(arg.kwargs["help"] for arg in command.args)


def test_the_definitions_have_the_words_of_the_ledger():
    words = (definition.STATES, definition.KINDS, definition.SETTLED)
    assert words == (get_args(Which), get_args(Kind), get_args(Settled))


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["nonsense"],
        ["ledger"],
        ["load"],
        ["load", "f.csv", "--on-change", "ask"],
        ["read", "limits", "--output", "xml"],
        ["smoke", "--timeout", "soon"],
        ["ledger", "resolve", "--id", "abc"],
        ["ledger", "resolve", "--id", "abc", "--as", "maybe"],
        ["ledger", "list", "--state", "odd"],
    ],
)
def test_wrong_arguments_are_exit_code_2(argv, capsys):
    with pytest.raises(SystemExit) as end:
        parser().parse_args(argv)
    assert end.value.code == 2
    assert "usage:" in capsys.readouterr().err
