from __future__ import annotations

import pytest

from airflow_provider_assistant.api.sessions import session_id
from airflow_provider_assistant.exceptions import AssistantInputError


def test_stable_across_runs_and_unreadable() -> None:
    name = session_id("customer", "ada@example.com")
    assert name == "customer-817c9c2dcb244c2e058eceb35d2cc584"
    assert "ada" not in name
    assert len(name) < 64


def test_scopes_identities_and_secrets_are_kept_apart() -> None:
    names = {
        session_id("customer", "1"),
        session_id("visitor", "1"),
        session_id("thread", "1"),
        session_id("channel", "ab", "c"),
        session_id("channel", "a", "bc"),
        session_id("customer", "1", secret="pepper"),
    }
    assert len(names) == 6


@pytest.mark.parametrize("identity", [(), ("",), ("a", " ")])
def test_an_identity_is_required(identity: tuple[str, ...]) -> None:
    with pytest.raises(AssistantInputError):
        session_id("visitor", *identity)
