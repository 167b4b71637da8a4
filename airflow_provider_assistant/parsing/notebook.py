"""Jupyter notebooks as Markdown."""

from __future__ import annotations

import json
import re
from typing import Any

from airflow_provider_assistant.parsing.limits import Text

# Cells that Jupyter Book does not show.
_NOT_SHOWN = frozenset({"remove-cell", "remove_cell"})


def parse_notebook(content: bytes) -> dict[str, Any]:
    """Return the text of a notebook: its Markdown and its code, without output."""
    notebook = json.loads(content.decode("utf-8-sig"))
    language = notebook.get("metadata", {}).get("language_info", {}).get("name", "")
    text = Text()
    for cell in notebook["cells"]:
        if not _NOT_SHOWN.isdisjoint(cell.get("metadata", {}).get("tags", [])):
            continue
        # A list of lines, or one text.
        source = "".join(cell["source"])
        if cell["cell_type"] == "code":
            source = _fenced(source, language)
        text.add(source)
    return {"text": str(text)}


def _fenced(code: str, language: str) -> str:
    if not code.strip():
        return ""
    longest = max(map(len, re.findall(r"`{3,}", code)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{code.strip()}\n{fence}"
