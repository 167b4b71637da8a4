"""The runbook agrees with the table of messages and has a section for every exception."""

from __future__ import annotations

import inspect
import re

import pytest

from airflow_provider_assistant import exceptions
from airflow_provider_assistant.exceptions import AssistantError
from airflow_provider_assistant.messages import MESSAGES, RUNBOOK, message_of
from airflow_provider_assistant.provider_info import DOCUMENTATION
from tests.docs.pages import ROOT
from tests.docs.runbook import PAGE, written

ERRORS = [kind for kind in vars(exceptions).values() if inspect.isclass(kind) and issubclass(kind, AssistantError)]


def test_the_page_is_what_the_table_says():
    assert PAGE.read_text() == written(), "python -m tests.docs.runbook writes it"


@pytest.mark.parametrize("error", ERRORS)
def test_every_exception_has_a_row(error):
    assert message_of(error("")).error is error


def test_every_log_line_leads_to_a_section():
    headings = re.findall(r"^### (.+)$", PAGE.read_text(), re.MULTILINE)
    anchors = {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}
    assert {message.anchor for message in MESSAGES} == anchors
    place = PAGE.relative_to(ROOT / "docs").with_suffix(".html").as_posix()
    assert f"{DOCUMENTATION}en/stable/{place}" == RUNBOOK


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message.title)
def test_a_row_is_short_sentences(message):
    for text in (message.happened, message.meaning, message.safe, message.todo):
        assert text.endswith(".")
        assert text[0].isupper() or text[0] in "'["
    assert len(message.happened) <= 80
