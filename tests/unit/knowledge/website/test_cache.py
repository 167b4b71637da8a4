"""The pages of the last run."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_provider_assistant.knowledge.website.cache import PageCache
from airflow_provider_assistant.knowledge.website.extraction import PageText


def text(number):
    return PageText(f"Page {number}", f"text {number}", canonical=f"https://x.org/{number}", language="en")


def fill(path, count, **headers):
    with PageCache(path) as cache:
        for number in range(count):
            cache.add(f"https://x.org/{number}", headers or {"etag": f'"{number}"'}, text(number))
        cache.save()


def test_pages_are_kept_in_any_order(tmp_path):
    path = tmp_path / "new" / "cache.parquet"
    fill(path, 200)
    with PageCache(path) as cache:
        for number in (199, 0, 64, 63, 1):
            url = f"https://x.org/{number}"
            assert cache.validators(url) == {"If-None-Match": f'"{number}"'}
            assert cache.text(url) == text(number)
        assert cache.validators("https://x.org/200") == {}


def test_a_page_stays_although_its_304_names_no_etag(tmp_path):
    path = tmp_path / "cache.parquet"
    fill(path, 1, **{"etag": '"a"', "last-modified": "Sun, 22 Nov 2026 10:00:00 GMT"})
    for _ in range(2):
        with PageCache(path) as cache:
            cache.add("https://x.org/0", {}, cache.text("https://x.org/0"))
            cache.save()
    with PageCache(path) as cache:
        assert cache.validators("https://x.org/0") == {
            "If-None-Match": '"a"',
            "If-Modified-Since": "Sun, 22 Nov 2026 10:00:00 GMT",
        }


def test_an_unfinished_run_leaves_the_file(tmp_path):
    path = tmp_path / "cache.parquet"
    fill(path, 1)
    before = path.read_bytes()
    with PageCache(path) as cache:
        for number in range(100):
            cache.add(f"https://x.org/{number}", {"etag": "b"}, text(number))
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("content", [b"", b"PAR1 is not enough PAR1", None])
def test_another_file_is_no_cache(tmp_path, content, caplog):
    path = tmp_path / "cache.parquet"
    if content is None:
        pq.write_table(pa.table({"url": ["https://x.org/0"]}), path)
    else:
        path.write_bytes(content)
    with PageCache(path) as cache:
        assert cache.validators("https://x.org/0") == {}
        cache.save()
    assert "is not a cache of pages" in caplog.text
    with PageCache(path) as cache:
        cache.add("https://x.org/0", {"etag": "b"}, text(0))


def test_the_texts_of_another_parser_are_not_used(tmp_path):
    path = tmp_path / "cache.parquet"
    fill(path, 1)
    with PageCache(path, "other selectors") as cache:
        assert cache.validators("https://x.org/0") == {}
