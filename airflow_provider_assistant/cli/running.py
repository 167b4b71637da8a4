"""What all commands share: from arguments to an exit code, without a traceback."""

from __future__ import annotations

import argparse
import contextlib
import functools
import logging
import os
import sys
from collections.abc import Callable
from typing import TypeAlias

import sqlalchemy as sa
from airflow.providers.common.compat.sdk import AirflowException, AirflowNotFoundException

from airflow_provider_assistant.cli.output import LogLines, Out
from airflow_provider_assistant.exceptions import (
    AssistantAPIError,
    AssistantError,
    AssistantInputError,
    AssistantLedgerError,
    AssistantRateLimitError,
    AssistantServerError,
)
from airflow_provider_assistant.hooks.assistant import AssistantHook

log = logging.getLogger("airflow_provider_assistant")

OK, WRONG, INPUT, REFUSED, LATER, LEDGER, BUG, INTERRUPTED = 0, 1, 2, 3, 4, 5, 70, 130
# The first that fits counts.
EXIT_CODES: tuple[tuple[type[Exception] | tuple[type[Exception], ...], int], ...] = (
    (AssistantInputError, INPUT),
    ((AssistantLedgerError, sa.exc.SQLAlchemyError), LEDGER),
    ((AssistantRateLimitError, AssistantServerError), LATER),
    (AssistantAPIError, REFUSED),
    (AssistantError, LATER),
    # A connection that cannot be decoded, a file that cannot be written.
    ((AirflowException, OSError), INPUT),
)
Command: TypeAlias = Callable[[Out, argparse.Namespace], int]


def command(function: Command) -> Callable[[argparse.Namespace], None]:
    """Make a function a command: it is given its output, says its errors there, and its result is the exit code."""

    @functools.wraps(function)
    def run(args: argparse.Namespace) -> None:
        out = Out(as_json=args.output == "json")
        # Or Airflow does not look for connections in its database; its own commands do the same.
        os.environ.setdefault("_AIRFLOW_PROCESS_CONTEXT", "server")
        _log_to(out, args.verbose)
        try:
            # Airflow's own log goes to standard output where a command makes it begin; results go by ``out``.
            with contextlib.redirect_stdout(sys.stderr):
                code = function(out, args)
        except KeyboardInterrupt:
            code = INTERRUPTED
        except BrokenPipeError:
            # Whoever read this has gone, as head does; Python would complain once more when it ends.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            code = INTERRUPTED
        except Exception as error:  # noqa: BLE001 (whatever it is, nobody at a terminal wants a traceback)
            code = failed(out, error)
        sys.exit(code)

    return run


def failed(out: Out, error: Exception) -> int:
    """Say an error, and return its exit code."""
    log.debug("%s", type(error).__name__, exc_info=error)
    code = exit_code(error)
    if code == BUG:
        out.error(f"{type(error).__name__}: {error}. This should not happen; -v shows where.")
        log.info("Here:", exc_info=error)
    else:
        out.error(str(error))
    return code


def exit_code(error: Exception) -> int:
    """Return the exit code of an error."""
    return next((code for kinds, code in EXIT_CODES if isinstance(error, kinds)), BUG)


def connected(out: Out, args: argparse.Namespace) -> AssistantHook:
    """
    Return the hook of the connection that the arguments name, once its key is known not to be shown.

    :raises AssistantInputError: There is no such connection, or it cannot be used.
    """
    try:
        connection = AssistantHook.get_connection(args.conn_id)
    except AirflowNotFoundException:
        variable = f"AIRFLOW_CONN_{args.conn_id.upper()}"
        raise AssistantInputError(
            f"there is no connection {args.conn_id!r}: set {variable}, or make it with 'airflow connections add' or in "
            "the UI, or name another one with --conn-id",
            field="conn_id",
        ) from None
    out.hide(connection.password)
    hook = AssistantHook(args.conn_id, tenant_id=getattr(args, "tenant", None), site_id=getattr(args, "site", None))
    _ = hook.settings
    return hook


def _log_to(out: Out, verbose: bool) -> None:
    """Let this package's log go to standard error by the same way as everything else, so that it has no secrets."""
    log.handlers[:] = [LogLines(out)]
    log.propagate = False
    log.setLevel(logging.INFO if verbose else logging.WARNING)
    # A load shows its bad rows itself.
    logging.getLogger("airflow_provider_assistant.loading.report").setLevel(log.level if verbose else logging.ERROR)
    if not verbose:
        # Airflow warns of every short word in a connection that it does not take for a secret.
        logging.getLogger("airflow").setLevel(logging.ERROR)
    for handler in logging.getLogger().handlers:
        if isinstance(handler, logging.StreamHandler) and handler.stream is sys.stdout:
            # Standard output is for the result; 'airflow' itself does the same.
            handler.setStream(sys.stderr)
