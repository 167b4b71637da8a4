"""Files to upload: each file is a row, whose key is its name."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import mimetypes
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any, BinaryIO

from airflow_provider_assistant.api.call import Call, Upload
from airflow_provider_assistant.exceptions import NOTHING_SENT, AssistantInputError
from airflow_provider_assistant.keys import short_label
from airflow_provider_assistant.ledger import hash_of
from airflow_provider_assistant.loading.decide import PlannedRow
from airflow_provider_assistant.loading.rows import RowBatch, RowStream, check_count
from airflow_provider_assistant.parsing.pages import Note
from airflow_provider_assistant.storage.opening import StoragePath, open_inside, reason_unreadable
from airflow_provider_assistant.tables.fingerprints import encoded
from airflow_provider_assistant.texts import counted, storable

READ_SIZE = 1 << 20


class FileRows:
    """
    Read files to upload; each file is one document.

    :param files: Pairs of name and path. The name, a path below the given folder, identifies the file.
    :param upload: Returns the upload for a path and the file name that the service sees.
    :param call: Returns the call that creates the document of an upload.
    :param notes: What was left out when the files were listed.
    :param allow_empty: Whether the list may be empty.
    :param allowed_root: Folder that the files must be inside when they are read. Default: None, every folder.
    :raises AssistantInputError: Two files have the same name.
    """

    # Two files of equal content have two names, which answers show.
    can_share = False

    def __init__(
        self,
        files: Sequence[tuple[str, StoragePath]],
        *,
        upload: Callable[[StoragePath, str], Upload],
        call: Callable[[Upload], Call[Any]],
        notes: Sequence[Note] = (),
        allow_empty: bool = False,
        allowed_root: str | None = None,
    ) -> None:
        _check_names(files)
        self._files = files
        self._sent_as = upload_names([name for name, _path in files])
        self._upload = upload
        self._call = call
        self._notes = notes
        self._allow_empty = allow_empty
        self._allowed_root = allowed_root

    def batches(self) -> RowStream:
        """
        Yield the files, one at a time, and what was left out.

        :raises AssistantInputError: There are no files and ``allow_empty`` is False.
        """
        yield from self._notes
        check_count(len(self._files), self._allow_empty)
        for number, (name, path) in enumerate(self._files, start=1):
            yield RowBatch([self._read(number, name, path)])

    def _read(self, number: int, name: str, path: StoragePath) -> PlannedRow:
        row = PlannedRow(
            number,
            hash_of(encoded([name])),
            # No content has this hash.
            hash_of(encoded([name, None])),
            None,
            label=short_label(storable(name)),
            place=f"file {name!r}",
        )
        try:
            content, version = self._content_of(path)
            self._upload(path, self._sent_as[name])
        except AssistantInputError as error:
            return row._replace(reason=str(error))
        except OSError as error:
            return row._replace(reason=_unreadable(path, error))
        return row._replace(content_hash=content, payload=json.dumps({"number": number, "version": version}))

    def _content_of(self, path: StoragePath) -> tuple[str, str]:
        """Return the hash of a file's content, and its version when it was read."""
        content = hashlib.blake2b(digest_size=16)
        version = _version(path)
        with open_inside(path, self._allowed_root) as file:
            while piece := file.read(READ_SIZE):
                content.update(piece)
        return content.hexdigest(), version

    def call(self, payload: str) -> Call[Any]:
        """
        Return the call that uploads a file.

        The upload raises an AssistantInputError if the file has changed since its content was hashed.
        """
        fields = json.loads(payload)
        name, path = self._files[fields["number"] - 1]
        file_name = self._sent_as[name]
        kind, _encoding = mimetypes.guess_type(file_name)
        opened = functools.partial(self._opened, path, file_name, fields["version"])
        return self._call(Upload(opened, file_name, kind or "application/octet-stream"))

    @contextlib.contextmanager
    def _opened(self, path: StoragePath, file_name: str, version: str) -> Iterator[BinaryIO]:
        """Open a file, and refuse it if it is gone or not the one that was hashed."""
        with self._upload(path, file_name).open() as file:
            if _version(path) != version:
                raise AssistantInputError(
                    f"file {str(path)!r} has changed since it was checked", todo="The next run sends it.", field="file"
                )
            yield file


def _version(path: StoragePath) -> str:
    """Return what changes when a file is written: size, time and inode, or the version of an object."""
    try:
        stat = path.stat()
    except OSError as error:
        raise AssistantInputError(_unreadable(path, error), field="file") from error
    facts = getattr(stat, "_info", None) or stat
    if isinstance(facts, dict):
        names = ("size", "ETag", "etag", "md5Hash", "mtime", "LastModified", "last_modified", "updated", "ino")
        return json.dumps([str(facts.get(name)) for name in names])
    return json.dumps([stat.st_size, getattr(stat, "st_mtime_ns", stat.st_mtime), getattr(stat, "st_ino", 0)])


def _unreadable(path: StoragePath, error: OSError) -> str:
    return f"file {str(path)!r} cannot be read: {reason_unreadable(path, error)}"


def _check_names(files: Sequence[tuple[str, StoragePath]]) -> None:
    paths_by_name: defaultdict[str, list[str]] = defaultdict(list)
    for name, path in files:
        paths_by_name[name].append(str(path))
    conflicts = [paths for paths in paths_by_name.values() if len(paths) > 1]
    if conflicts:
        example = " and ".join(map(repr, conflicts[0]))
        raise AssistantInputError(
            f"{counted(len(conflicts), 'file name')} used more than once, such as {example}: a file is "
            "identified by its path below the given folder",
            safe=NOTHING_SENT,
            todo="Pass the common parent folder, or load the folders with two tasks.",
            field="files",
        )


def upload_names(names: Sequence[str]) -> dict[str, str]:
    """
    Return the file name that the service sees for each path, distinct for distinct paths.

    A file that was given by its whole path has its last part. A file of a folder has its path below that folder with
    hyphens instead of slashes, because RFC 7578 asks services to drop everything before a slash. Where names would be
    equal, such as those of ``a/b`` and ``a-b``, a hash tells them apart.

    :param names: Distinct names, see :class:`FileRows`.
    """
    joined = {}
    for name in names:
        is_whole_path = name.startswith("/") or "://" in name
        joined[name] = name.rstrip("/").rpartition("/")[2] if is_whole_path else name.replace("/", "-")
    uses = Counter(joined.values())
    return {name: one if uses[one] == 1 else _with_hash(name, one) for name, one in joined.items()}


def _with_hash(path: str, file_name: str) -> str:
    """Return the file name with a hash of the path before its suffix."""
    stem, dot, suffix = file_name.rpartition(".")
    path_hash = hash_of(path)[:8]
    return f"{stem}-{path_hash}.{suffix}" if dot else f"{file_name}-{path_hash}"
