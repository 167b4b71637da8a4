"""A PgBouncer for tests, in front of a PostgreSQL server."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.live.postgres import USER, PostgresServer
from tests.live.process import WAIT, Process, free_port, wait_for


def program() -> str | None:
    """Return the path of PgBouncer."""
    return os.environ.get("PGBOUNCER") or shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")


@contextlib.contextmanager
def pgbouncer(server: PostgresServer, pool_mode: str, **settings: object) -> Iterator[int]:
    """Run PgBouncer with two sessions for all clients, and yield its port."""
    found = program()
    assert found
    home = Path(tempfile.mkdtemp(prefix="assistant-pgbouncer-", dir="/tmp"))
    port = free_port()
    (home / "users").write_text(f'"{USER}" ""\n')
    lines = [
        "[databases]",
        f"* = host=127.0.0.1 port={server.port}",
        "[pgbouncer]",
        "listen_addr = 127.0.0.1",
        f"listen_port = {port}",
        "unix_socket_dir =",
        "auth_type = trust",
        f"auth_file = {home}/users",
        f"pool_mode = {pool_mode}",
        "default_pool_size = 2",
        *(f"{name} = {value}" for name, value in settings.items()),
    ]
    (home / "pgbouncer.ini").write_text("\n".join(lines) + "\n")
    # It refuses to run as root.
    user = ("-u", "nobody") if os.geteuid() == 0 else ()
    home.chmod(0o755)
    process = Process(
        "PgBouncer", [found, *user, str(home / "pgbouncer.ini")], env=os.environ, cwd=home, log=home / "log"
    )
    process.start()

    def ready() -> bool:
        process.check()
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 5):
            return True
        return False

    try:
        wait_for("PgBouncer", ready, timeout=WAIT)
        yield port
    finally:
        process.stop()
        shutil.rmtree(home, ignore_errors=True)
