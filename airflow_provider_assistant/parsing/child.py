"""Start the child process, give it files and pages, and end it if it takes too long."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
from multiprocessing.connection import Connection, Pipe
from types import TracebackType
from typing import Any, Self

from airflow_provider_assistant.parsing.limits import BUSY, MEMORY, SECONDS, UnreadableFileError
from airflow_provider_assistant.parsing.pages import Page

__all__ = ["ChildParser", "UnreadableFileError", "is_installed", "start_process"]

# The kind of a page of a website, which has no suffix.
PAGE = "web page"
# The modules that a file needs, by suffix.
_HTML = ("bs4", "lxml", "markdownify", "webencodings")
_WORD = ("bs4", "lxml", "mammoth", "markdownify")
LIBRARIES = {
    ".docm": _WORD,
    ".docx": _WORD,
    ".htm": _HTML,
    ".html": _HTML,
    ".ipynb": (),
    ".pdf": ("pypdf",),
    ".pptm": ("pptx",),
    ".pptx": ("pptx",),
    ".rst": ("bs4", "docutils", "lxml", "markdownify"),
    ".xhtml": _HTML,
    ".xlsm": ("lxml", "openpyxl"),
    ".xlsx": ("lxml", "openpyxl"),
}


def is_installed(kind: str) -> bool:
    """Return whether the libraries for a suffix are installed."""
    return _missing_library(kind) is None


def _missing_library(kind: str) -> str | None:
    for library in LIBRARIES.get(kind, ()):
        if importlib.util.find_spec(library) is None:
            return library
    return None


# A new process from time to time: what the libraries keep must not count as memory of the next file.
FILES_PER_PROCESS = 500


class ChildParser:
    """
    Parses files and pages in a child process, which starts with the first file. Use it as a context manager.

    :param seconds: Most processor time for a file, in seconds. On the clock, it may take five times as long.
    :param memory: Most memory of the process, in bytes.
    """

    def __init__(self, *, seconds: float = SECONDS, memory: int = MEMORY) -> None:
        self._seconds, self._memory = seconds, memory
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None
        self._files = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def parse(self, kind: str, content: bytes, **details: str) -> Any:
        """
        Return the text of a file or a page.

        :param kind: Suffix of the file's name, in lower case; one of ``LIBRARIES``. ``PAGE`` for a page.
        :param details: Further arguments of the parser of a page.
        :return: ``text``, and what else the parser returns. What is empty is left out.
        :raises UnreadableFileError: The file is damaged, encrypted, too large or takes too long.
        :raises ModuleNotFoundError: A library for this suffix is not installed.
        """
        if "encoding" in details:
            content_type = f"text/html; charset={details['encoding']}"
            selectors = {name: details.get(name, "") for name in ("select", "remove")}
            return _page_of(self.parse(PAGE, content, url="", content_type=content_type, **selectors))
        library = _missing_library(kind)
        if library:
            raise ModuleNotFoundError(f"No module named {library!r}", name=library)
        if self._files >= FILES_PER_PROCESS:
            self.close()
        connection = self._connection or self._start_process()
        self._files += 1
        try:
            connection.send_bytes(json.dumps({"kind": kind, **details}).encode())
            connection.send_bytes(content)
            if connection.poll(BUSY * self._seconds):
                # A reply that begins within the time is short, and arrives at once.
                reply = json.loads(connection.recv_bytes())
            else:
                reply = {"problem": self._slow_problem}
        except (EOFError, OSError):
            process = self._process
            self.close()
            # The system ends a process with this signal after its processor time.
            if process is not None and process.returncode == -signal.SIGXCPU:
                reply = {"problem": self._slow_problem}
            else:
                reply = {"problem": "ends the process that parses it"}
        if "problem" in reply:
            self.close()
            raise UnreadableFileError(reply["problem"])
        return {name: value for name, value in reply.items() if value}

    def close(self) -> None:
        """End the process."""
        if self._connection:
            self._connection.close()
        if self._process:
            self._process.kill()
            self._process.wait()
        self._process = self._connection = None
        self._files = 0

    @property
    def _slow_problem(self) -> str:
        return f"takes longer than {self._seconds:g} seconds to parse"

    def _start_process(self) -> Connection:
        self._process, self._connection = start_process(__package__, self._seconds, self._memory)
        return self._connection


def _page_of(reply: dict[str, Any]) -> Page:
    fields = {name: value for name, value in reply.items() if name != "text"}
    fields["canonical"] = fields.pop("url", "")
    return Page(fields, reply.get("text", ""))


def start_process(module: str, *arguments: float) -> tuple[subprocess.Popen[bytes], Connection]:
    """
    Start a process that knows nothing of this one.

    :param module: Its main module. Its first argument is the descriptor of its end of the connection.
    :param arguments: Its further arguments.
    :return: The process, and this end of the connection.
    """
    connection, child_connection = Pipe()
    descriptor = child_connection.fileno()
    # Nothing else of the environment: connections of Airflow are in it.
    environment = {"PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))}
    for name in ("PATH", "LD_LIBRARY_PATH"):
        if name in os.environ:
            environment[name] = os.environ[name]
    # The child has its own copy of the descriptor, so this one is closed.
    with child_connection:
        process = subprocess.Popen(  # noqa: S603 (the arguments are numbers)
            [sys.executable, "-P", "-m", module, str(descriptor), *map(str, arguments)],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=[descriptor],
        )
    return process, connection
