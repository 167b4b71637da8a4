"""What every error of the package is: readable in one line, wherever its text goes."""

from __future__ import annotations

import pickle

import pytest

from airflow_provider_assistant import exceptions
from airflow_provider_assistant.exceptions import AssistantError, AssistantNotFoundError
from airflow_provider_assistant.triggers.events import failure_of, raise_failure

KINDS = [kind for kind in vars(exceptions).values() if isinstance(kind, type) and issubclass(kind, AssistantError)]
NASTY = "Binder Error:\n  no column\r\nSubject: x\t\x1b[31mred\x00 \u2028 end "


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_its_text_is_one_line_without_control_characters(kind):
    text = str(kind(NASTY))
    assert text == "Binder Error: no column Subject: x [31mred end"
    assert text.isprintable()
    assert str(pickle.loads(pickle.dumps(kind(NASTY)))) == text


def test_it_is_the_same_line_after_a_trigger_has_reported_it():
    error = AssistantNotFoundError(NASTY, status=404)
    with pytest.raises(AssistantNotFoundError) as raised:
        raise_failure(failure_of(error))
    assert str(raised.value) == str(error)
