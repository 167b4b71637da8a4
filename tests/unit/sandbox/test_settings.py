"""Flags, environment variables, and invalid settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_assistant.sandbox.settings import Settings, read_settings


def test_defaults_listen_on_the_loopback_interface_only() -> None:
    assert read_settings([], {}) == Settings()
    assert Settings().host == "127.0.0.1"


def test_each_flag_is_also_a_variable_and_the_flag_wins() -> None:
    environ = {"ASSISTANT_SANDBOX_PORT": "1", "ASSISTANT_SANDBOX_RATE_LIMIT": "2.5"}
    settings = read_settings(["--port", "0", "--data", "there"], environ)
    assert (settings.port, settings.rate_limit, settings.data) == (0, 2.5, Path("there"))


def test_an_empty_variable_is_no_value() -> None:
    assert read_settings([], {"ASSISTANT_SANDBOX_DATA": ""}).data is None


@pytest.mark.parametrize(
    ("arguments", "environ", "message"),
    [
        (["--port", "many"], {}, "--port: Input should be a valid integer"),
        ([], {"ASSISTANT_SANDBOX_PORT": "x"}, "ASSISTANT_SANDBOX_PORT: Input should"),
        (["--port", "70000"], {}, "--port: Input should be less than or equal to 65535"),
        (["--latency", "-1"], {}, "--latency: Input should be greater than or equal to 0"),
        (["--latency", "nan"], {}, "--latency: Input should be a finite number"),
        (["--rate-limit", "0"], {}, "--rate-limit: Input should be greater than 0"),
        (["--rate-burst", "3"], {}, "rate_burst needs rate_limit"),
        (["--fault-rate", "2"], {}, "--fault-rate: Input should be less"),
        (["--fault-status", "700"], {}, "fault_status: status needs a number from 200 to 599"),
        (["--fault-status", "explode"], {}, "'explode' is not an action"),
        (["--fail-messages", "("], {}, "--fail-messages: must be a regular expression"),
        (["--answer-limit", "0"], {}, "--answer-limit: Input should be greater than or equal to 1"),
        (["--short-answer-rate", "1.5"], {}, "--short-answer-rate: Input should be less"),
        (["--judge-position-bias", "2"], {}, "--judge-position-bias: Input should be less"),
        (["--history", "-1"], {}, "--history: Input should be greater than or equal to 0"),
        (["--data", __file__], {}, "--data: must be a directory"),
    ],
)
def test_wrong_values_end_the_process_with_a_message(
    arguments: list[str],
    environ: dict[str, str],
    message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as ended:
        read_settings(arguments, environ)
    assert ended.value.code == 2
    assert message in capsys.readouterr().err
