"""Run a command: set up output, log and signals, and turn errors into exit codes without a traceback."""

from __future__ import annotations

import argparse
import contextlib
import functools
import logging
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

import sqlalchemy as sa
from airflow.providers.common.compat.sdk import AirflowException, AirflowNotFoundException

from airflow_provider_assistant.cli.interruptions import interruptible
from airflow_provider_assistant.cli.output import DIM, Console, LogLines
from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.hooks.assistant import AssistantHook

log = logging.getLogger("airflow_provider_assistant")

# Success; the command ran and found a problem; it could not run; it was interrupted.
OK, WRONG, FAILED, INTERRUPTED = 0, 1, 2, 130
# Errors that need no traceback: a connection that cannot be decoded or a file that cannot be written are among them.
EXPECTED = (AirflowException, OSError, sa.exc.SQLAlchemyError)
Command: TypeAlias = Callable[[Console, argparse.Namespace], int]


def command(function: Command) -> Callable[[argparse.Namespace], None]:
    """
    Make a command of a function.

    :param function: Takes the output and the parsed arguments, and returns the exit code.
    :return: A function that takes the parsed arguments, writes errors to the output, and exits with the exit code.
    """

    @functools.wraps(function)
    def run(args: argparse.Namespace) -> None:
        out = Console(args.output)
        # Without this, Airflow does not read connections from its database. Its own commands set it too.
        os.environ.setdefault("_AIRFLOW_PROCESS_CONTEXT", "server")
        _log_to(out, args.verbose)
        try:
            # Airflow may log to standard output. Redirect it, because results are written by ``out``.
            with interruptible(), contextlib.redirect_stdout(sys.stderr):
                code = function(out, args)
        except KeyboardInterrupt as error:
            code = INTERRUPTED
            _show_notes(out, error)
        except BrokenPipeError:
            # The reader closed the pipe, as head does. Without this, Python reports the error again at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            code = INTERRUPTED
        except Exception as error:  # noqa: BLE001 (users of a terminal get a message, not a traceback)
            code = FAILED
            _show_notes(out, error)
            failed(out, error)
        sys.exit(code)

    return run


def failed(out: Console, error: Exception) -> None:
    """Write an error."""
    if isinstance(error, EXPECTED):
        log.debug("%s", type(error).__name__, exc_info=error)
        out.error(str(error))
    else:
        log.info("Here:", exc_info=error)
        out.error(f"{type(error).__name__}: {error}. This should not happen; -v shows where.")


def _show_notes(out: Console, error: BaseException) -> None:
    """Write what the command has added to an error, such as what is kept for the next one."""
    for note in getattr(error, "__notes__", ()):
        out.logged(note, DIM)


def open_hook(out: Console, args: argparse.Namespace, *, waits: bool = False) -> AssistantHook:
    """
    Return the hook of the connection in the arguments. Hides the API key in all further output.

    :param waits: Whether to wait for the end of an outage as tasks do. Default: False, a person at a terminal is told
        within ten seconds that nothing answers.
    :return: The hook, with the connection's settings already read.
    """
    try:
        connection = AssistantHook.get_connection(args.conn_id)
    except AirflowNotFoundException:
        variable = f"AIRFLOW_CONN_{args.conn_id.upper()}"
        raise AssistantInputError(
            f"there is no connection {args.conn_id!r}",
            todo=f"Set {variable}, create it with 'airflow connections add' or in the UI, or select another one "
            "with --conn-id.",
            field="conn_id",
        ) from None
    out.hide(connection.password)
    hook = AssistantHook(args.conn_id, tenant_id=getattr(args, "tenant", None), site_id=getattr(args, "site", None))
    if not waits:
        client = hook.settings.client
        client = client.retrying(attempts=min(client.retry.attempts, 2), initial_backoff=0.05)
        hook.settings = replace(hook.settings, client=replace(client, longest_connect=3.0))
    return hook


def _log_to(out: Console, verbose: bool) -> None:
    """Write this package's log to standard error through ``out``, which removes secrets."""
    log.handlers[:] = [LogLines(out)]
    log.propagate = False
    log.setLevel(logging.INFO if verbose else logging.WARNING)
    # The commands show rejected rows, and what was left out of a source, themselves.
    for name in ("loading.progress.rejected", "source_account"):
        logger = logging.getLogger(f"airflow_provider_assistant.{name}")
        logger.setLevel(log.level if verbose else logging.ERROR)
    if not verbose:
        # Airflow warns about short values in a connection that it does not mask as secrets.
        logging.getLogger("airflow").setLevel(logging.ERROR)
    for handler in logging.getLogger().handlers:
        if isinstance(handler, logging.StreamHandler) and handler.stream is sys.stdout:
            # Standard output is reserved for the result. The ``airflow`` command does the same.
            handler.setStream(sys.stderr)
