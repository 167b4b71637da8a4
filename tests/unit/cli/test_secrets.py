"""No output contains the API key, even if the service or the user repeats it, and with the most detailed log."""

from __future__ import annotations

import pytest

from tests.unit.cli.conftest import rows


@pytest.mark.promise("security", "No command shows the API key, even if the service repeats it.")
@pytest.mark.parametrize(
    "command",
    [
        "smoke",
        "smoke --site KEY",
        "smoke --question KEY?",
        "chat -m Refunds? --session KEY",
        "chat -m KEY?",
        "load FILE --dry-run",
        "load FILE --key title",
        "load FILE --key title --column title=KEY",
        "ledger list",
        "ledger list --state unresolved",
        "read limits --tenant KEY",
        "read statistics",
        "read /m2m/sites/acme-docs/sessions --param KEY=KEY",
    ],
)
def test_the_key_is_in_no_output(cli, canary, service, tmp_path, command, monkeypatch):
    monkeypatch.setattr("airflow_provider_assistant.cli.smoke.POLL_INTERVAL", 0.0)
    file = rows(tmp_path / "faq.csv", ("1", "Refunds", f"Say {canary}."), ("2", canary, "So."), ("3", "", canary))
    service.answer("store-then-status:503", path="/documents/qa$")
    argv = [canary if part == "KEY" else str(file) if part == "FILE" else part for part in command.split()]
    argv = [part.replace("KEY", canary) for part in argv]
    ran = cli(*argv, "-v")
    assert ran.out + ran.err
    assert canary not in ran.out + ran.err
