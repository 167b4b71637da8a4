"""What the audit of the dependencies concludes from pip-audit's output."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests import audit

GOOD = {"name": "httpx", "version": "0.28.1", "vulns": []}
BAD = {"name": "aiohttp", "version": "3.0", "vulns": [{"id": "PYSEC-1", "fix_versions": ["3.1"]}]}
SKIPPED = {"name": "odd", "skip_reason": "not found"}


def saying(packages=None, stderr="", stdout=None):
    out = json.dumps({"dependencies": packages}) if stdout is None else stdout
    return lambda *_, **__: subprocess.CompletedProcess((), 0, out, stderr)


@pytest.mark.parametrize(
    ("run", "outcome", "part"),
    [
        (saying([GOOD]), audit.CLEAN, "1 packages"),
        (saying([GOOD, BAD]), audit.VULNERABLE, "aiohttp 3.0: PYSEC-1, fixed in 3.1"),
        (saying([SKIPPED, BAD]), audit.VULNERABLE, "PYSEC-1"),
        (saying([GOOD, SKIPPED]), audit.UNKNOWN, "1 of 2 packages could not be looked up, such as odd: not found"),
        (saying([]), audit.UNKNOWN, "0 of 0"),
        (saying(stdout="", stderr="a\nConnectionError: no route"), audit.UNKNOWN, "no route"),
        (saying(stdout="{}"), audit.UNKNOWN, "printed nothing"),
    ],
)
def test_conclusions(run, outcome, part):
    concluded, lines = audit.audit(run)
    assert concluded == outcome
    assert part in " ".join(lines)


def test_a_service_that_hangs_is_unknown():
    def hang(*_, **__):
        raise subprocess.TimeoutExpired("pip-audit", 1)

    assert audit.audit(hang)[0] == audit.UNKNOWN


def test_an_unreachable_database_costs_one_probe():
    commands = []

    def refuse(command, *, timeout, **_):
        commands.append((command, timeout))
        return saying([SKIPPED])()

    assert audit.audit(refuse)[0] == audit.UNKNOWN
    [(command, timeout)] = commands
    assert str(audit.CONSTRAINTS) not in command
    assert timeout <= 10


def test_a_reachable_database_is_asked_for_every_package():
    looked_up = []

    def answer(command, **_):
        looked_up.append(Path(command[command.index("--requirement") + 1]).read_text())
        return saying([GOOD])()

    assert audit.audit(answer)[0] == audit.CLEAN
    probe, everything = looked_up
    assert probe.count("==") == 1
    assert everything == audit.CONSTRAINTS.read_text()


@pytest.mark.parametrize(
    ("outcome", "strict", "code"),
    [
        (audit.CLEAN, "", 0),
        (audit.VULNERABLE, "", 1),
        (audit.UNKNOWN, "", 0),
        (audit.UNKNOWN, "strict", 2),
        (audit.VULNERABLE, "strict", 1),
    ],
)
def test_what_is_not_known_is_said_and_fails_only_where_asked(outcome, strict, code, monkeypatch, capsys):
    monkeypatch.setenv("AUDIT", strict)
    monkeypatch.setattr(audit, "audit", lambda: (outcome, ["because"]))
    assert audit.main() == code
    said = "".join(capsys.readouterr())
    assert "because" in said
    assert ("NOT AUDITED" in said) == (outcome == audit.UNKNOWN)


def test_there_is_something_to_audit():
    assert audit.CONSTRAINTS.read_text().count("==") > 100
