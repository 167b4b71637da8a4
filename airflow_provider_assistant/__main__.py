"""``python -m airflow_provider_assistant``: what ``airflow assistant`` does, also where Airflow cannot offer it."""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterable
from typing import Any


def parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    _ignore_warnings_about_airflow()
    from airflow_provider_assistant.cli.definition import get_cli_commands

    (group,) = get_cli_commands()
    made = argparse.ArgumentParser(
        prog="python -m airflow_provider_assistant", description=group.description, epilog=group.epilog
    )
    _add(made, group.subcommands)
    return made


def _add(to: argparse.ArgumentParser, commands: Iterable[Any]) -> None:
    below = to.add_subparsers(metavar="COMMAND", required=True)
    for command in commands:
        made = below.add_parser(command.name, help=command.help, description=command.help, epilog=command.epilog)
        if hasattr(command, "subcommands"):
            _add(made, command.subcommands)
            continue
        for arg in command.args:
            arg.add_to_parser(made)
        made.set_defaults(func=command.func)


def _ignore_warnings_about_airflow() -> None:
    """Ignore what Python 3.14 deprecates in Airflow's command line; Airflow would write it to standard output."""
    import airflow.configuration  # noqa: F401 (sets filters, which the next one has to precede)

    warnings.filterwarnings("ignore", "FileType is deprecated", PendingDeprecationWarning)


def main() -> None:
    """Run one command."""
    args = parser().parse_args()
    args.func(args)


if __name__ == "__main__":
    main()
