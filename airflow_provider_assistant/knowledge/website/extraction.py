"""The main text of a page."""

from __future__ import annotations

import codecs
import contextlib
import importlib.util
import json
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import NamedTuple, Self

from airflow_provider_assistant.exceptions import AssistantInputError, AssistantTimeoutError

MARKS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
# Not every codec of Python: some take a time that grows with the square of the size.
CHARSET = re.compile(
    r"charset\s*=\s*[\"']?\s*((?:iso-?8859|windows|cp|koi8|gb|big5|euc|shift_jis|utf-16|macintosh)[\w-]*)",
    re.IGNORECASE,
)
# Bytes in which a page names its charset, and what browsers take if it does not.
HEAD, DEFAULT_CHARSET = 2048, "cp1252"
PROCESS = Path(__file__).with_name("extraction_process.py")
# A page of 100 kB takes a tenth of a second.
PAGE_SECONDS = 60.0


class PageText(NamedTuple):
    """
    What a page says.

    :param title: Its title.
    :param content: Its main text, as Markdown.
    :param category: Its first category.
    :param date: When it was published, in ISO format.
    """

    title: str | None
    content: str
    category: str | None
    date: str | None


class Extractor:
    """
    Extracts the main text of pages with trafilatura, in a process that can be killed.

    Use it as a context manager; the process ends with it.

    :param seconds: Longest time for a page. Default: 60.
    :raises AssistantInputError: trafilatura is not installed.
    """

    def __init__(self, seconds: float = PAGE_SECONDS) -> None:
        if not importlib.util.find_spec("trafilatura"):
            raise AssistantInputError(
                "trafilatura is not installed: pip install 'airflow-provider-assistant[website]'", field="source"
            )
        self._seconds = seconds
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def text(self, html: bytes, content_type: str, url: str) -> PageText | None:
        """
        Return the main text of a page, without navigation, headers and footers.

        :param html: The page.
        :param content_type: Value of the header ``Content-Type``.
        :param url: Address of the page, to which relative links are relative.
        :return: The text; None if the page has none.
        :raises AssistantTimeoutError: It takes too long or too much memory, or trafilatura fails.
        """
        answer = self._ask(json.dumps({"html": decoded(html, content_type), "url": url}).encode() + b"\n")
        if not answer.endswith(b"\n"):
            self._end()
            raise AssistantTimeoutError(
                f"the main text of {url} cannot be extracted: it takes longer than {self._seconds:g} s or more than 2 "
                "GB of memory, or trafilatura fails. Leave the page out with include=…"
            )
        found = json.loads(answer)
        return None if found is None else PageText(**found)

    def _ask(self, page: bytes) -> bytes:
        """Return the answer of the process; it does not end with a line break if the process has ended."""
        process = self._process or subprocess.Popen(  # noqa: S603 (a file of this package)
            [sys.executable, "-P", str(PROCESS)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self._process = process
        assert process.stdin  # noqa: S101 (it is a pipe)
        assert process.stdout  # noqa: S101 (it is a pipe)
        timer = threading.Timer(self._seconds, process.kill)
        timer.daemon = True
        timer.start()
        try:
            process.stdin.write(page)
            process.stdin.flush()
            return process.stdout.readline()
        except BrokenPipeError:
            return b""
        finally:
            timer.cancel()

    def _end(self) -> None:
        if self._process:
            self._process.kill()
            # Closes the pipes, too. What could not be written is not needed any more.
            with contextlib.suppress(BrokenPipeError):
                self._process.communicate()
            self._process = None


def decoded(html: bytes, content_type: str) -> str:
    """
    Return a page as text.

    UTF-8 is tried before the charset that the page names: text in another charset is hardly ever valid UTF-8, but pages
    in UTF-8 often name another charset.

    :param html: The page.
    :param content_type: Value of the header ``Content-Type``.
    :return: The text; what is invalid is replaced.
    """
    for mark, encoding in MARKS.items():
        if html.startswith(mark):
            return html.decode(encoding, "replace")
    with contextlib.suppress(UnicodeDecodeError):
        return html.decode("utf-8")
    for named in (content_type, html[:HEAD].decode("latin-1")):
        charset = CHARSET.search(named)
        with contextlib.suppress(LookupError, UnicodeError):
            if charset:
                return html.decode(charset[1], "replace")
    return html.decode(DEFAULT_CHARSET, "replace")
