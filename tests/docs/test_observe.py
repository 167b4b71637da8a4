"""The notifier of the page on observing says what went wrong."""

from __future__ import annotations

from types import SimpleNamespace
from urllib.parse import urlsplit

import pytest

from airflow_provider_assistant.exceptions import AssistantError
from airflow_provider_assistant.operators.documents import AssistantLoadQAOperator
from tests.docs.pages import ROOT, blocks_of
from tests.task_runs.context import execute_operator

BLOCKS = blocks_of(ROOT / "docs/operate/observe.md")
ROW = {"title": "t", "question": "q", "answer": "a", "category": "faq"}


@pytest.fixture
def tell():
    """Return the notifier of the page, rendered for a task that ended with these names in its context."""
    [code] = [block.code for block in BLOCKS if block.language == "python"]
    names = {"__name__": "block"}
    exec(code, names)

    def rendered(**context):
        ti = SimpleNamespace(dag_id="load_faq_and_tell", task_id="load", log_url="http://airflow/log?a=1&b=2")
        names["tell"].render_template_fields({"ti": ti, **context})
        return names["tell"]

    return rendered


def test_the_mail_says_what_went_wrong(tell, service, connect):
    connect(key="an old key")
    task = AssistantLoadQAOperator(task_id="load", source=[ROW])
    with pytest.raises(AssistantError) as failed:
        execute_operator(task, dag_id="load_faq_and_tell")
    host = urlsplit(service.server.url).netloc
    mail = tell(exception=str(failed.value).replace(host, "assistant.example.com"))
    [shown] = [block.code for block in BLOCKS if block.language == "text"]
    assert mail.subject == shown.strip()
    assert "Fix the API key in the Airflow connection" in mail.html_content
    assert "http://airflow/log" in mail.html_content


def test_a_task_that_was_killed_has_no_exception(tell):
    assert tell().subject == "load_faq_and_tell.load: it was killed"
