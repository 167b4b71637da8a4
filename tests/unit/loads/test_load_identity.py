"""Ownership of keys by sources, and the limit on mass changes."""

from __future__ import annotations

import pytest

from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.operators.documents import AssistantUploadFilesOperator
from tests.unit.loads.loads import counts, listed, many
from tests.unit.loads.loads import load as load_rows

KEYED = {"key_columns": "id", "max_concurrency": 4}


def rows(count, answer="A.", first=0):
    return [dict(row, id=first + number, answer=answer) for number, row in enumerate(many(count))]


def load(source, **options):
    return load_rows(source, **{**KEYED, **options})


class TestOwner:
    def test_two_tables_with_the_same_keys_do_not_replace_each_other(self, service, connection):
        assert counts(load(rows(5, "Of products."), task_id="products")) == {"created": 5}
        for night in ("one", "two"):
            with pytest.raises(AssistantInputError, match="5 keys of another source") as caught:
                load(rows(5, "Of stores."), task_id="stores", run_id=night)
            for way_out in ("'dag.products'", "'dag.stores'", "source_name='dag.products'", "namespace", "adopt=True"):
                assert way_out in str(caught.value)
        assert service.posts() == 5
        assert counts(load(rows(5, "Of products."), task_id="products", run_id="two")) == {"unchanged": 5}

    def test_two_tables_with_namespaces_have_keys_of_their_own(self, service, connection):
        load(rows(5, "Of products."), task_id="products")
        for night, expected in (("one", {"created": 5}), ("two", {"unchanged": 5})):
            assert counts(load(rows(5, "Of stores."), task_id="stores", run_id=night, namespace="stores")) == expected
        assert load(rows(5, "Of products."), task_id="products", run_id="two")["stale"] == 0

    def test_the_same_row_in_two_sources_is_one_document(self, service, connection):
        load(rows(5), task_id="one")
        assert counts(load(rows(8), task_id="two")) == {"unchanged": 5, "created": 3}

    def test_a_renamed_load_goes_on_under_its_old_name(self, service, connection):
        load(rows(5), task_id="before")
        changed = rows(4) + rows(1, "New.", first=4)
        with pytest.raises(AssistantInputError, match="has 1 key of another source"):
            load(changed, task_id="after")
        assert counts(load(changed, task_id="after", source_name="dag.before")) == {"unchanged": 4, "created": 1}

    def test_adopted_keys_belong_to_the_new_source(self, service, connection, ledger_home):
        load(rows(5), task_id="before")
        changed = rows(4) + rows(1, "New.", first=4)
        done = load(changed, task_id="after", adopt=True)
        assert counts(done) == {"unchanged": 4, "created": 1}
        assert done["changed"] == 1
        # Without the argument from now on, so its rows are missing here.
        done = load(changed[1:], task_id="after", run_id="next")
        assert (done["unchanged"], done["stale"]) == (4, 1)
        assert [kind for kind, _, _ in listed(ledger_home, "next", "after")] == ["stale"]
        assert load(rows(1, "Other.", first=77), task_id="before", run_id="next")["stale"] == 0

    def test_a_key_that_was_never_created_is_free(self, service, connection):
        service.answer("status:400", path="documents")
        load(rows(1), task_id="one", max_rejected=1)
        assert counts(load(rows(1, "Other."), task_id="two")) == {"created": 1}

    def test_files_of_one_name_belong_to_the_load_that_had_them_first(self, service, connection, tmp_path):
        for name in ("a", "b"):
            (tmp_path / name).mkdir()
            (tmp_path / name / "guide.txt").write_text(f"Of {name}.")

        def upload(name, **options):
            return counts(
                load_rows(str(tmp_path / name / "*.txt"), AssistantUploadFilesOperator, task_id=name, **options)
            )

        assert upload("a") == {"created": 1}
        with pytest.raises(AssistantInputError, match="another source"):
            upload("b")
        assert upload("b", adopt=True) == {"created": 1}


class TestExtent:
    @pytest.mark.promise("loads", "A source that lost most of its rows stops the load before anything is sent.")
    def test_a_source_that_lost_most_of_its_rows_sends_nothing(self, service, connection):
        documents = 120
        source = rows(documents)
        load(source)
        left = source[::3]
        with pytest.raises(AssistantInputError, match=f"leave {documents - len(left)} of them stale") as caught:
            load(left, run_id="next")
        assert "allow_mass_change=True" in str(caught.value)
        assert service.posts() == documents
        assert load(left, run_id="next", allow_mass_change=True)["stale"] == documents - len(left)

    def test_a_source_whose_rows_all_changed_sends_nothing(self, service, connection):
        load(rows(60))
        with pytest.raises(AssistantInputError, match=r"replace 60 of them with other content[.]"):
            load(rows(60, "New."), run_id="next")
        assert service.posts() == 60
        assert counts(load(rows(60, "New."), run_id="next", allow_mass_change=True)) == {"created": 60}

    def test_a_source_whose_keys_all_changed_sends_nothing(self, service, connection):
        load(rows(60))
        with pytest.raises(AssistantInputError, match="leave 60 of them stale"):
            load(rows(60, first=1000), run_id="next")
        assert service.posts() == 60

    @pytest.mark.parametrize("change", ["half", "few documents", "growth"])
    def test_an_ordinary_change_is_loaded(self, change, service, connection):
        before, after = {
            "half": (rows(100), rows(50) + rows(50, "New.", first=50)),
            "few documents": (rows(49), rows(1)),
            "growth": (rows(60), rows(200)),
        }[change]
        load(before)
        done = load(after, run_id="next")
        assert done["rows"] == sum(counts(done).values()) == len(after)

    def test_what_a_delta_does_not_have_is_not_stale(self, service, connection):
        load(rows(60))
        done = load(rows(3, "New."), run_id="next", on_missing="ignore")
        assert counts(done) == {"created": 3}
        assert done["stale"] is None

    def test_nothing_counts_that_would_not_be_sent(self, service, connection):
        load(rows(60))
        assert counts(load(rows(60, "New."), run_id="next", on_change="skip")) == {"skipped": 60}
