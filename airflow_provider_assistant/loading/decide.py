"""Decide about a row from the attempts that the ledger has for its key, before anything is sent. It does no I/O."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, TypeAlias

from airflow_provider_assistant.ledger import Claim, Known
from airflow_provider_assistant.loading.options import OnAmbiguous, OnChange

# What to do with a row:
# "send"       create its document
# "unchanged"  its document is on the site
# "repeated"   it repeats an earlier row of the source
# "share"      its document is on the site, created for another source or under another key: record that
# "revive"     an earlier document of its key has this content again: record that it is the latest
# "twin"       another row of the source has its content and is sent; they get one document
# "elsewhere"  another task is sending it
# "skipped", "ambiguous", "rejected"  not sent, and counted so
Action: TypeAlias = Literal[
    "send", "unchanged", "repeated", "share", "revive", "twin", "elsewhere", "skipped", "ambiguous", "rejected"
]

ELSEWHERE = "another task is loading this row"
MAY_EXIST = "an earlier attempt may or may not have created it"
HAS_CHANGED = "its content has changed since it was loaded"


class PlannedRow(NamedTuple):
    """
    Hold a row of a source, and what to do with it.

    :param number: Number of the row in the source, from 1.
    :param has_key: Whether its key is known. Otherwise, it may be any row of the source.
    :param reason: Why it is not sent.
    :param latest: Number of the latest attempt of the key; 0 if it has none.
    :param existing: Number of the attempt whose document the row has; None if it has none.
    :param remote_id: Id of that document.
    :param has_changed: Whether the source has loaded other content of this key before.
    :param owner: Name of the other source that has the key, if this source has no document of it.
    :param is_repeat: Whether an earlier attempt may have created this content.
    :param is_back: Whether the row was gone, or has another group than the ledger knows.
    :param label: The key as readable text. This and the next two are empty for a row that needs nothing.
    :param place: Position of the row in the source, such as ``faq.csv, line 7``.
    :param payload: What its call is made of. None if the row is bad.
    """

    number: int
    key: str
    content_hash: str
    group_name: str | None
    has_key: bool = True
    action: Action = "unchanged"
    reason: str = ""
    latest: int = 0
    existing: int | None = None
    remote_id: str | None = None
    has_changed: bool = False
    owner: str | None = None
    is_repeat: bool = False
    is_back: bool = False
    label: str = ""
    place: str = ""
    payload: str | None = None

    def claim(self) -> Claim:
        """Return the claim of its next attempt."""
        return Claim(self.key, self.label or self.key, self.latest + 1, self.content_hash, self.group_name)


def decide(
    row: PlannedRow,
    attempts: Sequence[Known],
    source: str,
    *,
    on_change: OnChange = "create",
    on_ambiguous: OnAmbiguous = "retry",
) -> PlannedRow:
    """
    Return a row with what to do with it.

    Each source has its own document of a key, though two sources with equal content share one.

    :param attempts: Attempts of the row's key by all sources, earliest first.
    :param source: Name of the source that is loaded.
    """
    if not attempts:
        return row._replace(action="send")
    row = row._replace(latest=attempts[-1].number, reason="")
    # An earlier claim is over: a task that claims a key has found that no other task is sending it.
    if attempts[-1].is_alive:
        return row._replace(action="elsewhere", reason=ELSEWHERE)
    created = [attempt for attempt in attempts if attempt.state == "created"]
    own = [attempt for attempt in created if attempt.source == source]
    current = own[-1] if own else None
    after = current.number if current else 0
    lost = [attempt for attempt in attempts if attempt.state in {"claimed", "ambiguous"}]
    unresolved = [attempt for attempt in lost if attempt.number > after]
    same = [attempt for attempt in own or created if attempt.content_hash == row.content_hash]
    if same:
        return _decide_existing(row, same[-1], current, on_change, is_latest=not unresolved)
    row = row._replace(action="send", is_repeat=any(attempt.content_hash == row.content_hash for attempt in lost))
    if current:
        row = row._replace(existing=current.number, remote_id=current.remote_id, has_changed=True)
    elif created and not unresolved:
        row = row._replace(owner=created[-1].source)
    if unresolved and on_ambiguous == "skip":
        return row._replace(action="ambiguous", reason=MAY_EXIST)
    if current and on_change == "skip":
        return row._replace(action="skipped", reason=HAS_CHANGED)
    return row


def _decide_existing(
    row: PlannedRow, same: Known, current: Known | None, on_change: OnChange, *, is_latest: bool
) -> PlannedRow:
    """Decide about a row whose content is that of a document of its key."""
    row = row._replace(action="unchanged", existing=same.number, remote_id=same.remote_id)
    if current is None:
        # Another source has created it.
        return row._replace(action="share", owner=same.source)
    if same.number == current.number:
        # A later attempt may have created other content, which would be outdated.
        return row if is_latest else row._replace(action="revive")
    if on_change == "skip":
        return row._replace(action="skipped", reason=HAS_CHANGED, remote_id=current.remote_id, has_changed=True)
    return row._replace(action="revive", has_changed=True)
