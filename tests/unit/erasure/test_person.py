"""Which rows and texts are a person's: spellings of addresses, ids in texts, what is learned from a row."""

from __future__ import annotations

import html
import json
import random
from urllib.parse import quote

import pyarrow as pa
import pytest

from airflow_provider_assistant.api.privacy import user_label
from airflow_provider_assistant.erasure.person import Person

NAMES = ("zoe", "zoe.smith", "z", "o'neil", "zoe+tag", "user_1", "Zoë", "größe-1", "100%zoe")
DOMAINS = ("example.com", "mail.example.co.uk", "xn--bcher-kva.example", "bücher.example", "a-b.de")
AROUND = ("{}", "<{}>", "mail {}.", "({})", "mailto:{}?subject=x", '"{}"', "'{}'", "*{}*", "_{}_", "a;{};b", "…{}!")


def spellings(address: str, dice: random.Random) -> list[str]:
    in_json = json.dumps(address)[1:-1]
    wide = address.replace("@", "\uff20")
    mixed = "".join(dice.choice((char.upper(), char.lower())) for char in address)
    encoded = quote(address, safe="")
    return [
        *(address, mixed, in_json, in_json.replace("@", "\\u0040"), wide, html.escape(address)),
        *(address.replace("@", "&#64;"), encoded, encoded.lower(), quote(encoded, safe=""), json.dumps(in_json)[1:-1]),
    ]


@pytest.mark.promise("erasure", "An e-mail address is found in every spelling, and never as a part of a longer one.")
def test_an_address_is_found_in_every_spelling_and_not_in_a_longer_one():
    dice = random.Random(5)
    for name in NAMES:
        for domain in DOMAINS:
            address = f"{name}@{domain}"
            person = Person(emails=[dice.choice((address, address.upper(), f" {address} "))])
            for spelling in spellings(address, dice):
                for around in AROUND:
                    text = around.format(spelling)
                    assert person.is_in(text), text
            assert person.is_in(f"see {user_label(address)}.")
            others = (f"x{address}", f"x.{address}", f"1-{address}", f"a+{address}", f"{address}x", f"{address}.au")
            for other in (*others, f"{name}@x{domain}", f"{name} at {domain}", name, user_label(f"x{address}")):
                assert not person.is_in(other), other


@pytest.mark.parametrize(
    ("session", "is_searched"),
    [
        ("42", False),
        ("faq", False),
        ("customer-support", False),
        ("customer-7", True),
        ("a-long-name-without-digits", True),
        ("9f8e7d6c5b4a", True),
        ("chat 7/é: x", True),
        ("sess|1|2|3", True),
    ],
)
def test_ids_in_texts(session, is_searched):
    person = Person([session])
    for text in (f"in {session}, yes", json.dumps({"a": session}), f"({session})"):
        assert person.is_in(text) == is_searched, text
    assert not person.is_in(f"x{session[:-1]}")
    # In its own column, an id of any form is found.
    table = pa.table({"session_id": [session, f"{session}0", None], "run_id": ["a", session, session]})
    assert person.rows(table).to_pylist() == [True, False, False]


def test_an_id_of_a_run_is_not_the_session_of_its_rows():
    run_id = "scheduled__2026-11-26T00:00:00+00:00"
    person = Person([run_id])
    table = pa.table({"run_id": [run_id] * 2, "session_id": [run_id, "other"], "source": [f"dag.{run_id}"] * 2})
    assert person.rows(table).to_pylist() == [True, False]


def test_what_a_row_tells():
    address = "zoe@example.com"
    person = Person(emails=[address])
    table = pa.table(
        {
            "session_id": ["mine-000001", "shared-00001", "other-000001", "mine-000001"],
            "request_id": ["req-000001", "req-000002", "req-000003", "req-000004"],
            "email": [address.upper(), None, None, None],
            "message": ["q", f"is {address} there?", "q", "q2"],
            "answer": ["a", "a", "a", "a2"],
        }
    )
    person.learn(table)
    # The address in a text names nobody: the session with it may be of somebody else.
    assert person.sessions == {"mine-000001"}
    person.learn(table)
    assert person.requests == {"req-000001", "req-000002", "req-000004"}
    assert person.rows(table).to_pylist() == [True, True, False, True]
    assert person.is_quoted("<p>q2</p> says: A2")
    assert not person.is_quoted("<p>q2</p> says: a23")
    raw = json.dumps({"users": [{"email": address, "session_id": "mine-000002"}, {"session_id": "other-000002"}]})
    person.learn(pa.table({"raw": [raw]}))
    assert person.sessions == {"mine-000001", "mine-000002"}


def test_all_rows_of_an_item_go_and_those_of_the_reply_stay():
    address = "zoe@example.com"
    person = Person(emails=[address])
    rows = [
        {"read": "sessions", "item": "s-1", "metric": "email", "text": address, "captured_at": 1},
        {"read": "sessions", "item": "s-1", "metric": "title", "text": "odd", "captured_at": 1},
        {"read": "sessions", "item": "s-2", "metric": "title", "text": "odd", "captured_at": 1},
        {"read": "sessions", "item": "s-1", "metric": "title", "text": "odd", "captured_at": 2},
        {"read": "site", "item": None, "metric": "owner", "text": address, "captured_at": 1},
        {"read": "site", "item": None, "metric": "name", "text": "n", "captured_at": 1},
    ]
    table = pa.Table.from_pylist(rows)
    assert person.rows(table).to_pylist() == [True, True, False, False, True, False]
    person.learn(table)
    # The session is known now, so its later rows go as well.
    assert person.sessions == {"s-1"}
    assert person.rows(table).to_pylist() == [True, True, False, True, True, False]


def test_the_smallest_json_object_goes():
    person = Person(["session-0001"], ["zoe@example.com"])
    value = {
        "name": "n",
        "keys": ["a", "b"],
        "rows": [{"key": "a"}, {"key": "c", "by": {"session_id": "session-0001"}}, {"x": "zoe@example.com"}],
        "tags": {"zoe@example.com": {"mean": 1}, "other": {"mean": 1.5}},
        "run": {"run_id": "session-0001"},
    }
    kept = {"name": "n", "keys": ["b"], "rows": [{"key": "c"}]}
    kept |= {"tags": {"other": {"mean": 1.5}}, "run": {"run_id": "session-0001"}}
    assert person.without(value, ["a"]) == (kept, 5)
    assert person.without({"to": "Zoe@Example.com", "n": [1]}) == (None, 1)
    assert person.without([None, 1, "x"]) == ([None, 1, "x"], 0)
