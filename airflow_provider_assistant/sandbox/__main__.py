"""Run the embedded service: ``python -m airflow_provider_assistant.sandbox``."""

from __future__ import annotations

import logging
import signal
import sqlite3
import sys

from airflow_provider_assistant.sandbox.browsers import is_loopback
from airflow_provider_assistant.sandbox.server import SandboxServer
from airflow_provider_assistant.sandbox.settings import read_settings

PUBLIC = "WARNING: other machines can use it, and its keys are public. Store nothing in it that must stay private."
GENERATED = "Statistics list the last {} days; those before a site stored anything are generated."


def _end(*_: object) -> None:
    """Exit with status 0: a signal is the normal way to stop the service."""
    sys.exit(0)


def main() -> None:
    """Serve until SIGTERM or SIGINT."""
    settings = read_settings()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _end)
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    try:
        server = SandboxServer(settings)
    except OSError as error:
        sys.exit(f"Cannot listen on {settings.host} port {settings.port}: {error.strerror}")
    except sqlite3.Error as error:
        sys.exit(f"Cannot use the data in {settings.data}: {error}")

    with server:
        kept = f"in {settings.data}" if settings.data else "in memory"
        lines = [
            f"The embedded Assistant service listens on {server.url}; its data is {kept}.",
            f"Control plane: {server.root}/_sandbox. End it with Ctrl-C.",
        ]
        if not is_loopback(settings.host):
            lines.append(PUBLIC)
        if settings.history:
            lines.append(GENERATED.format(settings.history))
        lines.append("To use it, write 'export' and the next line in another shell, and start Airflow there:")
        print(*lines, sep="\n", file=sys.stderr, flush=True)  # noqa: T201
        # The last line, because a program that reads it may end this process at once.
        print(f"AIRFLOW_CONN_ASSISTANT_DEFAULT='{server.conn_json()}'", flush=True)  # noqa: T201
        server.wait()


if __name__ == "__main__":
    main()
