"""E-mail addresses: recognised however they are written, and replaced by labels."""

from __future__ import annotations

import random
import re
from urllib.parse import quote

import pytest

from airflow_provider_assistant.api.privacy import names_user, shown_path, user_label, without_addresses

ADDRESSES = [
    "ada@example.com",
    "Ada.Lovelace+news@Mail.Example.co.uk",
    "o'brien@example.org",
    "müller@straße.example",
    "x@y",
    "a%41b@example.com",
    "ada\uff20example.com",
]


@pytest.mark.parametrize("address", ADDRESSES)
def test_a_label_hides_the_address_and_is_the_same_for_its_usual_spellings(address):
    label = user_label(address)
    assert label == user_label(address.upper()) == user_label(quote(quote(address, safe=""), safe=""))
    assert address.partition("@")[0].casefold() not in label.removeprefix("user-") or len(address) < 4
    assert len({user_label(other) for other in ADDRESSES}) == len(ADDRESSES) - 1


@pytest.mark.parametrize("address", ADDRESSES)
def test_a_path_is_shown_without_addresses_and_without_its_query(address):
    for spelling in (quote(address, safe=""), quote(address, safe="@"), quote(quote(address, safe=""), safe="")):
        path = f"/m2m/sites/docs/people/{spelling}/statistics?email={spelling}&from=2026-11-01"
        assert shown_path(path) == f"/m2m/sites/docs/people/{user_label(address)}/statistics"
        assert shown_path(f"/m2m/x#{spelling}") == "/m2m/x"
        assert names_user(path)
        assert names_user(f"/m2m/x?email={spelling}")


def test_ids_of_users_are_private_without_an_at_sign():
    path = "/m2m/sites/docs/users/ada/statistics"
    assert shown_path(path) == f"/m2m/sites/docs/users/{user_label('ada')}/statistics"
    assert names_user(path)
    for path in ("/m2m/sites/docs/users", "/m2m/sites/docs/users/", "/m2m/tenants/acme-inc/usage?from=2026-11-01"):
        assert shown_path(path) == path.partition("?")[0]
        assert not names_user(path)


@pytest.mark.parametrize("address", ADDRESSES[:5])
def test_labels_replace_addresses_in_a_text(address):
    label = user_label(address)
    if "'" not in address:
        assert without_addresses(f"From <{address}>, to {address}.") == f"From <{label}>, to {label}."
        assert without_addresses(f"/users/{quote(address, safe='')}/x?email={quote(address)}") == (
            f"/users/{label}/x?email={label}"
        )
    assert address.partition("@")[2] not in without_addresses(f"mailto:{address}")


@pytest.mark.parametrize("at", ["&#64;", "&#x40;", "&commat;", "\\u0040", "\\\\u0040", "%2540", "\uff20"])
def test_labels_replace_addresses_that_are_escaped(at):
    assert without_addresses(f'"ada{at}example.com", <b>Ada{at}Example.com</b>') == (
        f'"{user_label("ada@example.com")}", <b>{user_label("ada@example.com")}</b>'
    )


def test_a_text_without_addresses_stays_as_it_is():
    rng = random.Random(7)
    for _ in range(200):
        text = "".join(rng.choices("ab1 %/.:é=&?@,\n", k=rng.randint(0, 40)))
        if not re.search(r"[ab1é].*@.*[ab1é]", text):
            assert without_addresses(text) == text
    assert without_addresses("100% of 40, 5 @ 6, @ada, %40") == "100% of 40, 5 @ 6, @ada, %40"


def test_a_long_text_takes_little_time():
    text = "a%" * 200_000
    assert without_addresses(text) == text
