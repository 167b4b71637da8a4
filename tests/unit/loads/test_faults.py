"""What loads once got wrong on bad nights: each test varies one kind of fault."""

from __future__ import annotations

import logging
import os
from concurrent.futures import ThreadPoolExecutor
from random import Random

import pandas as pd
import pytest
import sqlalchemy as sa

from airflow_provider_assistant.exceptions import (
    AssistantIncompleteError,
    AssistantInputError,
    AssistantLedgerError,
)
from airflow_provider_assistant.ledger import Claim, Filter, Ledger, RunRef, Scope, queries
from airflow_provider_assistant.ledger.database import ledger_errors
from airflow_provider_assistant.operators.documents import AssistantLoadQAOperator, AssistantUploadFilesOperator
from tests.task_runs.finals import is_final
from tests.unit.loads.loads import ROWS, counts, listed, load, loaded_titles, many


def rows_of(answers, **fields):
    """Return rows whose key is their position in the list."""
    return [
        {"id": number, "title": f"About {answer}", "question": "Q?", "answer": answer, **fields}
        for number, answer in enumerate(answers)
    ]


def answers(service):
    return sorted(row["content"] for row in service.documents())


KEYED = {"key_columns": "id"}
EQUAL = {**KEYED, "on_change": "replace", "on_missing": "delete", "allow_mass_change": True}


@pytest.mark.promise("loads", "A list that is keyed by position may change anywhere: the site has its rows.")
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("manages", [True, False])
def test_content_that_moves_to_other_keys(manages, seed, service, connect):
    """The service refuses a second document of equal content with 409, as documented."""
    connect(manage_documents=manages)
    rng = Random(seed)
    options = EQUAL if manages else {**KEYED, "allow_mass_change": True}
    texts = [f"answer {number}" for number in range(12)]
    for night in range(5):
        load(rows_of(texts), run_id=f"night {night}", **options)
        found = answers(service)
        assert found == sorted(texts) if manages else set(found) >= set(texts)
        posts = service.posts(r"documents/qa$")
        assert counts(load(rows_of(texts), run_id=f"again {night}", **options)) == {"unchanged": len(texts)}
        assert service.posts(r"documents/qa$") == posts
        texts.insert(rng.randrange(len(texts)), f"new {night}")
        texts.remove(rng.choice(texts))
        if night == 2:
            rng.shuffle(texts)


def test_rows_of_equal_content_share_a_document(service, connection):
    rows = rows_of(["same", "same", "other"])
    rows = [row | {"title": row["answer"]} for row in rows]
    assert counts(load(rows, **KEYED)) == {"created": 2, "unchanged": 1}
    assert counts(load(rows, run_id="again", **KEYED)) == {"unchanged": 3}
    # The other row still needs it.
    assert load(rows[1:], run_id="less", **KEYED)["stale"] == 0
    assert load(rows[2:], run_id="least", **KEYED)["stale"] == 2


def test_rows_of_equal_content_that_two_tasks_send_share_a_document(service, connection, monkeypatch):
    from airflow_provider_assistant.loading import load as engine

    (row,) = rows_of(["same"])
    add = engine.Plan.add

    def overtaken(plan, *arguments, **options):
        add(plan, *arguments, **options)
        monkeypatch.setattr(engine.Plan, "add", add)
        with ThreadPoolExecutor() as pool:
            pool.submit(load, [row | {"id": 7}], map_index=1, **KEYED).result()

    monkeypatch.setattr(engine.Plan, "add", overtaken)
    assert counts(load([row], map_index=0, **KEYED)) == {"unchanged": 1}
    assert counts(load([row, row | {"id": 7}], run_id="next", **KEYED)) == {"unchanged": 2}
    assert answers(service) == ["same"]


def test_a_row_of_equal_content_is_rejected_with_the_first(service, connection):
    service.answer("status:400", body="same", times=None)
    rows = [row | {"title": row["answer"]} for row in rows_of(["same", "same", "other"])]
    assert counts(load(rows, max_rejected=2, **KEYED)) == {"created": 1, "rejected": 2}


def test_a_document_that_is_superseded_by_earlier_content_is_listed(service, connection, ledger_home):
    load(rows_of(["one"]), **KEYED)
    for night in ("two", "one"):
        load(rows_of([night]), run_id=night, **KEYED)
        assert listed(ledger_home, night) == [("superseded", 1, "0")]


def test_content_that_comes_back_needs_no_request(service, connect):
    connect(retries=0)
    load(rows_of(["one"]), **KEYED)
    service.answer("status:502", path="documents")
    with pytest.raises(AssistantIncompleteError):
        load(rows_of(["two"]), run_id="changed", **KEYED)
    posts = service.posts()
    assert counts(load(rows_of(["one"]), run_id="back", **KEYED)) == {"unchanged": 1}
    assert service.posts() == posts
    with Ledger.open() as ledger:
        assert ledger.read(queries.counts, Filter(), ("unresolved", "doubled")) == {"unresolved": 0, "doubled": 1}


@pytest.mark.promise("documents of a site", "A document that two sources have stays until neither has its row.")
def test_a_document_of_two_sources_stays_until_neither_has_it(service, connect):
    connect(manage_documents=True)
    rows = rows_of(["one", "two"])
    load(rows, task_id="first", **EQUAL)
    assert counts(load(rows, task_id="second", **EQUAL)) == {"unchanged": 2}
    for night in range(2):
        assert load(rows[:1], task_id="first", run_id=f"night {night}", **EQUAL)["stale"] == 0
        assert load(rows, task_id="second", run_id=f"night {night}", **EQUAL)["deleted"] == 0
    assert answers(service) == ["one", "two"]
    assert load(rows[:1], task_id="second", run_id="last", **EQUAL)["deleted"] == 1
    assert answers(service) == ["one"]


@pytest.mark.promise("loads", "A wrong mapping stops a load after a few rows, and the error names the parameter.")
@pytest.mark.parametrize("more", [0, 300])
def test_a_mapping_that_the_service_never_accepts(more, service, connection):
    service.answer("status:400", path="documents", reply={"error": "title is required."}, times=None)
    frame = pd.DataFrame({"question": [f"Q{n}" for n in range(25 + more)], "answer": "A."})
    with pytest.raises(AssistantInputError, match=r"title is required.*columns=.*--column title") as caught:
        load(frame)
    assert "base URL" not in str(caught.value)
    assert service.posts() < 25 + 40


def test_bad_rows_of_a_source_that_was_accepted_stop_nothing(service, connection):
    load(many(3), key_columns=["title"])
    service.answer("status:400", body="bad", times=None)
    rows = many(3) + [dict(row, title=f"N{n}", answer=f"bad {n}") for n, row in enumerate(many(40))]
    assert counts(load(rows, run_id="next", key_columns=["title"], max_rejected=40))["rejected"] == 40


def test_rows_that_were_never_sent_say_nothing_about_the_mapping(service, connection):
    service.answer("status:400", body="bad", times=None)
    rows = rows_of([*[""] * 24, "bad", *(f"good {number}" for number in range(3))])
    assert counts(load(rows, max_rejected=25, max_concurrency=1, **KEYED)) == {"created": 3, "rejected": 25}


@pytest.mark.promise("loads", "A row that another task was sending and did not load makes the load red.")
@pytest.mark.parametrize("state", ["claimed", "created"])
def test_a_row_that_another_task_is_sending(state, service, connection):
    row = ROWS[0]
    operator = AssistantLoadQAOperator(task_id="load", source=[row], key_columns=["title"])
    (batch,) = operator._rows("acme-docs").batches()
    scope = Scope(operator.hook.site(), "qa")
    claim = Claim(batch.rows[0].key, "Opening hours", 1, batch.rows[0].content_hash)
    with Ledger.open() as ledger, ledger.of(scope, "dag.other", RunRef("dag", "r", "other", -1)) as other:
        other.commit([], [claim])
        if state == "created":
            service.answer("delay:0.2", times=None)
    with pytest.raises(AssistantIncompleteError, match="left to another task"):
        load(ROWS, key_columns=["title"])
    assert loaded_titles(service) == [ROWS[1]["title"]]


@pytest.mark.promise("loads", "A file that changes after it was read is not recorded with the old content.")
def test_a_file_of_the_same_size_that_changed_after_it_was_hashed(service, connection, tmp_path, monkeypatch):
    path = tmp_path / "guide.txt"
    path.write_text("Version 1.")
    from airflow_provider_assistant.loading import load as engine

    add = engine.Plan.add

    def changed_after(plan, *arguments, **options):
        add(plan, *arguments, **options)
        before = path.stat()
        path.write_text("Version 2.")
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 1))

    with monkeypatch.context() as patch:
        patch.setattr(engine.Plan, "add", changed_after)
        with pytest.raises(AssistantInputError, match="1 row was rejected"):
            load(str(path), AssistantUploadFilesOperator)
    assert counts(load(str(path), AssistantUploadFilesOperator, run_id="next")) == {"created": 1}
    assert answers(service) == ["Version 2."]


def test_a_document_that_somebody_deleted_by_hand_is_gone(service, connect):
    """Without a list, the reply to its deletion says so."""
    connect(manage_documents={"list": None})
    load(rows_of(["one", "two"]), **EQUAL)
    gone = next(row["id"] for row in service.documents() if row["content"] == "two")
    service.answer("status:404", path="bulk", reply={"error": f"document {gone} not found"}, times=None)
    result = load(rows_of(["one"]), run_id="next", **EQUAL)
    assert (result["deleted"], result["not_removed"]) == (1, 0)
    assert load(rows_of(["one"]), run_id="last", **EQUAL)["stale"] == 0


@pytest.mark.parametrize(
    "text", ['unrecognized configuration parameter "search_paht"', 'invalid value for parameter "x"']
)
def test_a_setting_that_the_database_refuses_is_permanent(text):
    error = sa.exc.OperationalError("", {}, Exception(f"connection failed: FATAL:  {text}"))
    with (
        pytest.raises(AssistantLedgerError, check=is_final),
        ledger_errors(sa.create_engine("sqlite://"), "cannot be opened"),
    ):
        raise error


def test_limits_of_any_names_are_shown_and_stop_nothing(service, connection, caplog):
    reply = {"plan": "business", "referenceDocuments": {"max": 1, "current": 1}}
    service.answer("status:200", path="/limits$", reply=reply)
    with caplog.at_level(logging.INFO):
        assert counts(load(ROWS)) == {"created": 2}
    assert "referenceDocuments.max 1" in caplog.text
