"""The folder in which ``evaluate`` keeps answers and verdicts as they arrive, until the evaluation is complete."""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import hashlib
import json
import logging
import shutil
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa
from airflow.providers.common.compat.sdk import ObjectStoragePath

from airflow_provider_assistant.exceptions import NOTHING_SENT, AssistantInputError
from airflow_provider_assistant.ledger import Ledger, Site, sqlite_engine
from airflow_provider_assistant.ledger.location import airflow_home
from airflow_provider_assistant.ledger.schema import attempts
from airflow_provider_assistant.storage.private import make_folder, open_to_write

ID, LOCK, LEDGER = "id", "lock", "ledger.db"
# Seconds after which an interrupted run is not resumed: its answers are those of another assistant by then.
TOO_OLD = 24 * 3600.0
# Arguments that change what is asked.
ASKED = ("key", "column", "session", "turn", "repeat", "mode", "save")

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Unfinished:
    """
    A run of ``evaluate``.

    :param id: Unique id, of which its sessions are made.
    :param is_resumed: Whether an earlier command was interrupted.
    :param is_complete: Whether the evaluation is complete, so that the folder can be deleted.
    """

    folder: Path
    id: str
    is_resumed: bool
    is_complete: bool = False

    def ledger(self) -> Ledger:
        """Open the ledger of this run, in which every question is claimed before it is sent."""
        ledger = Ledger(sqlite_engine(self.folder / LEDGER), warn_if_new=False)
        # The process that left a claim is dead: this one has the lock of the folder.
        with ledger.engine.begin() as connection:
            connection.execute(sa.update(attempts).values(alive_until=None))
        return ledger


def folder_of(args: argparse.Namespace, save: ObjectStoragePath | None, site: Site | None) -> Path:
    """
    Return the local folder in which an evaluation is kept until it is complete: the same for the same questions.

    :param save: Folder of ``--save``. If it is local, the folder is within it.
    """
    # Not resolved: a link may lead to the newest export.
    file = Path(args.answers or args.file).absolute()
    asked = [str(file), str(site) if site else None, *(getattr(args, name) for name in ASKED)]
    digest = hashlib.sha256(json.dumps(asked).encode()).hexdigest()[:12]
    if save is not None and save.protocol in {"file", ""}:
        return Path(save.path) / "unfinished" / digest
    return airflow_home() / "assistant_evaluations" / f"{file.stem}-{digest}"


@contextlib.contextmanager
def unfinished_run(folder: Path, *, now: float | None = None) -> Iterator[Unfinished]:
    """
    Resume the interrupted run in a folder, or begin a new one, for a ``with`` block. A complete one is deleted.

    :param now: Time of the clock. Default: the current time.
    :raises AssistantInputError: The folder cannot be written, or another process uses it.
    """
    try:
        make_folder(folder)
        lock = open_to_write(folder / LOCK)
    except OSError as error:
        raise AssistantInputError(
            f"answers cannot be kept in {folder}: {error.strerror}",
            safe=NOTHING_SENT,
            todo="Give --save a folder that can be written.",
            field="--save",
        ) from error
    with lock:
        try:
            fcntl.flock(lock.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise AssistantInputError(
                f"another process is running this evaluation, and keeps its answers in {folder}",
                safe=NOTHING_SENT,
                todo="Wait for it.",
            ) from None
        except OSError:
            log.debug("The file system of %s has no locks.", folder)
        run = _run_in(folder, time.time() if now is None else now)
        yield run
        if run.is_complete:
            shutil.rmtree(folder)
            # Only an empty folder can be deleted.
            with contextlib.suppress(OSError):
                folder.parent.rmdir()


def _run_in(folder: Path, now: float) -> Unfinished:
    """Return the run in a folder. If there is none, or it is too old, delete what is there, and begin a new one."""
    file = folder / ID
    if file.exists() and now - file.stat().st_mtime < TOO_OLD:
        return Unfinished(folder, file.read_text(encoding="utf-8"), is_resumed=True)
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name != LOCK:
            path.unlink()
    run_id = uuid.uuid4().hex
    with open_to_write(file) as opened:
        opened.write(run_id.encode())
    return Unfinished(folder, run_id, is_resumed=False)
