"""The child process: reads files and pages from a connection, and answers with their text."""

from __future__ import annotations

import json
import logging
import math
import resource
import sys
import time
import unicodedata
import warnings
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from airflow_provider_assistant.parsing.child import PAGE
from airflow_provider_assistant.parsing.html import parse_html
from airflow_provider_assistant.parsing.limits import MOST_CHARACTERS, UnreadableFileError, limit_resource
from airflow_provider_assistant.parsing.notebook import parse_notebook
from airflow_provider_assistant.parsing.office import parse_pptx, parse_xlsx
from airflow_provider_assistant.parsing.page import parse_page
from airflow_provider_assistant.parsing.pdf import parse_pdf
from airflow_provider_assistant.parsing.word import parse_docx


def _parse_rst(content: bytes) -> dict[str, Any]:
    # The module needs docutils when it is imported.
    from airflow_provider_assistant.parsing.rst import parse_rst

    return parse_rst(content)


PARSERS: dict[str, Callable[..., dict[str, Any]]] = {
    ".docm": parse_docx,
    ".docx": parse_docx,
    ".htm": parse_html,
    ".html": parse_html,
    ".ipynb": parse_notebook,
    ".pdf": parse_pdf,
    ".pptm": parse_pptx,
    ".pptx": parse_pptx,
    ".rst": _parse_rst,
    ".xhtml": parse_html,
    ".xlsm": parse_xlsx,
    ".xlsx": parse_xlsx,
    PAGE: parse_page,
}
# A line break and a tab are text, other control characters are not.
_KEPT_CONTROLS = "\n\t"


def answer(kind: str, content: bytes, **details: str) -> dict[str, Any]:
    """
    Parse a file or a page.

    :param kind: Key of its parser in ``PARSERS``.
    :param details: Further arguments of the parser.
    :return: What its parser returns, or ``problem``: why it cannot be read.
    """
    try:
        parsed = PARSERS[kind](content, **details)
    except UnreadableFileError as error:
        return {"problem": str(error)}
    except (MemoryError, RecursionError) as error:
        return {"problem": f"is too large or nested too deeply ({type(error).__name__})"}
    except Exception as error:  # noqa: BLE001 (the libraries raise anything for a damaged file)
        # Not the text of the error: it may quote the file.
        expected = kind
        if kind != PAGE:  # a suffix, such as ".pdf"
            expected = f"{kind} file"
        return {"problem": f"is damaged or not a {expected} ({type(error).__name__})"}
    if len(parsed["text"] or "") > MOST_CHARACTERS:
        return {"problem": f"has more than {MOST_CHARACTERS:,} characters of text"}
    # Empty values and lists stay as they are.
    return {name: _plain_text(value) if isinstance(value, str) else value for name, value in parsed.items()}


def _plain_text(text: str) -> str:
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    # UTF-8 has no lone surrogates, so they become question marks.
    text = text.encode("utf-8", "replace").decode()
    if text.isprintable():
        return text
    kept = (char for char in text if char in _KEPT_CONTROLS or unicodedata.category(char) != "Cc")
    return "".join(kept)


def main(descriptor: int, seconds: float, memory: int) -> None:
    """
    Answer until the connection is closed.

    :param descriptor: File descriptor of the connection.
    :param seconds: Processor time for each file. The system ends the process after it, even if its parent has died.
    :param memory: Largest address space of the process, in bytes.
    """
    limit_resource(resource.RLIMIT_AS, memory)
    limit_resource(resource.RLIMIT_CORE, 0)
    # Some mail programs nest quotations a thousand deep.
    sys.setrecursionlimit(10_000)
    # What remains on stderr is the error of a process that cannot start.
    logging.disable()
    warnings.simplefilter("ignore")
    connection = Connection(descriptor)
    while True:
        try:
            # Two messages for each file: kind and details, then the content.
            details = json.loads(connection.recv_bytes())
            content = connection.recv_bytes()
        except EOFError:
            return
        limit_resource(resource.RLIMIT_CPU, math.ceil(time.process_time() + seconds))
        reply = answer(content=content, **details)
        connection.send_bytes(json.dumps(reply).encode())


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]))
