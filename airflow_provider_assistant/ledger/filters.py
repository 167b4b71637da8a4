"""
Which attempts a query concerns: words for their lists, and the values that a person or a task selects by.

Superseded, stale, doubled and draft are conditions over attempts, and never stored.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Literal, TypeAlias

import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles

from airflow_provider_assistant.api.document_state import DEFAULT_WORDS
from airflow_provider_assistant.ledger.schema import (
    DOCUMENT_KINDS,
    HAS_OTHER_STATUS,
    IS_OPEN,
    IS_REPEATED,
    IS_UNRESOLVED,
    MAY_BE_MORE,
    UNRESOLVED,
    Kind,
    RunRef,
    attempts,
    is_in,
)
from airflow_provider_assistant.ledger.scopes import Site

# Lists of attempts that a person can ask for.
Which: TypeAlias = Literal[
    "created", "unresolved", "doubled", "superseded", "stale", "draft", "rejected", "failed", "open"
]
Condition: TypeAlias = sa.ColumnElement[bool]


class _WithoutIndex(sa.sql.functions.FunctionElement[str]):
    """A column whose indexes SQLite does not use for a condition. PostgreSQL knows itself which ones are small."""

    type = sa.String()
    inherit_cache = True


@compiles(_WithoutIndex)
def _column(element: _WithoutIndex, compiler: Any, **options: Any) -> str:
    return str(compiler.process(element.clauses, **options))


@compiles(_WithoutIndex, "sqlite")
def _column_of_sqlite(element: _WithoutIndex, compiler: Any, **options: Any) -> str:
    return f"+{compiler.process(element.clauses, **options)}"


_c = attempts.c
_IS_CREATED = _c.state == sa.literal_column("'created'")
_IS_DOCUMENT = is_in(_c.kind, DOCUMENT_KINDS) & _IS_CREATED


def _has(other: sa.FromClause, *conditions: Condition) -> Condition:
    """Return whether there is another attempt with these properties."""
    return sa.exists().where(*conditions).correlate_except(other)


def _is_same_key(other: sa.FromClause, one: sa.FromClause = attempts) -> Condition:
    return sa.and_(other.c.scope == one.c.scope, other.c.key == one.c.key)


def _is_same_row(other: sa.FromClause, one: sa.FromClause = attempts) -> Condition:
    return _is_same_key(other, one) & (other.c.source == one.c.source)


def has_later(*states: str, one: sa.FromClause = attempts, has_other_content: bool = False) -> Condition:
    """Return the condition that the row has a later attempt than this one with one of these states."""
    later = attempts.alias()
    # With IN, the condition could not be one of a statement for many rows.
    has_state = later.c.state == states[0] if len(states) == 1 else later.c.state.in_(states)
    conditions = [_is_same_row(later, one), later.c.number > one.c.number, has_state]
    if has_other_content:
        conditions.append(later.c.content_hash.is_distinct_from(one.c.content_hash))
    return _has(later, *conditions)


def is_latest_document() -> Condition:
    """Return the condition that an attempt is the latest document of its row."""
    return _IS_DOCUMENT & ~has_later("created")


def has_unresolved() -> Condition:
    """Return the condition that the row has an attempt without an outcome that is later than its latest document."""
    later = attempts.alias()
    is_unresolved = later.c.state.in_(UNRESOLVED) & ~has_later("created", one=later)
    return _has(later, _is_same_row(later), later.c.number > _c.number, is_unresolved)


def _may_be_twice() -> Condition:
    """Return the condition that something else may exist besides the document of a created attempt."""
    before, between, twin = attempts.alias(), attempts.alias(), attempts.alias()
    # An attempt before an earlier document was counted with that one.
    is_between = (between.c.number > before.c.number) & (between.c.number < _c.number)
    has_between = _has(between, _is_same_key(between), between.c.state == "created", is_between)
    is_unresolved_before = _has(
        before, _is_same_key(before), before.c.number < _c.number, before.c.state.in_(UNRESOLVED), ~has_between
    )
    has_twin = _has(
        twin,
        _is_same_row(twin),
        twin.c.number < _c.number,
        twin.c.state == "created",
        twin.c.content_hash == _c.content_hash,
        twin.c.remote_id.is_distinct_from(_c.remote_id),
    )
    # A service that refuses repetitions (409) has only one.
    has_one = _c.http_status == sa.literal_column(str(HTTPStatus.CONFLICT.value))
    # Only a later attempt of a key has one before it.
    may_be_more = MAY_BE_MORE | (IS_REPEATED & (is_unresolved_before | has_twin))
    return sa.and_(may_be_more, sa.or_(_c.http_status.is_(None), ~has_one))


def _is_needed_elsewhere() -> Condition:
    """Return the condition that the document is that of another row: the latest of its key, and not gone."""
    other = attempts.alias()
    return _has(
        other,
        other.c.remote_id == _c.remote_id,
        other.c.service == _c.service,
        other.c.site_id == _c.site_id,
        other.c.state == "created",
        other.c.gone_at.is_(None),
        ~_is_same_key(other) | (other.c.number != _c.number),
        ~has_later("created", one=other, has_other_content=True),
    )


def _is_draft() -> Condition:
    word = sa.func.lower(_c.status)
    for separator in " _-":
        word = sa.func.replace(word, separator, "")
    return word.not_in(sorted(DEFAULT_WORDS.active | DEFAULT_WORDS.processing))


def condition_of(which: Which) -> Condition:
    """
    Return the condition of a list.

    - ``created``: documents, chat requests and ratings that exist.
    - ``unresolved``: the outcome is not known, and no later attempt has the key.
    - ``doubled``: documents and others that may exist twice, because of an attempt whose outcome is not known.
    - ``superseded``: documents whose row has other content now.
    - ``stale``: documents whose row is gone from its source.
    - ``draft``: documents that the service does not use, according to its word.
    - ``rejected``, ``failed``: the latest attempt of the key did not create anything.
    - ``open``: chat requests that the service accepted and whose end is not recorded.
    """
    is_outdated = has_later("created", has_other_content=True)
    later = attempts.alias()
    # Few keys have several attempts: these come first.
    several = sa.select(later.c.scope, later.c.key).where(later.c.number > sa.literal_column("1"))
    is_candidate = sa.tuple_(_c.scope, _c.key).in_(several)
    conditions: dict[str, Condition] = {
        "created": _IS_CREATED,
        "unresolved": IS_UNRESOLVED & ~has_later("created", *UNRESOLVED),
        "doubled": _IS_CREATED & _may_be_twice(),
        "superseded": _IS_DOCUMENT & is_candidate & is_outdated & ~_is_needed_elsewhere(),
        "stale": _IS_DOCUMENT & _c.gone_at.is_not(None) & ~is_outdated & ~_is_needed_elsewhere(),
        "draft": is_latest_document() & HAS_OTHER_STATUS & _is_draft(),
        "open": IS_OPEN,
    }
    created_nothing = (_c.state == which) & ~has_later("created", "rejected", "failed", *UNRESOLVED)
    return conditions.get(which, created_nothing)


def _is_superseded_by(run: RunRef) -> Condition:
    newer = attempts.alias()
    is_newer = newer.c.state == "created", run.is_of(newer)
    # A run changes few rows of a large source: these come first.
    rows = sa.select(newer.c.scope, newer.c.key).where(*is_newer)
    has_newer = _has(newer, _is_same_row(newer), newer.c.number > _c.number, *is_newer)
    return sa.tuple_(_c.scope, _c.key).in_(rows) & has_newer


@dataclass(frozen=True, slots=True)
class Filter:
    """
    Select attempts.

    :param which: List of :func:`condition_of`. Default: None, all.
    :param dag_ids: Only those of these DAGs. None for all, also those without a DAG.
    :param label_part: Only those whose label contains this text, in upper or lower case.
    :param run: Only those of this task instance, by any of its tries.
    :param superseded_by: Only those for whose row this task instance created a later document.
    :param remote_ids: Only those with one of these ids.
    :param ids: Only these attempts: scope, key and number of each.
    :param keys: Only those whose key begins with one of these texts.
    """

    which: Which | None = None
    kinds: Collection[Kind] = ()
    site: Site | None = None
    site_id: str | None = None
    source: str | None = None
    scope: str | None = None
    dag_ids: frozenset[str] | None = None
    label_part: str | None = None
    run: RunRef | None = None
    superseded_by: RunRef | None = None
    remote_ids: Collection[str] | None = None
    ids: Collection[tuple[str, str, int]] | None = None
    keys: Collection[str] = ()

    def conditions(self) -> list[Condition]:
        """Return the conditions on the table of attempts."""
        conditions = [condition_of(self.which)] if self.which else []
        equal = {_c.site_id: self.site_id, _c.source: self.source, _c.scope: self.scope}
        conditions += [column == value for column, value in equal.items() if value is not None]
        # SQLite would read all attempts of these DAGs by their index; the indexes of the lists are smaller.
        dag_id = _WithoutIndex(_c.dag_id)
        one_of = {_c.kind: self.kinds or None, dag_id: self.dag_ids, _c.remote_id: self.remote_ids}
        conditions += [column.in_(sorted(values)) for column, values in one_of.items() if values is not None]
        if self.ids is not None:
            conditions.append(sa.tuple_(_c.scope, _c.key, _c.number).in_(sorted(self.ids)))
        if self.site:
            conditions.append(self.site.of(attempts))
        if self.label_part:
            conditions.append(_c.label.icontains(self.label_part, autoescape=True))
        if self.run:
            conditions.append(self.run.is_of(attempts))
        if self.superseded_by:
            conditions.append(_is_superseded_by(self.superseded_by))
        if self.keys:
            prefixes = [_c.key.startswith(key, autoescape=True) for key in sorted(self.keys)]
            conditions.append(sa.or_(*prefixes))
        return conditions
