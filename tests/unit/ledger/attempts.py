"""What tests do with attempts."""

from __future__ import annotations

from airflow_provider_assistant.ledger import Claim, Filter, Outcome, hash_of, queries


def claim(name, number=1, content="v1", group=None, **details):
    return Claim(hash_of(name), name, number, hash_of(content), group, details or None)


def attempt(attempts, name, state, number=1, content="v1", group=None, **facts):
    """Claim a key and record an outcome; return the claim."""
    made = claim(name, number, content, group)
    assert attempts.commit([], [made]) == {made.key}
    if state != "claimed":
        attempts.commit([Outcome(made, state, **facts)], [])
    return made


def created(attempts, name, number=1, content="v1", **facts):
    return attempt(attempts, name, "created", number, content, **{"remote_id": f"{name}-{content}", **facts})


def labels(ledger, which, **selected):
    page = ledger.read(queries.entries, ledger.clock, Filter(which=which, **selected), limit=1000)
    return sorted(row["label"] for row in page.rows)


def states(ledger, name):
    """Return number and state of the attempts of a key."""
    page = ledger.read(queries.entries, ledger.clock, Filter(keys=(hash_of(name),)), limit=1000)
    return sorted((row["number"], row["state"]) for row in page.rows)
