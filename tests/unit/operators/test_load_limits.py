"""Loads over a socket at a tenant whose documents are limited: nothing is sent in vain."""

from __future__ import annotations

import pytest

from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.operators.documents import AssistantUploadFilesOperator
from tests.unit.operators.test_documents import counts, listed, load, loaded_titles, many


def test_what_fits_is_loaded_and_the_rest_by_the_next_run(service, connection, ledger_home):
    service.behave(documents_quota=4)
    source = many(9)
    result = load(source, key_columns=["title"], on_limit="fit")
    assert (counts(result), result["stale"]) == ({"created": 4, "skipped": 5}, 0)
    assert listed(ledger_home) == [("skipped", number, f"T{number - 1}") for number in range(5, 10)]
    service.behave(documents_quota=7)
    assert counts(load(source, key_columns=["title"], on_limit="fit", run_id="b")) == {
        "unchanged": 4, "created": 3, "skipped": 2,
    }  # fmt: skip
    service.behave(documents_quota=None)
    assert counts(load(source, key_columns=["title"], run_id="c")) == {"unchanged": 7, "created": 2}
    assert loaded_titles(service) == sorted(row["title"] for row in source)
    before = len(service.journal())
    assert counts(load(source, key_columns=["title"], run_id="d")) == {"unchanged": 9}
    assert len(service.journal()) == before


def test_files_are_checked_as_well(service, connection, tmp_path):
    (folder := tmp_path / "files").mkdir()
    for number in range(3):
        (folder / f"{number}.md").write_text(f"File {number}.")
    service.behave(documents_quota=2)
    with pytest.raises(AssistantInputError, match="3 documents would be created"):
        load(str(folder), AssistantUploadFilesOperator, on_limit="fail")
    assert service.posts() == 0


@pytest.mark.parametrize("status", [403, 404, 500])
def test_limits_that_cannot_be_read_do_not_stop_a_load(status, service, connection):
    service.answer(f"status:{status}", path="/limits$", times=None)
    assert counts(load(many(2))) == {"created": 2}
