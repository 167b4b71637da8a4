"""What an error may say."""

from __future__ import annotations

import inspect
import pickle

import pytest

from airflow_provider_assistant import exceptions
from airflow_provider_assistant.exceptions import AssistantError, AssistantNotFoundError, AssistantStorageError
from airflow_provider_assistant.triggers.events import failure_of, raise_failure

FORGED = "done\n[2026-11-21] INFO - all is well \x1b[2J\x1b[1;31m\x07\x85\u2028\u202ereversed\x00\ud800"
ERRORS = [kind for kind in vars(exceptions).values() if inspect.isclass(kind) and issubclass(kind, AssistantError)]


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
    error = AssistantStorageError("a cannot be written", code=28)
    assert isinstance(error, OSError)
    assert (error.errno, str(error)) == (28, "a cannot be written")
