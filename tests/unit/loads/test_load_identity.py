"""Ownership of keys by sources, and the limit on mass changes."""

from __future__ import annotations

import pytest

from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.operators.documents import AssistantUploadFilesOperator
from tests.unit.loads.loads import counts, many
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
            for way_out in ("'dag.products'", "'dag.stores'", "source_name='dag.products'", "namespace"):
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
        assert upload("b", namespace="b") == {"created": 1}


class TestExtent:
    @pytest.mark.promise("loads", "A source that lost most of its rows stops the load before anything is sent.")
    def test_a_source_that_lost_most_of_its_rows_sends_nothing(self, service, connection):
        documents = 120
        source = rows(documents)
        load(source)
        left = source[::3]
        with pytest.raises(AssistantInputError, match=f"list as stale {documents - len(left)} of them") as caught:
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
        with pytest.raises(AssistantInputError, match="list as stale 60 of them"):
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

    @pytest.mark.promise("loads", "A repeated row hides no lost one from the guard.")
    def test_rows_that_are_repeated_count_once(self, service, connection):
        load(rows(120))
        with pytest.raises(AssistantInputError, match="list as stale 80 of them"):
            load(rows(40) * 3, run_id="next")

    @pytest.mark.promise("loads", "Half a checkout deletes nothing, also of a small site.")
    @pytest.mark.parametrize(("left", "passes"), [(3, False), (20, True), (32, True)])
    def test_a_small_site_does_not_vanish(self, service, connect, left, passes):
        connect(manage_documents=True)
        load(rows(33))
        options = {"run_id": "next", "on_missing": "delete"}
        if passes:
            assert load(rows(left), **options)["deleted"] == 33 - left
            return
        with pytest.raises(AssistantInputError, match="delete 30 of them"):
            load(rows(left), **options)
        assert len(service.documents()) == 33

    @pytest.mark.promise("loads", "Rows that cannot be read are not taken for changed ones.")
    def test_rows_that_cannot_be_read_say_why(self, service, connection, tmp_path):
        path = tmp_path / "faq.csv"
        lines = ["id,title,question,answer", *(f"{number},T{number},Q,Öl {number}" for number in range(60))]
        path.write_bytes("\n".join(lines).encode("cp1252"))
        load(str(path), csv_options={"encoding": "cp1252"})
        with pytest.raises(AssistantInputError, match=r"60 rows were rejected.* of another encoding.*csv_options"):
            load(str(path), run_id="next")
        assert service.posts() == 60

    def test_what_a_delta_does_not_have_is_not_stale(self, service, connection):
        load(rows(60))
        done = load(rows(3, "New."), run_id="next", on_missing="ignore")
        assert counts(done) == {"created": 3}
        assert done["stale"] is None

    def test_nothing_counts_that_would_not_be_sent(self, service, connection):
        load(rows(60))
        assert counts(load(rows(60, "New."), run_id="next", on_change="skip")) == {"skipped": 60}
