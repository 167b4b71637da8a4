"""``airflow assistant sandbox``: the embedded service in a process of its own, because it shares no code with us."""

from __future__ import annotations

import argparse
import json
import shlex
import signal
import subprocess
import sys

from airflow_provider_assistant.cli.output import Out
from airflow_provider_assistant.cli.running import command


@command
def sandbox(out: Out, args: argparse.Namespace) -> int:
    """Run the embedded service until it is told to end; its connection is what standard output gets."""
    port = [] if args.port is None else ["--port", str(args.port)]
    process = subprocess.Popen(  # noqa: S603 (this Python, and flags that its parser checks)
        [sys.executable, "-m", "airflow_provider_assistant.sandbox", *port, *args.flags],
        stdout=subprocess.PIPE if out.as_json else None,
        text=True,
    )
    # It ends by itself when it is told to, and says how.
    signal.signal(signal.SIGTERM, lambda *_: process.terminate())
    signal.signal(signal.SIGINT, signal.SIG_IGN if sys.stdin.isatty() else lambda *_: process.terminate())
    if process.stdout and (line := process.stdout.readline()):
        name, _, connection = shlex.split(line)[0].partition("=")
        out.result({name: json.loads(connection)})
    return process.wait()
