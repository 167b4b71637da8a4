"""Names of tasks, and names of files that every reader of datasets reads."""

from __future__ import annotations

import hashlib
import re

# Names that are used as they are. Upper case is missing because some file systems ignore the case.
PLAIN = re.compile(r"[a-z0-9-][a-z0-9_.~-]*")
# Longest names of a task's file without and with the suffixes of a mapped task, in characters. File systems allow 255
# bytes, and temporary files have longer names.
LONGEST, LONGEST_WITH_SUFFIX = 150, 200
# Task ids that end like the suffix of a mapped task or of a task in a loop.
LIKE_SUFFIX = re.compile(r"\.(\d+|loop.*)$", re.DOTALL)
HASH_LENGTH = 12


def task_name(dag_id: str, task_id: str) -> str:
    """
    Return the name of a task, which no other task has: ``<dag_id>.<task_id>``.

    If another task could have this name, too, a hash of both ids follows after ``~``, which no id contains. DAG
    ``team.sales`` with task ``export`` and DAG ``team`` with task ``sales.export`` are an example.
    """
    name = f"{dag_id}.{task_id}"
    if "." in dag_id or LIKE_SUFFIX.search(task_id):
        return f"{name}~{_hash(f'{dag_id}/{task_id}')}"
    return name


def file_name(text: str, longest: int = LONGEST) -> str:
    """
    Return a text as the name of a file, without extension: different texts have different names.

    A text of lower-case ASCII letters, digits, ``.``, ``_``, ``-`` and ``~`` stays as it is, unless it is too long or
    begins like a name that readers of datasets skip. Any other text becomes a similar one with its hash.

    :param longest: Maximum number of characters.
    """
    if len(text) <= longest and PLAIN.fullmatch(text):
        return text
    similar = re.sub(r"[^A-Za-z0-9_.~-]", "_", text).lower().lstrip("._~")
    kept = similar[: longest - HASH_LENGTH - 1]
    return f"{kept or 'task'}~{_hash(text)}"


def _hash(text: str) -> str:
    # Ids and names may have lone surrogates, which UTF-8 cannot encode.
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:HASH_LENGTH]
