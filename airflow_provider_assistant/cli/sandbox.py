"""``airflow assistant sandbox``: run the embedded service in a separate process."""

from __future__ import annotations

import argparse
import json
import shlex
import signal
import subprocess
import sys

from airflow_provider_assistant.cli.output import Console
from airflow_provider_assistant.cli.runner import command


@command
def sandbox(out: Console, args: argparse.Namespace) -> int:
    """Run the embedded service until it is stopped. Write its connection to standard output."""
    port = [] if args.port is None else ["--port", str(args.port)]
    process = subprocess.Popen(  # noqa: S603 (this Python, and flags that its parser checks)
        [sys.executable, "-m", "airflow_provider_assistant.sandbox", *port, *args.flags],
        stdout=None if out.is_for_people else subprocess.PIPE,
        text=True,
    )
    # Forward signals: the service stops by itself and writes a message.
    signal.signal(signal.SIGTERM, lambda *_: process.terminate())
    signal.signal(signal.SIGINT, signal.SIG_IGN if sys.stdin.isatty() else lambda *_: process.terminate())
    if process.stdout and (line := process.stdout.readline()):
        name, _, connection = shlex.split(line)[0].partition("=")
        out.result({name: json.loads(connection)})
    return process.wait()
