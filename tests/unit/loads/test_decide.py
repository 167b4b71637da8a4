"""What to do with a row, by the attempts that the ledger has for its key."""

from __future__ import annotations

import pytest

from airflow_provider_assistant.ledger import Known
from airflow_provider_assistant.loading.decide import PlannedRow, decide

ROW = PlannedRow(1, "key", "v1", None)


def known(*steps):
    """Return attempts from texts such as ``created v1`` and ``other created v2``: source, state, content."""
    found = []
    for number, step in enumerate(steps, start=1):
        *source, state, content = step.split()
        is_alive = state == "alive"
        found.append(
            Known(
                "key", number, "other" if source else "own", "claimed" if is_alive else state, content,
                f"id-{number}" if state == "created" else None, None, is_alive, False,
            )
        )  # fmt: skip
    return found


# Attempts, and what to do with a row of content v1.
CASES = [
    ((), "send"),
    (("rejected v1",), "send"),
    (("failed v1", "removed v1"), "send"),
    (("created v1",), "unchanged"),
    (("created v1", "rejected v2"), "unchanged"),
    (("created v2",), "send"),
    (("ambiguous v1",), "send"),
    (("claimed v1",), "send"),
    (("alive v1",), "elsewhere"),
    (("created v1", "alive v2"), "elsewhere"),
    (("created v1", "other alive v2"), "elsewhere"),
    # A killed try has left the first claim, and a retry has sent the row.
    (("alive v1", "created v1"), "unchanged"),
    (("alive v1", "rejected v1"), "send"),
    # The document certainly exists, whatever became of the other content.
    (("created v1", "ambiguous v2"), "revive"),
    (("created v1", "created v2"), "revive"),
    (("created v1", "created v2", "removed v2"), "revive"),
    # Two sources have the row.
    (("other created v1",), "share"),
    (("other created v1", "created v1"), "unchanged"),
    (("other created v1", "created v1", "other created v2"), "unchanged"),
    (("ambiguous v1", "other created v1"), "share"),
]


@pytest.mark.parametrize(("steps", "action"), CASES)
def test_what_becomes_of_a_row(steps, action):
    decision = decide(ROW, known(*steps), "own")
    assert decision.action == action
    assert decision.latest == len(steps)


@pytest.mark.parametrize(
    ("steps", "is_repeat"),
    [
        (("ambiguous v1",), True),
        (("claimed v1", "failed v2"), True),
        (("ambiguous v1", "created v2"), True),
        (("ambiguous v2",), False),
    ],
)
def test_a_409_says_that_it_exists_only_after_the_same_content(steps, is_repeat):
    assert decide(ROW, known(*steps), "own").is_repeat == is_repeat


@pytest.mark.parametrize("steps", [("ambiguous v1",), ("claimed v2",), ("created v2", "ambiguous v3")])
def test_what_may_exist_is_not_sent_if_the_user_says_so(steps):
    assert decide(ROW, known(*steps), "own", on_ambiguous="skip").action == "ambiguous"


@pytest.mark.parametrize(("steps", "remote_id"), [(("created v2",), "id-1"), (("created v1", "created v2"), "id-2")])
def test_a_changed_row_is_left_as_it_is_if_the_user_says_so(steps, remote_id):
    decision = decide(ROW, known(*steps), "own", on_change="skip")
    assert (decision.action, decision.remote_id) == ("skipped", remote_id)


def test_a_key_of_another_source_with_other_content_has_an_owner():
    assert decide(ROW, known("other created v2"), "own").owner == "other"
    assert decide(ROW, known("other created v2", "created v3"), "own").owner is None
