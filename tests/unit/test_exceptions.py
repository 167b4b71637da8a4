"""What an error may say."""

from __future__ import annotations

import inspect
import pickle

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException
from airflow.serialization.serialized_objects import BaseSerialization

from airflow_provider_assistant import exceptions
from airflow_provider_assistant.exceptions import (
    AssistantError,
    AssistantInputError,
    AssistantNotFoundError,
    AssistantStorageError,
)
from airflow_provider_assistant.triggers.events import failure_of, raise_failure

FORGED = "done\n[2026-11-21] INFO - all is well \x1b[2J\x1b[1;31m\x07\x85\u2028\u202ereversed\x00\ud800"
ERRORS = [kind for kind in vars(exceptions).values() if inspect.isclass(kind) and issubclass(kind, AssistantError)]


@pytest.mark.promise("security", "Text of others in an error cannot forge lines of the log.")
@pytest.mark.parametrize("error", ERRORS)
def test_an_error_is_one_line_whatever_it_repeats(error):
    said = str(error(FORGED))
    assert said.splitlines() == [said]
    assert "\x1b" not in said
    assert said.encode()
    assert r"done\n[2026-11-21]" in said
    assert str(pickle.loads(pickle.dumps(error(FORGED)))) == said


def test_it_is_the_same_line_after_a_trigger_has_reported_it():
    error = AssistantNotFoundError(FORGED, status=404)
    with pytest.raises(AssistantNotFoundError) as raised:
        raise_failure(failure_of(error))
    assert str(raised.value) == str(error)


def test_a_file_that_cannot_be_written_is_an_error_of_both_kinds():
    error = AssistantStorageError("a cannot be written", errno=28)
    assert isinstance(error, OSError)
    assert (error.errno, str(error)) == (28, "a cannot be written")
    assert pickle.loads(pickle.dumps(error)).errno == 28


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({}, "a failed"),
        ({"safe": "Nothing was sent."}, "a failed. Nothing was sent."),
        ({"todo": "Repair b. Then c."}, "a failed. Repair b. Then c."),
        ({"safe": "Nothing was sent.", "todo": "Repair b."}, "a failed. Nothing was sent. Repair b."),
        ({"safe": "", "todo": ""}, "a failed"),
    ],
)
def test_the_text_is_a_line_of_the_fields(fields, text):
    assert str(AssistantError("a failed", **fields)) == text
    assert AssistantError("a failed", **fields).happened == "a failed"


@pytest.mark.parametrize("error", ERRORS)
def test_the_fields_survive_pickling_and_airflow(error):
    raised = error(FORGED, safe=f"Nothing was {FORGED}.", todo=f"Repair {FORGED}.")
    copies = [pickle.loads(pickle.dumps(raised)), BaseSerialization.deserialize(BaseSerialization.serialize(raised))]
    for copied in copies:
        assert type(copied) is type(raised)
        assert isinstance(copied, error)
        assert str(copied) == str(raised)
        assert vars(copied) == vars(raised)
    assert all("\x1b" not in text for text in (raised.happened, raised.safe, raised.todo))


@pytest.mark.parametrize("error", ERRORS)
def test_airflow_retries_what_is_retryable(error):
    for retryable in (True, False):
        assert isinstance(error("", retryable=retryable), AirflowFailException) is not retryable
    assert isinstance(error(""), AirflowFailException) is not error.default_retryable


@pytest.mark.parametrize("error", ERRORS)
def test_every_class_says_what_is_safe_and_what_to_do(error):
    assert error("").safe is None
    assert error("").todo is None
    assert error.default_safe
    # The message of an invalid input itself says what to correct.
    assert error.default_todo or error is AssistantInputError
