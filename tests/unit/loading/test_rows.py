"""Keys and content hashes of rows, which must not change in an upgrade."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from airflow_provider_assistant.loading.field_columns import mapping_of, wanted_columns
from airflow_provider_assistant.loading.file_rows import FileRows
from airflow_provider_assistant.loading.fingerprints import RowFingerprint, encoded, hash_of
from airflow_provider_assistant.loading.sources import open_source
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_assistant.api import endpoints
from airflow_provider_assistant.api.payloads import QADocument, TextDocument
from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.keys import LABEL_LENGTH
from airflow_provider_assistant.loading.rows import DataframeRows
from airflow_provider_assistant.storage.uploads import as_upload

PINNED = {
    "content": "8bd9f59250618382c1579cd3787c7604",
    "id": "18f7e973db299c30b50b52b491961905",
    "texts": "404868025080b3c8c13a2af8e293094e",
    "mixed": "b273b12dc3002d8b409aba70b2c15da3",
    "constant": "1d4c2596a352b6ce6ecc7819223dd6d8",
    "null": "67e028a31dfe20df8be893a50b444b9d",
    "name": "1d783e542212759c794336339d2a9823",
    "bytes": "c681ff421fbd7af6dc373a7ced20fbeb",
}
ROW = {"id": 7, "title": "T", "content": "Ünï 🕘", "category": "faq"}


def rows_of(source, *, payload=TextDocument, columns=None, constants=None, key_columns=()):
    mapping = mapping_of(payload, columns, constants)
    return DataframeRows(
        open_source(source, wanted_columns(payload, mapping, key_columns)),
        payload=payload,
        columns=mapping,
        constants=constants or {},
        key_columns=key_columns,
        call=lambda document: endpoints.create_text_document("site", document),
    )


def digests(source, **options):
    return [digest for piece in rows_of(source, **options).fingerprints() for digest in piece]


def items(source, **options):
    return list(rows_of(source, **options).prepared(lambda _: True))


@pytest.mark.promise("loads", "An upgrade of the package creates no document again.")
def test_digests_are_those_of_the_first_version():
    """If a digest changed, every user would load every document again."""
    (by_content,) = digests([ROW])
    assert by_content == RowFingerprint(PINNED["content"], PINNED["content"])
    assert digests([ROW], key_columns=["id"]) == [RowFingerprint(PINNED["id"], PINNED["content"])]
    assert digests([ROW], key_columns=["title", "category"])[0].key == PINNED["texts"]
    assert digests([ROW], key_columns=["title", "id"])[0].key == PINNED["mixed"]
    assert digests([ROW], constants={"category": "faq"})[0].content_hash == PINNED["constant"]
    qa = [{"title": "T", "question": "Q", "answer": "A", "category": None}]
    assert digests(qa, payload=QADocument)[0].content_hash == PINNED["null"]


def test_a_file_s_digests_are_those_of_the_first_version(tmp_path):
    (tmp_path / "a.md").write_bytes(b"content")
    rows = FileRows(
        [("guides/a.md", tmp_path / "a.md")], upload=lambda path, _: as_upload(path), call=lambda upload: upload
    )
    assert list(rows.fingerprints()) == [[RowFingerprint(PINNED["name"], PINNED["bytes"])]]
    (item,) = rows.prepared(lambda _: True)
    assert (item.number, item.readable_key, item.problem) == (1, "guides/a.md", None)
    assert item.call.filename == "a.md"


VALUES = st.one_of(
    st.none(),
    st.text(max_size=6),
    st.text(alphabet="0123456789:,' b[]int strnull", max_size=12),
    st.integers(-3, 30),
    st.booleans(),
    st.floats(allow_nan=False),
    st.binary(max_size=4),
    st.dates(),
    st.lists(st.integers(0, 3), max_size=3),
    st.decimals(allow_nan=False, places=2),
)
TUPLES = st.lists(VALUES, max_size=4).map(tuple)


def told_apart(values):
    return tuple((type(value).__name__, str(value)) for value in values)


@given(TUPLES, TUPLES)
def test_values_that_differ_are_encoded_differently(one, other):
    assert (encoded(one) == encoded(other)) == (told_apart(one) == told_apart(other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("a", "b"), ("ab",)),
        (("a", ""), ("", "a")),
        (("1:a",), ("1", "a")),
        ((None,), ("",)),
        ((1,), ("1",)),
        ((1, None), ("int 1", None)),
        ((1,), (1.0,)),
        ((True,), (1,)),
        ((b"xx3:", ""), ("b'xx", "'0:")),
        ((None, ""), ("", None)),
        ((date(2026, 1, 1),), ("2026-01-01",)),
        ((datetime(2026, 1, 1, tzinfo=UTC),), (datetime(2026, 1, 1),)),  # noqa: DTZ001
        ((Decimal("1.0"),), (Decimal("1.00"),)),
        ((), ("",)),
    ],
)
def test_pairs_that_are_easily_confused(one, other):
    assert encoded(one) != encoded(other)


@given(st.lists(st.tuples(st.text(), st.text(min_size=1).filter(str.strip)), min_size=1, max_size=5), st.data())
def test_a_batch_is_hashed_as_its_rows_are(texts, data):
    """A batch of plain strings is hashed by column, and one with an empty, a wrong or an odd value is not."""
    odd = data.draw(st.sampled_from([None, " ", 7, "half \ud83d", "100 %", "%s"]))
    for rows in (texts, [*texts, (odd, "content")]):
        source = [{"title": title, "content": content} for title, content in rows]
        found = digests(source, columns={"title": "title", "content": "content"}, constants={"category": "5 %d"})
        if odd in {7, "half \ud83d"} and rows is not texts:
            # The last row has no content, and so no key.
            assert not found.pop().has_key
        for (title, content), one in zip(rows[: len(found)], found, strict=True):
            given = None if isinstance(title, str) and not title.strip() else title
            expected = hash_of(encoded(["TextDocument", "category", "5 %d"]) + encoded([given, content]))
            assert one == RowFingerprint(expected, expected)


def test_a_digest_of_half_a_surrogate_exists():
    assert len(hash_of("\ud800")) == 32


def test_content_depends_on_the_document_and_not_on_the_names_of_columns():
    renamed = [{"a": "T", "b": ROW["content"], "c": "faq", "more": 1}]
    columns = {"title": "a", "content": "b", "category": "c"}
    assert digests(renamed, columns=columns) == digests([ROW])
    assert digests([ROW | {"id": 8}], key_columns=["id"])[0].content_hash == digests([ROW])[0].content_hash
    for change in ({"title": "t"}, {"content": "c"}, {"category": None}):
        assert digests([ROW | change])[0].content_hash != digests([ROW])[0].content_hash
    assert (
        digests([ROW], constants={"category": "a"})[0].content_hash
        != digests([ROW], constants={"category": "b"})[0].content_hash
    )


def test_rows_without_a_key_are_bad_one_by_one():
    source = [ROW | {"id": None}, ROW | {"id": None}, ROW]
    assert len({digest.key for digest in digests(source, key_columns=["id"])}) == 3
    assert [item.problem for item in items(source, key_columns=["id"])] == ["key column 'id' is empty"] * 2 + [None]


def test_items_are_those_that_are_wanted():
    source = [ROW | {"title": str(number)} for number in range(1, 2501)]
    rows = rows_of(source)
    chosen = {1, 1000, 1001, 2500}
    assert [(item.number, item.call.json["title"]) for item in rows.prepared(chosen.__contains__)] == [
        (number, str(number)) for number in sorted(chosen)
    ]
    everything = [digest for piece in rows.fingerprints() for digest in piece]
    assert [item.fingerprint for item in rows.prepared(chosen.__contains__)] == [
        everything[n - 1] for n in sorted(chosen)
    ]


def test_labels():
    (item,) = items([ROW], key_columns=["id"])
    assert item.readable_key == "7"
    (item,) = items([ROW], key_columns=["id", "title"])
    assert item.readable_key == "id=7, title=T"
    (item,) = items([ROW | {"content": "x" * 999}])
    assert item.readable_key.startswith("title=T, content=xxx")
    assert len(item.readable_key) == LABEL_LENGTH


def test_a_problem_is_in_words_and_without_the_content():
    (item,) = items([ROW | {"title": " ", "content": 5}])
    assert item.call is None
    assert item.problem == "column 'content' must be text, not a number"
    (item,) = items([ROW | {"content": None}], columns={"title": "id"})
    assert item.problem == "column 'id' must be text, not a number; column 'content' is empty"


@pytest.mark.parametrize(
    ("columns", "constants", "part"),
    [
        ({"titel": "a"}, None, "titel"),
        (None, {"kind": "x"}, "kind"),
        ({"title": "a"}, {"title": "b"}, "title given in both columns and constants"),
        (None, {"title": ""}, "title must be a non-empty string"),
        (None, {"title": 5}, "title must be a non-empty string"),
    ],
)
def test_columns_and_constants_that_cannot_be(columns, constants, part):
    with pytest.raises(AssistantInputError, match=part):
        mapping_of(TextDocument, columns, constants)


def test_the_mapping_is_in_the_order_of_the_fields():
    assert list(mapping_of(TextDocument, {"category": "c", "title": "t"}, None).items()) == [
        ("title", "t"), ("content", "content"), ("category", "c"),
    ]  # fmt: skip
