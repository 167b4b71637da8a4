"""A load that would remove or replace most documents of its source is refused, however often its rows are repeated."""

from __future__ import annotations

import csv
import random

import pytest

from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.operators.documents import AssistantLoadQAOperator
from tests.document_site import DocumentSite
from tests.task_runs.context import task_context

FIELDS = ("title", "question", "answer", "page")


@pytest.fixture
def site(monkeypatch, ledger_home):
    with DocumentSite() as running:
        monkeypatch.setenv("AIRFLOW_CONN_ASSISTANT_DEFAULT", running.connection())
        yield running


def rows(numbers, answer="As ever."):
    return [
        dict(zip(FIELDS, (f"row {number}", f"What is {number}?", answer, f"page {number % 4}"), strict=True))
        for number in numbers
    ]


def load(source, run_id, **options):
    options = {"key_columns": ["title"], "on_missing": "delete", "on_change": "replace"} | options
    operator = AssistantLoadQAOperator(task_id="load", source=source, **options)
    operator.render_template_fields({})
    return operator.execute(task_context("load", run_id=run_id))


def repeated(source, times, how, folder):
    """Return a source that has each row several times."""
    if how == "one after the other":
        return [row for row in source for _ in range(times)]
    if how == "mixed":
        several = source * times
        random.Random(times).shuffle(several)
        return several
    # Each file is a separate batch.
    for number in range(times):
        with (folder / f"{number}.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, FIELDS)
            writer.writeheader()
            writer.writerows(source)
    return str(folder / "*.csv")


@pytest.mark.promise(
    "loads", "A source that lost most of its rows removes nothing, however often it repeats the others."
)
@pytest.mark.parametrize(
    ("kept", "times", "how", "options"),
    [
        (40, 3, "one after the other", {}),
        (40, 3, "in several files", {}),
        (10, 30, "mixed", {"on_missing": "deactivate"}),
        (50, 2, "mixed", {"group_columns": ["page"], "on_missing": "delete_group"}),
    ],
)
def test_repeated_rows_do_not_hide_that_most_rows_are_gone(kept, times, how, options, site, tmp_path):
    load(rows(range(120)), "last night", **options)
    before = site.in_use()
    tonight = repeated(rows(range(kept)), times, how, tmp_path)
    with pytest.raises(AssistantInputError, match=f"120 documents, and this load would leave {120 - kept} of them"):
        load(tonight, "tonight", **options)
    assert site.in_use() == before
    result = load(tonight, "intended", allow_mass_change=True, **options)
    assert (result["unchanged"], result["deleted"] + result["deactivated"]) == (kept * times, 120 - kept)
    assert len(site.in_use()) == kept


@pytest.mark.parametrize("how", ["one after the other", "mixed", "in several files"])
def test_repeated_rows_with_new_content_count_once(how, site, tmp_path):
    load(rows(range(120)), "last night")
    few = rows(range(30), "New.") + rows(range(30, 120))
    result = load(repeated(few, 3, how, tmp_path), "few")
    assert (result["created"], result["deleted"]) == (30, 30)
    most = rows(range(70), "Newer.") + rows(range(70, 90))
    with pytest.raises(AssistantInputError, match="replace 70 of them with other content and leave 30 of them stale"):
        load(repeated(most, 3, how, tmp_path), "most")
    assert len(site.documents) == 120


def test_repeated_rows_of_another_source_are_counted_as_keys(site):
    load(rows(range(5)), "other", source_name="other")
    with pytest.raises(AssistantInputError, match=r"has 3 keys of another source.*: 3 of source 'other'"):
        load(rows(range(3), "New.") * 4, "tonight")
    assert len(site.documents) == 5
