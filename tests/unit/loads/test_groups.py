"""Loads with ``group_columns``: generated histories of pages and their chunks, compared with a model."""

from __future__ import annotations

import random
from types import SimpleNamespace

import pyarrow.parquet as pq
import pytest

from airflow_provider_assistant.exceptions import AssistantInputError, AssistantPermissionError
from airflow_provider_assistant.ledger import Filter, Ledger
from airflow_provider_assistant.ledger.settle import settle
from airflow_provider_assistant.operators.documents import AssistantLoadTextOperator, AssistantUploadFilesOperator
from tests.unit.loads.loads import counts
from tests.unit.loads.loads import load as load_rows

GROUPED = {
    "columns": {"title": "key"},
    "constants": {"category": "faq"},
    "key_columns": ["key"],
    "group_columns": ["page"],
    "max_concurrency": 4,
}


def rows_of(pages):
    return [
        {"key": key, "page": page, "content": content}
        for page, chunks in pages.items()
        for key, content in chunks.items()
    ]


def load(source, **options):
    return load_rows(source, AssistantLoadTextOperator, **{**GROUPED, **options})


def found(result, kind="stale"):
    """Return the group by key of the findings of a kind."""
    rows = pq.read_table(result["findings"]).to_pylist() if result["findings"] else []
    return {row["key"]: row["group"] for row in rows if row["kind"] == kind}


class Pages:
    """Pages of a source that change between runs, and what the ledger should know of their chunks."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.pages: dict[str, dict[str, str]] = {}
        self.gone: dict[str, dict[str, str]] = {}
        self.known: dict[str, SimpleNamespace] = {}
        self._number = 0

    def _new(self) -> str:
        self._number += 1
        return f"n{self._number}"

    def change(self) -> None:
        rng = self.rng
        for _ in range(rng.randint(1, 3)):
            name = self._new()
            self.pages[f"page {name}"] = {f"{name}#{chunk}": "text" for chunk in range(rng.randint(1, 5))}
        for page in rng.sample(sorted(self.pages), len(self.pages) // 3):
            chunks = self.pages[page]
            for key in rng.sample(sorted(chunks), rng.randint(0, len(chunks))):
                if rng.random() < 0.5:
                    del chunks[key]
                else:
                    chunks[key] = self._new()
            if rng.random() < 0.5:
                chunks[f"{page}#{self._new()}"] = "text"
            if not chunks or rng.random() < 0.2:
                self.gone[page] = self.pages.pop(page)
            elif rng.random() < 0.2:
                key, text = chunks.popitem()
                self.pages[rng.choice(sorted(self.pages))][key] = text
        self.pages = {page: chunks for page, chunks in self.pages.items() if chunks} or {"page": {"last": "text"}}
        for page in [page for page in sorted(self.gone) if self.gone[page] and rng.random() < 0.2]:
            self.pages[page] = self.gone.pop(page)

    def some(self) -> dict[str, dict[str, str]]:
        return {
            page: self.pages[page]
            for page in self.rng.sample(sorted(self.pages), self.rng.randint(1, min(4, len(self.pages))))
        }

    def see(self, pages, judged, *, has_groups=True):
        """Return the stale and superseded keys of a load of these pages, each with its group, and remember the load."""
        rows = {row["key"]: row for row in rows_of(pages)}
        superseded = {}
        for key, row in rows.items():
            known = self.known.setdefault(key, SimpleNamespace(page=None, content=row["content"]))
            if known.content != row["content"]:
                superseded[key] = row["page"] if has_groups else known.page
            known.content = row["content"]
            if has_groups:
                known.page = row["page"]
        gone = {key: known.page for key, known in self.known.items() if key not in rows}
        stale = {"source": gone, "groups": {key: page for key, page in gone.items() if page in pages}, "nothing": {}}
        return stale[judged], superseded


@pytest.mark.promise("loads", "Documents whose rows are gone are stale: in a whole source, or in the groups of a feed.")
@pytest.mark.parametrize("seed", [0, 1])
def test_generated_histories(seed, service, connection):
    """The model says what is stale and superseded after every run: whole sources, feeds, parts, and without groups."""
    model = Pages(seed)
    for night in range(9):
        model.change()
        how = model.rng.choice(["whole", "feed", "feed", "mapped", "ignore", "without groups"])
        options = {"run_id": f"{night}", "allow_mass_change": model.rng.random() < 0.5}
        if how == "mapped":
            pages = sorted(model.pages)
            model.rng.shuffle(pages)
            parts = [{page: model.pages[page] for page in pages[part::3]} for part in range(3)]
            tasks = [(part, "groups", {"map_index": index}) for index, part in enumerate(parts) if part]
        elif how == "without groups":
            tasks = [(model.some(), "nothing", {"group_columns": (), "on_missing": "ignore"})]
        else:
            judged, missing_in, pages = {
                "whole": ("source", "source", model.pages),
                "feed": ("groups", "groups", model.some()),
                "ignore": ("nothing", None, model.some()),
            }[how]
            more = {"missing_in": missing_in} if missing_in else {"on_missing": "ignore"}
            tasks = [(pages, judged, more)]
        for pages, judged, more in tasks:
            stale, superseded = model.see(pages, judged, has_groups=how != "without groups")
            result = load(rows_of(pages), **options, **more)
            assert found(result, "superseded") == superseded, how
            assert found(result) == stale, how
            assert result["stale"] == (None if judged == "nothing" else len(stale)), how
            if stale and model.rng.random() < 0.3:
                for key in stale:
                    # All documents of the key, older ones as well.
                    with Ledger.open() as ledger:
                        deleted = Filter(label_part=key)
                        seen = settle(ledger, deleted, "removed")
                        assert settle(ledger, deleted, "removed", confirmation=seen.confirmation).settled
                    del model.known[key]


PAGES = {"a": {"a#1": "one", "a#2": "two"}, "b": {"b#1": "one"}}


def without(pages, key):
    return {page: {name: text for name, text in chunks.items() if name != key} for page, chunks in pages.items()}


def test_mapped_tasks_of_whole_pages_judge_their_pages(service, connection):
    load(rows_of(PAGES))
    for index, (page, chunks) in enumerate(without(PAGES, "a#1").items()):
        result = load(rows_of({page: chunks}), run_id="next", map_index=index)
        assert found(result) == ({"a#1": "a"} if index == 0 else {})


def test_a_page_that_two_mapped_tasks_share_is_refused_after_the_load(service, connection):
    """Each task would take the rows of the other one for gone."""
    first = load(rows_of({"a": {"a#1": "one"}}), map_index=0)
    assert first["stale"] == 0
    for _ in range(2):
        with pytest.raises(AssistantInputError, match=r"'a'.* map index 0.* Give all rows of a group to one task"):
            load(rows_of({"a": {"a#2": "two"}, "b": {"b#1": "one"}}), map_index=1)
    assert service.posts() == 3


def test_rejected_rows_do_not_make_others_stale(service, connection):
    load(rows_of(PAGES))
    broken = [{**row, "key": None if row["key"] == "a#2" else row["key"]} for row in rows_of(PAGES)]
    result = load(broken, run_id="next", missing_in="groups", max_rejected=1)
    assert (found(result), counts(result)) == ({}, {"unchanged": 2, "rejected": 1})
    broken = [{**row, "page": None if row["key"] == "a#2" else row["page"]} for row in rows_of(PAGES)]
    result = load(broken, run_id="last", missing_in="groups", max_rejected=1)
    assert (found(result), found(result, "rejected")) == ({}, {"a#2": None})


def test_ambiguous_and_failed_rows_do_not_make_others_stale(service, connect):
    connect(retries=0)
    load(rows_of(PAGES))
    service.answer("store-then-status:502", path="documents", times=1)
    changed = {"a": {"a#1": "changed", "a#2": "two"}}
    result = load(rows_of(changed), run_id="next", missing_in="groups", on_ambiguous="skip")
    assert (result["ambiguous"], result["stale"], found(result, "ambiguous")) == (1, 0, {"a#1": "a"})
    # The document of the row may be an older one or none, but one is there: without its row, it is stale.
    result = load(rows_of(without(changed, "a#1")), run_id="last", missing_in="groups", on_ambiguous="skip")
    assert found(result) == {"a#1": "a"}


@pytest.mark.parametrize("allowed", [False, True])
def test_groups_that_lose_most_of_a_source_stop_the_load(allowed, service, connection):
    pages = {f"page {page}": {f"{page}#{chunk}": "text" for chunk in range(6)} for page in range(20)}
    load(rows_of(pages))
    first = {page: dict(list(chunks.items())[:1]) for page, chunks in pages.items()}
    options = {"run_id": "next", "missing_in": "groups", "allow_mass_change": allowed}
    if allowed:
        assert load(rows_of(first), **options)["stale"] == 100
        return
    with pytest.raises(AssistantInputError, match=r"120 documents, and this load would list as stale 100 of them"):
        load(rows_of(first), **options)
    few = dict(list(first.items())[:4])
    assert load(rows_of(few), **options)["stale"] == 20


def test_an_unfinished_load_judges_nothing_and_its_retry_all(service, connect):
    connect(retries=0)
    load(rows_of(PAGES))
    changed = without(PAGES | {"c": {f"c#{number}": "new" for number in range(60)}}, "a#2")
    service.answer("status:403", path="documents")
    with pytest.raises(AssistantPermissionError):
        load(rows_of(changed), run_id="next", missing_in="groups")
    assert found(load(rows_of(changed), run_id="next", missing_in="groups")) == {"a#2": "a"}


def test_a_source_needs_its_group_columns(service, connection):
    with pytest.raises(AssistantInputError, match="no column parent"):
        load(rows_of(PAGES), group_columns="parent")
    with pytest.raises(AssistantInputError, match="group_columns"):
        AssistantLoadTextOperator(task_id="load", source=[], missing_in="groups")
    with pytest.raises(AssistantInputError, match="missing_in"):
        AssistantUploadFilesOperator(task_id="load", files=[], missing_in="groups")
