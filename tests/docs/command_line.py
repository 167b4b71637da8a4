"""
Write the reference of the command line from its parser.

``python -m tests.docs.generated`` writes the page.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from airflow.cli.cli_config import ActionCommand, Arg, GroupCommand

from airflow_provider_assistant.cli.definition import COMMON, CONNECTION, SITE, get_cli_commands

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "command-line.md"
# The page says once that all commands that reach the service have these.
EVERYWHERE = (CONNECTION, SITE)
BEGIN, END = "<!-- from the parser: begin -->\n", "<!-- from the parser: end -->\n"


def written() -> str:
    """Return the page with the text between the marks replaced."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{''.join(_of(get_cli_commands(), 'airflow', {}))}{END}{after}"


def _of(commands: Iterable[Any], above: str, explained: dict[Arg, str]) -> Iterator[str]:
    for command in commands:
        name = f"{above} {command.name}"
        if isinstance(command, GroupCommand):
            yield from _of(command.subcommands, name, explained)
        else:
            yield _action(command, name, explained)


def _action(command: ActionCommand, name: str, explained: dict[Arg, str]) -> str:
    """
    Return the section of a command.

    :param explained: Arguments of earlier commands, which are not explained twice. Those of this one are added.
    """
    args = [arg for arg in command.args if arg not in COMMON]
    lines = [f"### {name}", "", f"{command.help}.", ""]
    new = [arg for arg in args if arg not in explained]
    if new:
        lines += ["| Argument | Default | Meaning |", "|---|---|---|"]
        rows = (" | ".join([_flags(arg), _default(arg), _cell(arg.kwargs["help"])]) for arg in new)
        lines += [f"| {row} |".replace("|  |", "| |") for row in rows] + [""]
    earlier: dict[str, list[str]] = {}
    for arg in args:
        if arg in explained and arg not in EVERYWHERE:
            earlier.setdefault(explained[arg], []).append(f"`{arg.flags[-1]}`")
    for other, flags in earlier.items():
        lines += [
            f"As in [{other.removeprefix('airflow assistant ')}](#{other.replace(' ', '-')}): {', '.join(flags)}.",
            "",
        ]
    explained |= dict.fromkeys(new, name)
    return "\n".join(lines) + "\n"


def _flags(arg: Arg) -> str:
    takes = arg.flags[0].startswith("-") and arg.kwargs.get("action") != "store_true"
    flags = ", ".join(f"`{flag}`" for flag in arg.flags) if arg.flags[0].startswith("-") else f"`{_metavar(arg)}`"
    return f"{flags} `{_metavar(arg)}`" if takes else flags


def _metavar(arg: Arg) -> str:
    choices = arg.kwargs.get("choices")
    named = arg.kwargs.get("metavar") or (
        "{" + ",".join(choices) + "}" if choices else arg.flags[-1].strip("-").upper()
    )
    return f"[{named}]" if arg.kwargs.get("nargs") in {"?", "*"} else str(named)


def _default(arg: Arg) -> str:
    default = arg.kwargs.get("default")
    if arg.kwargs.get("required") or not (arg.flags[0].startswith("-") or arg.kwargs.get("nargs")):
        return "required"
    return "" if default is None else f"`{default:g}`" if isinstance(default, float) else f"`{default}`"


def _cell(text: str) -> str:
    return (text[0].upper() + text[1:]).replace("|", "\\|")
