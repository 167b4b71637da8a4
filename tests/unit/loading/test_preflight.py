"""The preflight: the pass over all rows before the first request."""

from __future__ import annotations

import re

import pytest
from airflow_provider_assistant.loading.fingerprints import RowFingerprint, hash_of
from airflow_provider_assistant.loading.preflight import RowAction, plan_load
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.ledger import EntryContent
from airflow_provider_assistant.loading import preflight
from airflow_provider_assistant.loading.rows import PreparedRow


class Rows:
    """Fingerprints of pairs of key and content, in small batches."""

    def __init__(self, *pairs) -> None:
        self.hashes = [RowFingerprint(hash_of(key), hash_of(content)) for key, content in pairs]

    def fingerprints(self):
        for start in range(0, len(self.hashes), 3):
            yield self.hashes[start : start + 3]

    def prepared(self, wanted):
        for number, fingerprint in enumerate(self.hashes, start=1):
            if wanted(number):
                yield PreparedRow(number, fingerprint, f"key {number}", place=f"row {number}")


class FakeLedger:
    source = ""

    def __init__(self, **known) -> None:
        self._known = {
            hash_of(key): tuple(EntryContent(hash_of(key), outcome, content and hash_of(content), ""))[:4]
            for key, (outcome, content) in known.items()
        }

    def contents(self, keys):
        return {key: self._known[key] for key in keys if key in self._known}


def actions(*pairs, ledger=None):
    return [RowAction(action) for action in plan_load(Rows(*pairs), ledger).actions]


def test_new_known_changed_and_repeated_rows():
    ledger = FakeLedger(
        a=("created", "1"), b=("created", "1"), c=("failed", None), d=("ambiguous", "1"), e=("claimed", "1")
    )
    pairs = [("a", "1"), ("b", "2"), ("c", "1"), ("d", "1"), ("e", "1"), ("f", "1"), ("f", "1"), ("a", "1")]
    assert actions(*pairs, ledger=ledger) == [
        RowAction.UNCHANGED,
        *[RowAction.SEND] * 5,
        *[RowAction.DUPLICATE] * 2,
    ]


@pytest.mark.parametrize("short", [None, lambda key: int(key[0], 16), lambda key: 0, lambda key: 2**64 - 1])
def test_prefixes_that_collide_change_nothing(short, monkeypatch):
    if short:
        monkeypatch.setattr(preflight, "short_key", short)
    pairs = [(str(number), "1") for number in range(50)]
    seen = plan_load(Rows(*pairs, pairs[7], pairs[7], pairs[49]), None)
    assert list(seen.actions) == [RowAction.SEND] * 50 + [RowAction.DUPLICATE] * 3
    with pytest.raises(AssistantInputError, match=r"1 key .*: 'key 8' in row 8, row 51\."):
        plan_load(Rows(*pairs, ("7", "other")), None)


def test_conflicts_are_listed_by_row_and_not_all_of_them():
    pairs = [(f"k{number % 20}", str(number)) for number in range(200)]
    with pytest.raises(AssistantInputError) as caught:
        plan_load(Rows(*pairs), None)
    assert "20 keys" in str(caught.value)
    assert "'key 1' in row 1, row 21, row 41, row 61, row 81; 'key 2' in row 2, row 22" in str(caught.value)
    assert len(re.findall("'key [0-9]' in", str(caught.value))) == preflight.LISTED
    assert caught.value.field == "key_columns"


def test_a_conflict_counts_although_one_of_them_is_known():
    with pytest.raises(AssistantInputError, match="in row 1, row 2"):
        plan_load(Rows(("a", "1"), ("a", "2")), FakeLedger(a=("created", "1")))


def test_an_empty_source_has_nothing():
    seen = plan_load(Rows(), None)
    assert seen.rows == 0
    assert not seen.has(hash_of("a"))


def test_rows_that_came_later_are_not_sent():
    assert not plan_load(Rows(("a", "1")), None).to_send(2)


def test_it_tells_how_far_it_is():
    ticks = []
    plan_load(Rows(*[(str(number), "") for number in range(7)]), None, tick=ticks.append)
    assert ticks == [3, 6, 7]


@given(st.lists(st.tuples(st.sampled_from("abcdefgh"), st.just("1")), min_size=1), st.sets(st.sampled_from("abcdefgh")))
def test_each_key_is_sent_once_at_most_and_known_ones_never(pairs, known):
    ledger = FakeLedger(**dict.fromkeys(known, ("created", "1")))
    seen = plan_load(Rows(*pairs), ledger)
    sent = [key for number, (key, _) in enumerate(pairs, start=1) if seen.to_send(number)]
    assert sorted(sent) == sorted({key for key, _ in pairs} - known)
    assert seen.rows == len(pairs) == sum(seen.count(fate) for fate in RowAction)
    assert all(seen.has(hash_of(key)) == (key in dict(pairs)) for key in "abcdefgh")
