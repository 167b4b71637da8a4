"""Decide about a row from the attempts that the ledger has for its key, before anything is sent. It does no I/O."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, TypeAlias

from airflow_provider_assistant.ledger import Known
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


class Decision(NamedTuple):
    """
    Hold what to do with a row.

    :param latest: Number of the latest attempt of the key; 0 if it has none.
    :param number: Number of the attempt whose document the row has; None if it has none.
    :param remote_id: Id of that document.
    :param has_changed: Whether the source has loaded other content of this key before.
    :param owner: Name of the other source that has the key, if this source has no document of it.
    :param is_repeat: Whether an earlier attempt may have created this content.
    """

    action: Action
    reason: str = ""
    latest: int = 0
    number: int | None = None
    remote_id: str | None = None
    has_changed: bool = False
    owner: str | None = None
    is_repeat: bool = False


def decide(
    content_hash: str,
    attempts: Sequence[Known],
    source: str,
    *,
    on_change: OnChange = "create",
    on_ambiguous: OnAmbiguous = "retry",
) -> Decision:
    """
    Decide whether to send a row.

    Each source has its own document of a key, though two sources with equal content share one.

    :param attempts: Attempts of the row's key by all sources, earliest first.
    :param source: Name of the source that is loaded.
    """
    if not attempts:
        return Decision("send")
    latest = attempts[-1].number
    # An earlier claim is over: whoever claims a key has found that no other task is sending it.
    if attempts[-1].is_alive:
        return Decision("elsewhere", ELSEWHERE, latest)
    created = [attempt for attempt in attempts if attempt.state == "created"]
    own = [attempt for attempt in created if attempt.source == source]
    current = own[-1] if own else None
    newer = current.number if current else 0
    unresolved = [
        attempt for attempt in attempts if attempt.state in {"claimed", "ambiguous"} and attempt.number > newer
    ]
    same = [attempt for attempt in own or created if attempt.content_hash == content_hash]
    if same:
        return _decide_existing(same[-1], current, latest, on_change, is_latest=not unresolved)
    is_repeat = any(attempt.content_hash == content_hash for attempt in unresolved)
    owner = None
    if current is None and created and not unresolved:
        owner = created[-1].source
    decision = Decision(
        "send",
        latest=latest,
        number=current.number if current else None,
        remote_id=current.remote_id if current else None,
        has_changed=current is not None,
        owner=owner,
        is_repeat=is_repeat,
    )
    if unresolved and on_ambiguous == "skip":
        return decision._replace(action="ambiguous", reason=MAY_EXIST)
    if current and on_change == "skip":
        return decision._replace(action="skipped", reason=HAS_CHANGED)
    return decision


def _decide_existing(
    same: Known, current: Known | None, latest: int, on_change: OnChange, *, is_latest: bool
) -> Decision:
    """Decide about a row whose content is that of a document of its key."""
    decision = Decision("unchanged", latest=latest, number=same.number, remote_id=same.remote_id)
    if current is None:
        # Another source has created it.
        return decision._replace(action="share", owner=same.source)
    if same.number == current.number and is_latest:
        return decision
    if same.number == current.number:
        # A later attempt may have created other content, which would be outdated.
        return decision._replace(action="revive")
    decision = decision._replace(has_changed=True)
    if on_change == "skip":
        return decision._replace(action="skipped", reason=HAS_CHANGED, remote_id=current.remote_id)
    return decision._replace(action="revive")
