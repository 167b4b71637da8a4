"""Which rated questions become cases, and that every rating is counted."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import pytest

from airflow_provider_assistant.evaluation.proposals import COLUMNS, SKIPPED, Answered, Rating, propose
from airflow_provider_assistant.exceptions import AssistantInputError

NIGHT = datetime(2026, 11, 21, tzinfo=UTC)


def rating(request, word="bad", minutes=0, session="s"):
    return Rating(session, request, word, NIGHT + timedelta(minutes=minutes))


def answered(message, answer="No.", turn=1):
    return Answered(message, answer, turn)


def proposed(ratings, answers, golden=(), *, words=("bad",), limit=50):
    return propose(ratings, {("s", request): one for request, one in answers.items()}, golden, words=words, limit=limit)


def test_a_case_has_the_question_and_the_answer_and_no_expectation():
    [row] = proposed([rating("r1")], {"r1": answered("When are refunds paid?", "Never.")}).rows
    assert tuple(row) == COLUMNS
    assert {name: value for name, value in row.items() if value and name != "key"} == {
        "message": "When are refunds paid?",
        "human_answer": "Never.",
        "rating": "bad",
        "rated_at": "2026-11-21T00:00:00+00:00",
        "rated_request_id": "r1",
    }


def test_the_key_is_that_of_the_question():
    keys = [
        proposed([rating(request)], {request: answered(text)}).rows[0]["key"]
        for request, text in (("r1", "When are refunds paid?"), ("r2", "when are refunds paid"), ("r3", "Else?"))
    ]
    assert keys[0] == keys[1] != keys[2]
    assert keys[0].startswith("feedback.")


def test_the_newest_come_first_and_the_limit_leaves_out_the_oldest():
    ratings = [rating(f"r{number}", minutes=number) for number in range(5)]
    answers = {f"r{number}": answered(f"Question on {'abcde'[number] * 9}?") for number in range(5)}
    found = proposed(ratings, answers, limit=2)
    assert [row["rated_request_id"] for row in found.rows] == ["r4", "r3"]
    assert found.skipped["over_limit"] == 3


def test_the_latest_rating_of_an_answer_counts():
    answers = {"r1": answered("When are refunds paid?"), "r2": answered("Who built the moon?")}
    ratings = [
        rating("r1", "bad", 1),
        rating("r1", "good", 2),
        rating("r2", "good", 1),
        rating("r2", "bad", 2),
    ]
    for order in (ratings, ratings[::-1]):
        found = proposed(order, answers)
        assert [row["rated_request_id"] for row in found.rows] == ["r2"]
        assert (found.skipped["replaced"], found.skipped["other_ratings"]) == (2, 1)


def test_the_words_for_bad_are_those_given():
    found = proposed(
        [rating("r1", "wrong"), rating("r2")], {"r1": answered("A?"), "r2": answered("B?")}, words=["wrong"]
    )
    assert [row["rating"] for row in found.rows] == ["wrong"]


@pytest.mark.parametrize("message", ["When are refunds paid?", "when are refunds paid", "When are the refunds paid ?"])
def test_a_question_of_the_golden_set_is_skipped_also_in_similar_words(message):
    found = proposed([rating("r1")], {"r1": answered(message)}, ["When are refunds paid?"])
    assert (list(found.rows), found.skipped["in_golden_set"]) == ([], 1)


def test_of_similar_questions_the_newest_is_proposed():
    long = "When exactly are refunds for returned goods paid to my account?"
    answers = {"r1": answered(long), "r2": answered(long.replace("returned", "return")), "r3": answered("Else?")}
    ratings = [rating(request, minutes=number) for number, request in enumerate(answers)]
    found = proposed(ratings, answers)
    assert [row["rated_request_id"] for row in found.rows] == ["r3", "r2"]
    assert found.skipped["duplicates"] == 1


def test_answers_that_no_file_has_and_later_turns_are_counted():
    answers = {"r2": answered("And for children?", turn=2)}
    found = proposed([rating("r1"), rating("r2"), rating("r2", session="other")], answers)
    assert (found.skipped["without_answer"], found.skipped["later_turns"], len(found.rows)) == (2, 1, 0)


def test_a_time_may_be_text():
    ratings = [
        Rating("s", "r1", "bad", "2026-11-21T01:00:00+02:00"),
        Rating("s", "r2", "bad", "2026-11-20T23:30:00.5"),
        Rating("s", "r3", "bad", NIGHT),
    ]
    found = proposed(ratings, {f"r{number}": answered(f"{number * 10**9}?") for number in (1, 2, 3)})
    assert [row["rated_request_id"] for row in found.rows] == ["r3", "r2", "r1"]


def test_a_time_that_cannot_be_read_is_refused():
    with pytest.raises(AssistantInputError, match="'r1': sent_at must be a time in ISO 8601, not 'today'"):
        proposed([Rating("s", "r1", "bad", "today")], {})


def test_every_rating_is_counted_once():
    rng = random.Random(20261123)
    words = ["refund", "parcel", "invoice", "account", "holiday", "price", "garden", "moon"]
    for _ in range(30):
        ratings = [
            rating(f"r{rng.randrange(30)}", rng.choice(["bad", "good"]), rng.randrange(1000))
            for _ in range(rng.randrange(60))
        ]
        answers = {
            f"r{number}": answered(" ".join(rng.choices(words, k=2)), turn=rng.choice([1, 1, 1, 2]))
            for number in range(25)
        }
        limit = rng.choice([1, 3, 50])
        found = proposed(ratings, answers, rng.choices([" ".join(rng.choices(words, k=2))], k=3), limit=limit)
        assert set(found.skipped) == set(SKIPPED)
        assert found.ratings == len(ratings) == len(found.rows) + sum(found.skipped.values())
        assert len(found.rows) <= limit
        assert len({row["key"] for row in found.rows}) == len(found.rows)
        moments = [row["rated_at"] for row in found.rows]
        assert moments == sorted(moments, reverse=True)
