"""The demo's folder of other people's files: what is read of it, what is left out and why, and what the site stores."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from tests.traps import Traps, knowledge_traps

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from tests.live.screen import Screen

TIMEOUT = 120


def load(folder: Path, env: Mapping[str, str]) -> tuple[Traps, dict[str, Any], dict[str, Any]]:
    """
    Write the folder, preview it, and load its chunks.

    :return: The traps; the result of ``airflow assistant knowledge preview``; and the counts of the load.
    """
    from airflow_provider_assistant.knowledge import file_documents, split_documents, write_documents

    traps = knowledge_traps()
    traps.write(folder)
    preview = _result(["knowledge", "preview", str(folder), "--size", "500"], env)
    chunks = folder.with_suffix(".parquet")
    write_documents(split_documents(file_documents(folder), 500), chunks)
    options = ["--kind", "text", "--key", "key", "--group", "parent", "--source-name", "traps"]
    return traps, preview, _result(["load", str(chunks), *options], env)


def _result(arguments: list[str], env: Mapping[str, str]) -> dict[str, Any]:
    command = [sys.executable, "-m", "airflow", "assistant", *arguments, "--output", "json"]
    done = subprocess.run(command, env=dict(env), capture_output=True, text=True, timeout=TIMEOUT, check=False)
    result: dict[str, Any] = json.loads(done.stdout or "{}")
    return result


def show(screen: Screen, preview: dict[str, Any], loaded: dict[str, Any]) -> None:
    """Show the account of the folder."""
    read = ", ".join(f"{count} {unit}s read" for unit, count in preview["read"].items())
    screen.show("A folder as other people write it: what was read, what was left out and why", read)
    rows = []
    for left_out in preview["left_out"]:
        weight = "expected" if left_out["is_expected"] else "warning"
        rows.append([weight, left_out["count"], left_out["unit"], left_out["reason"], left_out["examples"][0]])
    screen.table(["", "count", "unit", "left out, because it", "such as"], rows)
    screen.show("", f"{loaded['created']} of {loaded['rows']} chunks were created, {loaded['rejected']} rejected")


def problem_of(traps: Traps, loaded: dict[str, Any], documents: Iterable[dict[str, Any]]) -> str | None:
    """
    Return what is wrong with the load, or None.

    :param documents: All documents of the site, as the service has them.
    """
    if not loaded or loaded["created"] != loaded["rows"]:
        return f"the load of the folder of traps: {loaded}"
    text = "\n".join(f"{document['title']}\n{document['content']}" for document in documents)
    lost = [word for word in traps.kept if word not in text]
    leaked = [word for word in traps.dropped if word in text]
    if lost or leaked:
        return f"of the folder of traps, the site lacks {lost}, and has {leaked}, which should be left out"
    return None
