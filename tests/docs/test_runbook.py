"""The runbook agrees with the exceptions and has a section for each of them."""

from __future__ import annotations

import re

import pytest
from airflow.providers.common.compat.sdk import AirflowSensorTimeout

from airflow_provider_assistant.exceptions import AssistantBadRequestError, AssistantError
from airflow_provider_assistant.failures import RUNBOOK, anchor_of
from airflow_provider_assistant.provider_info import DOCUMENTATION
from tests.docs.pages import ROOT
from tests.docs.runbook import ERRORS, PAGE, sections, written


class CallerError(AssistantError):
    """An exception of a caller, which the runbook does not describe."""


def test_the_page_is_what_the_exceptions_say():
    assert PAGE.read_text() == written(), "python -m tests.docs.runbook writes it"


def anchors():
    headings = re.findall(r"^### (.+)$", PAGE.read_text(), re.MULTILINE)
    return [re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings]


@pytest.mark.parametrize("error", ERRORS)
def test_every_exception_has_a_section(error):
    assert anchor_of(error("")) == error.__name__.lower()
    assert anchor_of(error("")) in anchors()


@pytest.mark.parametrize(
    ("error", "anchor"),
    [
        (AssistantBadRequestError(status=400), "assistantbadrequesterror"),
        (AssistantBadRequestError(status=418), "assistantbadrequesterror"),
        (AssistantBadRequestError(status=409), "assistantbadrequesterror-409"),
        (AssistantBadRequestError(status=422), "assistantbadrequesterror-422"),
        (CallerError(), "assistanterror"),
        (AirflowSensorTimeout(), "airflowsensortimeout"),
        (ConnectionRefusedError(), "oserror"),
        (ZeroDivisionError(), "exception"),
    ],
)
def test_every_log_line_leads_to_a_section(error, anchor):
    assert anchor_of(error) == anchor
    assert anchor in anchors()


def test_every_section_is_there_once():
    assert sorted(anchors()) == sorted(section.anchor for section in sections())
    assert len(set(anchors())) == len(anchors())
    place = PAGE.relative_to(ROOT / "docs").with_suffix(".html").as_posix()
    assert f"{DOCUMENTATION}en/stable/{place}" == RUNBOOK


@pytest.mark.parametrize("section", sections(), ids=lambda section: section.title)
def test_a_section_is_short_sentences(section):
    for text in (section.happened, section.meaning, section.safe, section.todo):
        assert text.endswith(".")
        assert text[0].isupper() or text[0] in "'["
    assert len(section.happened) <= 80
