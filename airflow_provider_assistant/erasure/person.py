"""Find the rows and texts that belong to a person: by session, request, e-mail address or label."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from airflow_provider_assistant.api.privacy import unescaped, user_label

if TYPE_CHECKING:
    import pyarrow as pa

# Columns and fields whose whole value is an id of a session or request. An item is that of a list of sessions.
ID_NAMES = {"session_id", "request_id", "item"}
# Columns about the task or the place. A session may have the id of a DAG run, which is in every row of that run.
PLACES = {
    *("dag_id", "run_id", "task_id", "region", "logical_date", "scope", "site_url", "site_id", "tenant_id"),
    *("service", "source", "name", "namespace", "endpoint", "path", "batch"),
}
# Columns that identify an item of a reply, of which all rows are erased.
ITEM = ("captured_at", "tenant_id", "site_id", "read", "item")
# An id is searched in texts if it is this long and has a digit, or if it is as long as LONG. Others are also words.
DISTINCTIVE, LONG = 8, 20
# Words of an answer that a page shows at least.
EXCERPT = 10
_TOKEN = re.compile(r"[A-Za-z0-9_-]{8,}")
_LABEL = re.compile(r"user-[0-9a-f]{12}")
# A text without any of these has no @, however it is escaped.
_AT = re.compile(r"@|%(?:40|25|26|5c|ef)|&[#a-z]|\\+u(?:00|fe6b|ff20)|[\ufe6b\uff20]", re.IGNORECASE)
_ESCAPES = re.compile(r"[%&\\]")


class Person:
    """
    What identifies the data of one or several people.

    Sessions and requests are added while the places are read, see :meth:`learn`.

    :param sessions: Ids of sessions.
    :param emails: E-mail addresses, in any case.
    """

    def __init__(self, sessions: Iterable[str] = (), emails: Iterable[str] = ()) -> None:
        self.emails = {unescaped(email).strip() for email in emails}
        self.labels = {user_label(email) for email in self.emails}
        self.sessions = set(sessions)
        self.requests: set[str] = set()
        # Words of questions with those of their answers, for files that have these but no ids.
        self.exchanges: set[tuple[str, str]] = set()
        # What _distinctive_ids() has computed, and from how many ids.
        self._known = 0
        self._plain_ids: set[str] = set()
        self._other_ids: re.Pattern[str] | None = None
        self._address = re.compile("|".join(map(_address_pattern, sorted(self.emails))))

    @property
    def size(self) -> int:
        """Number of things that are known, which grows while this learns."""
        return len(self.sessions) + len(self.requests) + len(self.exchanges)

    def is_named(self, value: Any) -> bool:
        """Return whether a value is an address or a label, and nothing else."""
        if not isinstance(value, str):
            return False
        return value in self.labels or unescaped(value).strip() in self.emails

    def owns(self, session_id: str | None, request_id: str | None, *texts: str) -> bool:
        """
        Return whether a chat request or a rating of the ledger is the person's, and learn its ids.

        :param texts: Its readable key, such as the session, and its error.
        """
        is_named = self.is_named(session_id) or any(map(self.is_named, texts))
        has_id = session_id in self.sessions or request_id in self.requests or not self.sessions.isdisjoint(texts)
        if not (is_named or has_id or any(map(self.is_in, texts))):
            return False
        if request_id:
            self.requests.add(request_id)
        if is_named and session_id:
            self.sessions.add(session_id)
        return True

    def is_in(self, text: str) -> bool:
        """Return whether a text contains an address, a label or a distinctive id."""
        if self.has_address(text):
            return True
        plain_ids, other_ids = self._distinctive_ids()
        if plain_ids and not plain_ids.isdisjoint(_TOKEN.findall(text)):
            return True
        return other_ids is not None and other_ids.search(unescaped(text)) is not None

    def has_address(self, text: str) -> bool:
        """Return whether a text contains an address or a label."""
        if self.labels and not self.labels.isdisjoint(_LABEL.findall(text)):
            return True
        if not self.emails or not _AT.search(text):
            return False
        is_plain = text.isascii() and not _ESCAPES.search(text)
        shown = text.lower() if is_plain else unescaped(text)
        return self._address.search(shown) is not None

    def is_quoted(self, text: str) -> bool:
        """Return whether a page shows a question of the person with its answer, or the beginning of it."""
        shown = _words(text)
        return any(question in shown and answer in shown for question, answer in self.exchanges)

    def _distinctive_ids(self) -> tuple[set[str], re.Pattern[str] | None]:
        """Return the ids to search in texts: those that are one token, and a pattern of the others."""
        if self._known != len(self.sessions) + len(self.requests):
            self._known = len(self.sessions) + len(self.requests)
            distinctive = set(filter(_is_distinctive, self.sessions | self.requests))
            self._plain_ids = set(filter(_TOKEN.fullmatch, distinctive))
            others = [re.escape(unescaped(one)) for one in sorted(distinctive - self._plain_ids)]
            self._other_ids = re.compile(rf"(?<![\w-])(?:{'|'.join(others)})(?![\w-])") if others else None
        return self._plain_ids, self._other_ids

    def rows(self, table: pa.Table) -> pa.ChunkedArray:
        """Return for each row of a table whether it is erased."""
        import pyarrow as pa
        import pyarrow.compute as pc

        is_erased = pa.chunked_array([pa.repeat(False, table.num_rows)])
        for name in table.column_names:
            column = _as_text(table[name])
            if column is None:
                continue
            found = [value for value in column.unique().to_pylist() if value and self._is_erased(name, value)]
            if found:
                is_erased = pc.or_(is_erased, pc.is_in(column, pa.array(found, column.type)))
        if {"read", "item"} <= set(table.column_names):
            is_erased = _whole_items(table, is_erased)
        return is_erased

    def _is_erased(self, name: str, value: str) -> bool:
        if name in ID_NAMES:
            return value in self.sessions or value in self.requests or self.has_address(value)
        if name in PLACES:
            return self.has_address(value)
        return self.is_in(value)

    def learn(self, table: pa.Table) -> pa.ChunkedArray:
        """
        Add the sessions and requests of the erased rows of a table, and return what :meth:`rows` then returns.

        The session of a row is the person's if an address or a label is the whole value of one of its columns. An
        address within a text, which another person may have written, erases the row and its request only.
        """
        known = self.size
        is_erased = self.rows(table)
        erased = table.filter(is_erased)
        names = [name for name in erased.column_names if _as_text(erased[name]) is not None]
        for row in erased.select(names).to_pylist():
            self._learn(row)
            raw = row.get("raw")
            if isinstance(raw, str):
                with contextlib.suppress(ValueError, RecursionError):
                    self.learn_json(json.loads(raw))
        # What was added may name further rows.
        return is_erased if self.size == known else self.rows(table)

    def learn_json(self, value: Any) -> None:
        """Add the sessions and requests of the person's objects in a JSON value, as :meth:`learn` does."""
        if isinstance(value, dict):
            if self._is_object_of(value):
                self._learn(value)
            value = list(value.values())
        if isinstance(value, list):
            for member in value:
                self.learn_json(member)

    def _learn(self, row: Mapping[str, Any]) -> None:
        request_id, session_id = row.get("request_id"), row.get("session_id")
        if isinstance(request_id, str) and request_id:
            self.requests.add(request_id)
        question, answer = row.get("message") or row.get("question"), row.get("answer")
        if isinstance(question, str) and isinstance(answer, str):
            self.exchanges.add((_words(question), _words(answer, EXCERPT)))
        if session_id is None and "session" in str(row.get("read")):
            session_id = row.get("item")
        if isinstance(session_id, str) and session_id and any(map(self.is_named, row.values())):
            self.sessions.add(session_id)

    def _is_object_of(self, json_object: Mapping[str, Any]) -> bool:
        texts = {name: value for name, value in json_object.items() if isinstance(value, str)}
        return any(self._is_erased(name, value) for name, value in texts.items())

    def without(self, value: Any, keys: Iterable[str] = ()) -> tuple[Any, int]:
        """
        Remove what belongs to the person from a JSON value.

        The smallest object or list item goes that holds it, or the member of an object whose name holds it.

        :param keys: Keys of questions of the person in the files of one evaluation.
        :return: The value, None if all of it goes, and the number of objects and items that were removed.
        """
        keys = set(keys)
        if isinstance(value, str):
            is_erased = value in self.sessions or value in keys or self.is_in(value)
            return (None, 1) if is_erased else (value, 0)
        if isinstance(value, dict):
            if self._is_object_of(value) or value.get("key") in keys:
                return None, 1
            members = {}
            removed = 0
            for name, member in value.items():
                kept, count = member, 0
                if self.is_in(name):
                    kept, count = None, 1
                elif not isinstance(member, str):
                    kept, count = self.without(member, keys)
                removed += count
                if kept is not None or not count:
                    members[name] = kept
            return members, removed
        if isinstance(value, list):
            items = [self.without(item, keys) for item in value]
            removed = sum(count for _, count in items)
            kept = [item for item, count in items if not (count and item is None)]
            return kept, removed
        return value, 0


def _words(text: str, most: int | None = None) -> str:
    """Return the words of a text: a page may break its lines, and escape some characters."""
    words = re.findall(r"\w+", unescaped(re.sub(r"\\[nrt]", " ", text)))
    return f" {' '.join(words[:most])} "


def _address_pattern(email: str) -> str:
    """Return a pattern for an address that is not a part of a longer one."""
    return rf"(?<![^\W_])(?<![^\W_][.+_-]){re.escape(email)}(?![^\W_]|[._-][^\W_])"


def _is_distinctive(one: str) -> bool:
    return len(one) >= LONG or (len(one) >= DISTINCTIVE and any(map(str.isdigit, one)))


def _as_text(column: pa.ChunkedArray) -> pa.ChunkedArray | None:
    """Return a column of texts, or of lists of texts as JSON; None for other types."""
    import pyarrow as pa

    kind = column.type
    if pa.types.is_dictionary(kind):
        return _as_text(column.cast(kind.value_type))
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return column
    if pa.types.is_nested(kind):
        texts = [json.dumps(value, default=str) for value in column.to_pylist()]
        return pa.chunked_array([pa.array(texts, pa.string())])
    return None


def _whole_items(table: pa.Table, is_erased: pa.ChunkedArray) -> pa.ChunkedArray:
    """Add the other rows of each item of a reply that has an erased row."""
    import pyarrow as pa

    names = [name for name in ITEM if name in table.column_names]
    columns = [table[name].to_pylist() for name in names]
    items = list(zip(*columns, strict=True))
    flags = is_erased.to_pylist()
    erased = {item for item, flag in zip(items, flags, strict=True) if flag and item[-1] is not None}
    return pa.chunked_array([pa.array([flag or item in erased for item, flag in zip(items, flags, strict=True)])])
