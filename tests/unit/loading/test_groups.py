"""Groups of rows: which groups a source has completely, and in which shape they reach the ledger."""

from __future__ import annotations

import logging
import random

import pytest
from airflow_provider_assistant.loading.columns import ColumnSelection
from airflow_provider_assistant.loading.fingerprints import RowFingerprint
from airflow_provider_assistant.loading.groups import SeenGroups, SharedGroups
from airflow_provider_assistant.loading.sources import open_source

from airflow_provider_assistant.api.payloads import TextDocument
from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.ledger import document_group
from airflow_provider_assistant.loading.rows import DataframeRows


def read(rows, *, group_columns=("page",), key_columns=("id",)):
    wanted = ColumnSelection(text=("content",), any=(*key_columns, *group_columns))
    with open_source(rows, wanted) as source:
        parts = {"payload": TextDocument, "columns": {"content": "content"}, "constants": {}}
        return [
            row
            for batch in DataframeRows(
                source, **parts, key_columns=key_columns, group_columns=group_columns, call=None
            ).fingerprints()
            for row in batch
        ]


def row(number, page, content="text"):
    return {"id": number, "page": page, "content": content}


def complete(rows):
    seen = SeenGroups()
    for start in range(0, len(rows), 3):
        seen.add(rows[start : start + 3])
    return list(seen.complete())


def keys(*pages):
    return sorted(document_group(page).key for page in pages)


def test_groups_are_compared_like_keys():
    found = read([row(1, "7"), row(2, 7), row(3, 7.0), row(4, " 7 "), row(5, "007")])
    assert [one.group.label for one in found] == ["7"] * 4 + ["007"]


def test_a_group_of_several_columns():
    found = read([row(1, "a") | {"site": 7}], group_columns=("page", "site"))
    assert found[0].group == document_group("page=a, site=7")


def test_groups_do_not_change_the_fingerprints():
    """Otherwise group_columns would create every document again."""
    rows = [row(1, "a"), row(2, "b")]
    assert [one[:2] for one in read(rows)] == [one[:2] for one in read(rows, group_columns=())]
    assert {one.group for one in read(rows, group_columns=())} == {None}


@pytest.mark.parametrize("seed", range(3))
def test_groups_in_any_order_are_listed_once(seed):
    rng = random.Random(seed)
    pages = [f"page {number}" for number in range(2500)]
    rows = [RowFingerprint("k", "c", document_group(page)) for page in pages * 3]
    rng.shuffle(rows)
    assert complete(rows) == keys(*pages)


def test_a_row_without_a_key_makes_its_group_incomplete(caplog):
    """It may be any row of the group, so that no row of the group is known to be missing."""
    found = read([row(1, "a"), row(None, "a"), row(2, "b")])
    assert [one.has_key for one in found] == [True, False, True]
    with caplog.at_level(logging.WARNING):
        assert complete(found) == keys("b")
    assert "1 group with" in caplog.text


def test_a_row_without_a_group_keeps_its_key():
    """Its document is not stale, as the source contains its key."""
    found = read([row(1, "a"), row(2, None), row(2, None)])
    assert found[1].key == read([row(2, "a")])[0].key
    assert found[1] == found[2]
    assert found[1].content_hash != read([row(2, "a")])[0].content_hash
    assert complete(found) == keys("a")


def test_a_row_without_key_and_group_may_be_of_any_group(caplog):
    with caplog.at_level(logging.WARNING):
        assert complete(read([row(1, "a"), row(None, None)])) == []
    assert "may be of any group" in caplog.text


def test_a_source_without_rows_has_no_groups():
    assert list(SeenGroups().complete()) == []


def test_shared_groups_are_refused_with_an_example():
    shared = SharedGroups()
    shared.check()
    shared.add(document_group("a"), 3)
    shared.add(document_group("b"), 4)
    with pytest.raises(AssistantInputError, match=r"2 groups .* 'a'.* map index 3"):
        shared.check()
