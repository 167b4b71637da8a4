"""The account of a source: it adds up, survives the way to the load, and is logged once."""

from __future__ import annotations

import json
import logging
from random import Random

import pytest

from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.source_account import EXAMPLES, AccountedRows, SourceAccount

UNITS = ("row", "file", "page", "chunk")


def random_account(rng: Random) -> tuple[SourceAccount, int]:
    """Return an account, and how much it left out."""
    account = SourceAccount()
    total = 0
    for number in range(rng.randint(0, 60)):
        unit = rng.choice(UNITS)
        if rng.random() < 0.5:
            account.read(unit, rng.randint(1, 9))
        else:
            count = rng.randint(1, 5)
            total += count
            reason = rng.choice(["is a draft", "has no text", "är tom"])
            account.leave_out(unit, reason, f"item {number}", is_expected=rng.random() < 0.5, count=count)
    return account, total


@pytest.mark.parametrize("seed", range(3))
def test_an_account_adds_up_and_survives_json(seed):
    account, count = random_account(Random(seed))
    assert account.count == count
    assert SourceAccount.from_dict(json.loads(json.dumps(account.as_dict()))).as_dict() == account.as_dict()
    for left_out in account.left_out:
        assert len(left_out.examples) <= min(EXAMPLES, left_out.count)
    # What could hide lost content comes first.
    order = [left_out.is_expected for left_out in account.left_out]
    assert order == sorted(order)


def test_a_reason_that_once_was_unexpected_stays_so():
    account = SourceAccount()
    account.leave_out("page", "has no text", "a", is_expected=True)
    account.leave_out("page", "has no text", "b", is_expected=False)
    account.leave_out("page", "has no text", "c", is_expected=True)
    assert [(left_out.count, left_out.examples) for left_out in account.unexpected] == [(3, ["a", "b", "c"])]


def test_words_are_named_by_their_files_and_count_as_no_items():
    account = SourceAccount()
    account.leave_out("file", "is a draft", "d.md", is_expected=True, count=2)
    for name in ("a.md", "a.md", "b.md"):
        account.leave_out("word", "in a comment", name, is_expected=True, count=5)
    assert [str(left_out) for left_out in account.left_out] == [
        "15 words left out: in a comment (a.md, b.md)",
        "2 files left out: is a draft (d.md, …)",
    ]
    assert account.count == 2


def test_steps_share_one_account_and_log_each_line_once(caplog):
    def numbers(account):
        for number in range(4):
            account.read("file")
            yield number
        account.leave_out("file", "is a draft", "d.md", is_expected=True)

    def halves(account):
        for number in first:
            if number % 2:
                account.leave_out("chunk", "has no words", f"chunk {number}", is_expected=False)
            else:
                yield number

    first = AccountedRows(numbers)
    second = AccountedRows(halves, source=first)
    with caplog.at_level(logging.INFO):
        assert list(second) == [0, 2]
        assert next(second, None) is None
    assert second.account is first.account
    messages = [record.getMessage() for record in caplog.records]
    assert messages == [
        "Source: 4 files read",
        "Source: 2 chunks left out: has no words (chunk 1, chunk 3)",
        "Source: 1 file left out: is a draft (d.md)",
    ]
    assert [record.levelname for record in caplog.records] == ["INFO", "WARNING", "INFO"]


def test_strict_fails_after_the_last_row_and_names_everything():
    def rows(account):
        account.leave_out("page", "asks to log in", "https://x/\x1b[2Jy", is_expected=False)
        account.leave_out("page", "is a draft", "https://x/d", is_expected=True)
        yield 1

    accounted = AccountedRows(rows, strict=True)
    assert next(accounted) == 1
    with pytest.raises(
        AssistantInputError, match=r"1 page left out: asks to log in \(https://x/\\x1b\[2Jy\)"
    ) as caught:
        next(accounted)
    assert "is a draft" not in str(caught.value)
