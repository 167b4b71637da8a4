"""
Parse files of strangers in a child process with limits of time and memory.

:class:`ChildParser` is the parent's side, :func:`serve` the child's.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import json
import logging
import math
import os
import resource
import signal
import subprocess
import sys
import time
import traceback
import unicodedata
import warnings
from collections.abc import Iterator
from dataclasses import asdict
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import Any, Self

from airflow_provider_assistant.parsing.pages import Note, Page

# Bytes of a file, of the members of its archive, and characters of its text.
LARGEST_FILE, LARGEST_ARCHIVE, MOST_CHARACTERS = 100_000_000, 400_000_000, 10_000_000
# Members of its archive, and pages.
MOST_MEMBERS, MOST_PAGES = 10_000, 5_000
# Of one file: seconds of processor time, and bytes of memory.
SECONDS, MEMORY = 120, 2 * 2**30
# On the clock, a file may take this many times as long, because a busy machine does not work on it all the time.
WALL_CLOCK_FACTOR = 5
# After these, a new process starts: what the libraries keep must not count as memory of the next file.
FILES_PER_PROCESS = 500
# Some mail programs nest quotations a thousand deep.
RECURSION_LIMIT = 10_000

# Modules of other packages that a module of this package needs.
_LIBRARIES = {
    "html": ("bs4", "lxml", "markdownify", "webencodings"),
    "pdf": ("pypdf",),
    "sheets": ("bs4", "lxml", "markdownify", "openpyxl"),
    "slides": ("bs4", "lxml", "markdownify"),
    "word": ("bs4", "lxml", "mammoth", "markdownify"),
}
# The module whose function ``page`` turns the bytes of a file into a page, by the suffix of the file's name.
FORMATS = {
    ".docm": "word",
    ".docx": "word",
    ".htm": "html",
    ".html": "html",
    ".pdf": "pdf",
    ".pptm": "slides",
    ".pptx": "slides",
    ".xhtml": "html",
    ".xlsm": "sheets",
    ".xlsx": "sheets",
}


class UnreadableFileError(ValueError):
    """
    A file is damaged, encrypted or too large.

    :param problem: What is wrong, as a predicate without a full stop, such as ``is encrypted``.
    """


@contextlib.contextmanager
def library_call() -> Iterator[None]:
    """
    Report whatever a library raises for a file as damage of the file.

    Only calls of libraries belong in this block: an error of this package is not the file's fault.

    :raises UnreadableFileError: The library raised an error. The text of the error is left out: it may quote the file.
    """
    try:
        yield
    except (MemoryError, RecursionError, UnreadableFileError):
        raise
    except Exception as error:  # noqa: BLE001 (the libraries raise anything)
        raise UnreadableFileError(f"is damaged ({type(error).__name__})") from None


class ChildParser:
    """
    Parses files in a child process, which starts with the first file. Use it as a context manager.

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

    def __exit__(self, *_: object) -> None:
        self.close()

    def parse(self, kind: str, content: bytes, **options: Any) -> Page:
        """
        Return a file as Markdown.

        :param kind: Suffix of the file's name, in lower case; one of ``FORMATS``.
        :param options: Options of the parser of this format, as JSON has them.
        :raises UnreadableFileError: The file is damaged, encrypted, too large or takes too long.
        :raises ModuleNotFoundError: A library for this suffix is not installed.
        """
        for library in _LIBRARIES[FORMATS[kind]]:
            if importlib.util.find_spec(library) is None:
                raise ModuleNotFoundError(f"No module named {library!r}", name=library)
        if self._files >= FILES_PER_PROCESS:
            self.close()
        self._files += 1
        reply = self._reply({"kind": kind, "options": options}, content)
        if "problem" in reply:
            self.close()
            raise UnreadableFileError(reply["problem"])
        notes = [Note(**note) for note in reply["notes"]]
        return Page(reply["fields"], reply["text"], notes)

    def close(self) -> None:
        """End the process."""
        if self._connection:
            self._connection.close()
        if self._process:
            self._process.kill()
            self._process.wait()
        self._process = self._connection = None
        self._files = 0

    def _reply(self, request: dict[str, Any], content: bytes) -> dict[str, Any]:
        too_slow = {"problem": f"takes longer than {self._seconds:g} seconds to parse"}
        if self._process is None or self._connection is None:
            self._process, self._connection = start_process(__package__, self._seconds, self._memory)
        process, connection = self._process, self._connection
        try:
            connection.send_bytes(json.dumps(request).encode())
            connection.send_bytes(content)
            if not connection.poll(WALL_CLOCK_FACTOR * self._seconds):
                return too_slow
            # A reply that begins within the time is short, and arrives at once.
            reply: dict[str, Any] = json.loads(connection.recv_bytes())
        except (EOFError, OSError):
            self.close()
            # The system ends a process with this signal after its processor time.
            if process.returncode == -signal.SIGXCPU:
                return too_slow
            return {"problem": "ends the process that parses it"}
        return reply


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


def serve(descriptor: int, seconds: float, memory: int) -> None:
    """
    Parse what the parent sends until it closes the connection.

    :param descriptor: File descriptor of the connection.
    :param seconds: Processor time for each file. The system ends the process after it, even if its parent has died.
    :param memory: Largest address space of the process, in bytes.
    """
    limit_resource(resource.RLIMIT_AS, memory)
    limit_resource(resource.RLIMIT_CORE, 0)
    sys.setrecursionlimit(RECURSION_LIMIT)
    # What remains on stderr is the error of a process that cannot start.
    logging.disable()
    warnings.simplefilter("ignore")
    connection = Connection(descriptor)
    while True:
        try:
            request = json.loads(connection.recv_bytes())
            content = connection.recv_bytes()
        except EOFError:
            return
        limit_resource(resource.RLIMIT_CPU, math.ceil(time.process_time() + seconds))
        reply = _answer(request["kind"], content, request["options"])
        connection.send_bytes(json.dumps(reply).encode())


def limit_resource(kind: int, value: int) -> None:
    """
    Limit a resource of this process.

    :param kind: One of the constants of ``resource``, such as ``RLIMIT_CPU``.
    """
    _, hard_limit = resource.getrlimit(kind)
    soft_limit = value
    if hard_limit != resource.RLIM_INFINITY:
        soft_limit = min(value, hard_limit)
    with contextlib.suppress(ValueError, OSError):  # macOS does not limit the address space
        resource.setrlimit(kind, (soft_limit, hard_limit))


def _answer(kind: str, content: bytes, options: dict[str, Any]) -> dict[str, Any]:
    """Return the page of a file, or ``problem``: why it cannot be read."""
    try:
        return asdict(_parsed(kind, content, options))
    except UnreadableFileError as error:
        return {"problem": str(error)}
    except (MemoryError, RecursionError) as error:
        return {"problem": f"is too large or nested too deeply ({type(error).__name__})"}
    except Exception as error:  # noqa: BLE001 (the parent must learn of any fault)
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{type(error).__name__} in {Path(place.filename).name}, line {place.lineno}"
        return {"problem": f"cannot be parsed because of a fault of this package ({where}): please report it"}


def _parsed(kind: str, content: bytes, options: dict[str, Any]) -> Page:
    module = importlib.import_module(f"{__package__}.{FORMATS[kind]}")
    page: Page = module.page(content, **options)
    if len(page.text) > MOST_CHARACTERS:
        raise UnreadableFileError(f"has more than {MOST_CHARACTERS:,} characters of text")
    page.text = _plain_text(page.text)
    for name, value in page.fields.items():
        page.fields[name] = _plain_text(value) if isinstance(value, str) else list(map(_plain_text, value))
    return page


def _plain_text(text: str) -> str:
    """Return a text without control characters and halves of characters, with the line breaks of Python."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    # UTF-8 has no lone surrogates, so they become question marks.
    text = text.encode("utf-8", "replace").decode()
    if text.isprintable():
        return text
    kept = (char for char in text if char in "\n\t" or unicodedata.category(char) != "Cc")
    return "".join(kept)
