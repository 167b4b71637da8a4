"""The runbook has a section for each exception, and every error leads to one."""

from __future__ import annotations

import pytest

from airflow_provider_assistant.exceptions import AssistantBadRequestError, AssistantError
from airflow_provider_assistant.failures import RUNBOOK, anchor_of
from airflow_provider_assistant.provider_info import DOCUMENTATION
from tests.docs.pages import ROOT
from tests.docs.runbook import ERRORS, PAGE, sections
from tests.docs.test_links import anchors


class CallerError(AssistantError):
    """An exception of a caller, which the runbook does not describe."""


@pytest.mark.promise("replies and errors", "The link in the error of a task leads to its section of the runbook.")
@pytest.mark.parametrize(
    ("error", "anchor"),
    [
        *((kind(""), kind.__name__.lower()) for kind in ERRORS),
        (AssistantBadRequestError(status=400), "assistantbadrequesterror"),
        (AssistantBadRequestError(status=418), "assistantbadrequesterror"),
        (AssistantBadRequestError(status=409), "assistantbadrequesterror-409"),
        (AssistantBadRequestError(status=422), "assistantbadrequesterror-422"),
        (CallerError(), "assistanterror"),
    ],
)
def test_every_error_leads_to_a_section(error, anchor):
    assert anchor_of(error) == anchor
    assert anchor in anchors(PAGE)
    assert f"{DOCUMENTATION}en/stable/{PAGE.relative_to(ROOT / 'docs').with_suffix('.html').as_posix()}" == RUNBOOK


def test_a_section_is_there_once_and_is_sentences():
    titles = [section.anchor for section in sections()]
    assert len(set(titles)) == len(titles)
    for section in sections():
        for text in filter(None, (section.happened, section.meaning, section.safe, section.todo)):
            assert text.endswith(".")
            assert text[0].isupper() or text[0] in "'["
        assert len(section.happened) <= 80
