"""Documents from a website on a real socket: sitemaps, feeds, robots.txt, the cache, and hostile servers."""

from __future__ import annotations

import contextlib
import gzip
import socket
import traceback
import zlib
from types import SimpleNamespace

import httpx
import pyarrow.parquet as pq
import pytest

from airflow_provider_assistant.exceptions import (
    AssistantConnectionError,
    AssistantError,
    AssistantInputError,
    AssistantRateLimitError,
    AssistantResponseError,
    AssistantServerError,
    AssistantTimeoutError,
)
from airflow_provider_assistant.knowledge import split_documents, website_documents, with_source, write_documents
from airflow_provider_assistant.knowledge.website import extraction
from airflow_provider_assistant.knowledge.website.fetcher import Fetcher, Skipped
from airflow_provider_assistant.operators.documents import AssistantLoadTextOperator
from airflow_provider_assistant.parsing.child import ChildParser
from airflow_provider_assistant.texts import escaped
from tests.live.clients import local_request
from tests.live.process import wait_for
from tests.pages import generated_page
from tests.proxies import RecordingProxy, echoes
from tests.task_runs.context import task_context
from tests.website import File, Website, index, page, sitemap

OFFICE, HOME = page("Office", "From nine to five."), page("Home", "Ask first.")
LANGUAGES = {"/en": b"en", "/us": b"en-US", "/de": b"de", "/br": b"pt_BR"}
# The website asks for an immediate retry.
NOW = {"Retry-After": "0"}


@pytest.fixture
def website():
    with Website() as website:
        yield website


@pytest.fixture(scope="module")
def _child():
    with ChildParser() as parser:
        yield parser


@pytest.fixture(autouse=True)
def _one_child_for_all_tests(_child, monkeypatch):
    """Starting the process that parses pages takes longer than a test."""
    shared = SimpleNamespace(parse=_child.parse, close=lambda: None)
    monkeypatch.setattr(extraction, "ChildParser", lambda **_: shared)


def documents(source, **options):
    return list(website_documents(source, requests_per_second=1000, private_networks=True, **options))


def paths(rows):
    return [httpx.URL(row["key"]).raw_path.decode() for row in rows]


# Characters of the header of an ETag, a time or a type, none of which ends the header.
ODD = ("\xe9", "\x80\xff", "\x1b[2Jforged", "\x7f", "\x85forged", "a" * 60_000, "\x01\x02", "\xe2\x80\xaeforged")


def test_odd_headers_and_addresses_break_no_later_run_and_forge_no_line(website, tmp_path, caplog):
    caplog.set_level("INFO")
    pages = {}
    for number, text in enumerate(ODD):
        pages[f"/etag{number}"] = File(page(f"Tag {number}", "text"), headers={"ETag": f'"{text}"'})
        pages[f"/time{number}"] = File(page(f"Time {number}", "text"), headers={"Last-Modified": text})
        pages[f"/language{number}"] = File(page(f"Language {number}", "text"), headers={"Content-Language": text})
        pages[f"/type{number}"] = File(page(f"Type {number}", "text"), headers={"Content-Type": f"text/{text}"})
    pages["/title"] = page("&#10;&#27;[2Jforged", "&#x85;&#x2028;&#x202e;&#xd800; text")
    website.site(pages)
    forged = [f"/a{sign}b forged" for sign in ("&#10;", "&#13;", "&#9;", "&#x85;", "&#x2028;", "&#x202e;")]
    listed = [*map(website.url, pages), *map(website.url, forged), "http://a&#10;b/", "//[&#x85;", "javascript:&#10;"]
    website.files["/sitemap.xml"] = sitemap(*listed)
    cache = tmp_path / "cache.parquet"
    rows = [documents(website.url("/sitemap.xml"), cache=cache) for _ in range(3)]
    assert len(rows[0]) == 3 * len(ODD) + 1
    assert rows[0] == rows[1] == rows[2]
    # The long header is not repeated, and what was accepted once is accepted again.
    assert all(len(str(headers)) < 2000 for headers in website.headers.values())
    for record in caplog.records:
        message = record.getMessage()
        assert message == escaped(message)
        assert len(message) < 3000


class Clock:
    """A clock that only sleeping moves."""

    def __init__(self):
        self.now = 1000.0
        self.slept = []

    def __call__(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds
        if seconds:
            self.slept.append(seconds)


@pytest.fixture
def clock():
    return Clock()


def fetcher(website, clock, **options):
    settings = {"requests_per_second": 1, "timeout": 3600, "private_networks": True, **options}
    return Fetcher({website.host}, clock=clock, sleep=clock.sleep, **settings)


def fetch(website, clock, path="/a", limit=1_000_000, **options):
    with fetcher(website, clock, **options) as client:
        return client.fetch(httpx.URL(website.url(path)), limit)


# -- what is read ----------------------------------------------------------------------------------


def test_the_pages_of_a_sitemap(website):
    website.files |= {"/office": OFFICE, "/home?a=1": HOME}
    website.files["/sitemap.xml"] = (
        f"<urlset><url><loc>{website.url('/office#hours')}</loc><lastmod>2026-11-22</lastmod></url>"
        f"<url><loc>{website.url('/home?a=1')}</loc></url><url><loc>{website.url('/office')}</loc></url></urlset>"
    ).encode()
    rows = documents(website.url("/sitemap.xml"))
    assert rows[0] == {
        "key": website.url("/office"),
        "parent": website.url("/office"),
        "title": "Office",
        "content": "# Office\n\nFrom nine to five.",
        "category": None,
        "url": website.url("/office"),
        "date": "2026-11-22",
    }
    assert paths(rows) == ["/office", "/home?a=1"]
    assert website.requests == ["/robots.txt", "/sitemap.xml", "/office", "/home?a=1"]
    assert website.headers["/office"]["User-Agent"].startswith("airflow-provider-assistant/")


@pytest.mark.parametrize(
    "feed",
    [
        "<rss><channel><item><link>{0}</link></item><item><link>/b</link></item></channel></rss>",
        """<feed xmlns="http://www.w3.org/2005/Atom"><entry><link href="{0}"/></entry>
        <entry><link href="b"/></entry></feed>""",
    ],
)
def test_a_feed(website, feed):
    website.files |= {"/feed": feed.format(website.url("/a")).encode(), "/a": OFFICE, "/b": HOME}
    assert paths(documents(website.url("/feed"))) == ["/a", "/b"]


def test_an_index_and_a_compressed_sitemap(website):
    website.files |= {
        "/index": index(website.url("/1.xml"), website.url("/2.xml.gz"), website.url("/1.xml")),
        "/1.xml": sitemap(website.url("/a")),
        "/2.xml.gz": gzip.compress(sitemap(website.url("/b"))),
        "/a": OFFICE,
        "/b": HOME,
    }
    website.files["/a"] = File(gzip.compress(OFFICE), headers={"Content-Encoding": "gzip"})
    assert paths(documents(website.url("/index"))) == ["/a", "/b"]
    assert website.requests.count("/1.xml") == 1
    listed = [website.url("/a"), website.url("/b")]
    assert paths(documents(listed, include=lambda url: url.endswith("b"), max_pages=1)) == ["/b"]


# -- what is skipped -------------------------------------------------------------------------------


def test_every_page_that_is_left_out_has_a_reason(website):
    website.site(
        {
            "/a": OFFICE,
            "/gone": File(status=410),
            "/moved": File(status=301, headers={"Location": "/a"}),
            "/away": File(status=302, headers={"Location": "http://10.0.0.1/secret"}),
            "/a.pdf": File(b"%PDF", headers={"Content-Type": "application/pdf"}),
            "/a.png": File(b"PNG", headers={"Content-Type": "image/png"}),
            "/empty": b"<html><title>Empty</title></html>",
            "/private/b": HOME,
        }
    )
    website.files["/robots.txt"] = b"User-agent: *\nDisallow: /private"
    urls = [website.url(path) for path in (*list(website.files)[:-2], "/missing", "/private/b")]
    website.files["/sitemap.xml"] = sitemap(*urls, "http://other.example/", "http://user:pass@other.example/")
    rows = website_documents(website.url("/sitemap.xml"), requests_per_second=1000, private_networks=True)
    assert paths(rows) == ["/a"]
    assert rows.account.as_dict()["read"] == {"page": 1}
    assert {(each.reason, each.count, each.is_expected) for each in rows.account.left_out} == {
        ("has an invalid address", 1, False),
        ("has no main text", 1, False),
        ("is not HTML (application/pdf)", 1, False),
        ("is not HTML (image/png)", 1, True),
        ("is gone (404)", 1, False),
        ("is gone (410)", 1, False),
        ("is not allowed by robots.txt", 1, True),
        ("is on another host", 2, True),
        ("leads to the same page as another address", 1, True),
    }
    assert "pass@" not in str(rows.account.as_dict())
    assert "/private/b" not in website.requests


def test_nothing_to_read_is_an_error(website):
    with pytest.raises(
        AssistantInputError, match=r"no page that can be read, of 1 addresses: 1 page left out: is gone"
    ):
        documents(website.site({"/a": File(status=404)}))
    with pytest.raises(AssistantInputError, match="no page that can be read, of 0 addresses"):
        documents(website.site({}))


def test_a_redirect_to_another_host_can_be_allowed(website):
    with Website() as other:
        other.files |= {"/b": HOME, "/robots.txt": b"User-agent: *\nDisallow: /c", "/c": OFFICE}
        moved = {path: File(status=307, headers={"Location": other.url(path)}) for path in ("/b", "/c")}
        rows = documents(website.site(moved), hosts=[other.host])
    assert [row["key"] for row in rows] == [other.url("/b")]
    assert other.requests == ["/robots.txt", "/b"]


@pytest.mark.parametrize("header", ["noindex", "googlebot: none"])
def test_pages_that_search_engines_must_not_show(website, header):
    hidden = b'<meta name="Googlebot" content="NOINDEX, nofollow">' + HOME
    source = website.site({"/a": OFFICE, "/meta": hidden, "/header": File(HOME, headers={"X-Robots-Tag": header})})
    rows = website_documents(source, requests_per_second=1000, private_networks=True)
    assert paths(rows) == ["/a"]
    assert [(each.reason, each.is_expected) for each in rows.account.left_out] == [("asks not to be indexed", True)]
    assert paths(documents(source, include_noindex=True)) == ["/a", "/meta", "/header"]


def test_a_page_that_leads_to_another_one(website):
    moved = b"<meta http-equiv=refresh content='0; url=/a'><p>This page has moved.</p>"
    assert paths(documents(website.site({"/a": OFFICE, "/moved": moved}))) == ["/a"]


def test_languages(website):
    pages = {name: b"<html lang=%s>" % lang + OFFICE for name, lang in LANGUAGES.items()}
    pages["/none"] = OFFICE
    pages["/header"] = File(HOME, headers={"Content-Language": "fr"})
    source = website.site(pages)
    assert paths(documents(source, languages="en")) == ["/en", "/us", "/none"]
    assert paths(documents(source, languages=["pt-BR", "FR"])) == ["/br", "/none", "/header"]


# -- addresses that mean the same page -------------------------------------------------------------


def canonical(address, content):
    return f'<link rel="canonical" href="{address}">'.encode() + content


def test_canonical_addresses(website):
    url = website.url
    website.site(
        {
            # Only the spelling differs: the canonical address is the key, whichever comes first.
            "/one?utm_source=mail": canonical("/one", page("One", "text")),
            "/one/": canonical(url("/one#top"), page("One", "text, and a banner")),
            "/two/index.html": canonical("/two/", page("Two", "text")),
            # Without canonical address, equal texts under such addresses are one page.
            "/three?gclid=1": page("Three", "text"),
            "/three": page("Three", "text"),
            # Another page of the list: the same text is a double, another text is a mistake of the website.
            "/print/four": canonical("/four", page("Four", "text")),
            "/four": canonical("/print/four", page("Four", "text")),
            "/five": canonical("/", page("Five", "text")),
            "/six": canonical("/", page("Six", "text")),
            "/": canonical("/", page("Home", "text")),
            # Neither of the list nor of the website.
            "/seven": canonical("/elsewhere", page("Seven", "text")),
            "/nine": canonical("http://[", page("Nine", "text")),
            "/ten?page=1": canonical("/ten", page("Ten", "first")),
            "/ten?page=2": canonical("/ten", page("Ten", "second")),
        }
    )
    rows = website_documents(url("/sitemap.xml"), requests_per_second=1000, private_networks=True)
    found = {httpx.URL(row["key"]).raw_path.decode(): row["title"] for row in rows}
    assert " ".join(found) == "/one /two/ /three?gclid=1 /four / /five /six /seven /nine /ten?page=1 /ten?page=2"
    (double,) = rows.account.left_out
    assert (double.reason, double.count) == ("leads to the same page as another address", 3)


# -- where the pages are listed --------------------------------------------------------------------


@pytest.mark.parametrize(("start", "place"), [("/", "robots"), ("/docs/intro", "top"), ("/docs/", "part")])
def test_the_sitemap_of_a_website_is_found(website, start, place):
    website.files |= {"/": HOME, "/docs/": HOME, "/docs/intro": HOME, "/a": OFFICE, "/b": HOME}
    if place == "robots":
        website.files |= {"/x.xml": index(website.url("/y.xml")), "/y.xml": sitemap(website.url("/a"))}
        website.files["/z.xml"] = sitemap(website.url("/b"))
        website.files["/robots.txt"] = b"User-agent: *\nDisallow: /private\nSitemap: /x.xml\nsitemap: /z.xml"
    else:
        folder = "/docs" if place == "part" else ""
        website.files[f"{folder}/sitemap.xml"] = sitemap(website.url("/a"), website.url("/b"))
    assert sorted(paths(documents(website.url(start)))) == ["/a", "/b"]


def test_a_website_without_sitemap(website):
    website.files["/"] = HOME
    for start in ("/", "/robots.txt"):
        with pytest.raises(AssistantInputError, match=r"robots\.txt and /sitemap\.xml do not lead to one either"):
            documents(website.url(start))
    website.files["/robots.txt"] = b"Sitemap: https://www.example.com/sitemap.xml"
    with pytest.raises(AssistantInputError, match=r"if www\.example\.com is the same website, pass it in hosts"):
        documents(website.url("/"))


# -- pages that cannot be read ---------------------------------------------------------------------


def test_pages_that_fail_can_be_rows_without_key(website):
    failures = {
        "/403": File(status=403),
        "/500": File(status=500, headers=NOW),
        "/loop": File(status=302, headers={"Location": "/loop"}),
        "/long": File(b"x" * 5_000_001),
    }
    source = website.site({"/a": OFFICE, **failures, "/b": HOME})
    rows = website_documents(source, on_error="skip", requests_per_second=1000, private_networks=True)
    found = list(rows)
    assert [row["key"] for row in found if row["key"]] == [website.url("/a"), website.url("/b")]
    lost = [row for row in found if row["key"] is None]
    assert [(row["parent"], row["content"]) for row in lost] == [(website.url(path), "") for path in failures]
    assert {each.reason: each.count for each in rows.account.unexpected} == {
        "answers 403": 1,
        "answers 500": 1,
        "is larger than 5,000,000 bytes": 1,
        "is the end of 5 redirects, and redirects again": 1,
    }
    with pytest.raises(AssistantInputError, match=r"strict=True.*answers 403"):
        documents(source, on_error="skip", strict=True)
    website.site(failures)
    with pytest.raises(AssistantInputError, match="leads to no page that can be read"):
        documents(source, on_error="skip")


def test_the_end_of_the_time_is_never_skipped(website):
    website.files["/a"] = File(status=503, headers={"Retry-After": "100"})
    with pytest.raises(AssistantTimeoutError, match=r"within timeout=5 s"):
        documents([website.url("/a")], on_error="skip", timeout=5)


# -- night after night -----------------------------------------------------------------------------


@pytest.mark.promise("sources of documents", "A website that is built again every night creates no document twice.")
def test_a_website_that_is_built_every_night(website, connection, service, tmp_path):
    """The dates of a new build create nothing; a page that is refused once loses nothing."""

    def load(day):
        generated = {f"/{seed}": generated_page(seed, day=day) for seed in range(6)}
        website.site({path: each.html.encode() for path, each in generated.items()})
        entries = "".join(f"<url><loc>{website.url(path)}</loc><lastmod>{day}</lastmod></url>" for path in generated)
        website.files["/sitemap.xml"] = f"<urlset>{entries}</urlset>".encode()
        if day == "2026-11-22":
            website.files["/3"] = File(status=403)
        rows = website_documents(
            website.url("/sitemap.xml"), on_error="skip", requests_per_second=1000, private_networks=True
        )
        path = write_documents(with_source(split_documents(rows, 2000)), tmp_path / "pages.parquet")["path"]
        operator = AssistantLoadTextOperator(
            task_id="load", source=path, key_columns=["key"], group_columns=["parent"], max_rejected=1
        )
        return operator.execute(task_context())

    first, second, third = (load(day) for day in ("2026-11-20", "2026-11-21", "2026-11-22"))
    stored = service.documents()
    assert first["created"] == len(stored) > 20
    assert all(f"Source: {website.url('/')}" in document["content"] for document in stored)
    assert (second["created"], second["rejected"], second["stale"]) == (0, 0, 0)
    assert (third["created"], third["rejected"]) == (0, 1)
    assert not third["stale"]


# -- what ends the task, so that no document looks stale ---------------------------------------------


@pytest.mark.parametrize(
    ("file", "error", "requests"),
    [
        (File(status=503, headers=NOW), AssistantServerError, 4),
        (File(status=429, headers=NOW), AssistantRateLimitError, 4),
        (File(status=503, headers={"Retry-After": "121"}), AssistantServerError, 1),
        (File(status=403), AssistantInputError, 1),
        (File(status=206), AssistantInputError, 1),
        (File(status=301), AssistantInputError, 1),
        (File(status=301, headers={"Location": "ftp://x/"}), AssistantInputError, 1),
        (File(status=301, headers={"Location": "/a"}), AssistantInputError, 6),
        (File(b"x" * 1_000_001), AssistantInputError, 1),
        (File(b"not gzip", headers={"Content-Encoding": "gzip"}), AssistantResponseError, 4),
        (File(b"br", headers={"Content-Encoding": "br"}), AssistantResponseError, 4),
        (File(b"short", headers={"Content-Length": "10", "Connection": "close"}), AssistantConnectionError, 4),
    ],
)
def test_failures(website, clock, file, error, requests):
    website.files["/a"] = file
    with pytest.raises(error, match=r"127\.0\.0\.1"):
        fetch(website, clock)
    assert website.requests.count("/a") == requests


@pytest.mark.promise("sources of documents", "A website that cannot be read whole changes nothing.")
def test_nothing_is_written_after_a_failure(website, tmp_path):
    path, cache = tmp_path / "pages.parquet", tmp_path / "cache.parquet"
    source = website.site({"/a": File(OFFICE, headers={"ETag": '"1"'}), "/b": HOME})
    write_documents(documents(source, cache=cache), path)
    before = path.read_bytes(), cache.read_bytes()
    website.files["/b"] = File(status=500, headers=NOW)
    with pytest.raises(AssistantServerError, match="/b answers 500"):
        write_documents(documents(source, cache=cache), path)
    assert (path.read_bytes(), cache.read_bytes()) == before


def test_a_failure_that_passes_is_retried_with_growing_pauses(website, clock):
    website.files["/a"] = File(status=500, times=2, then=OFFICE)
    assert fetch(website, clock).content == OFFICE
    assert sum(clock.slept) == pytest.approx(1 + 2 + 4)


def test_a_slow_body_is_cut(website, clock):
    def drip(file):
        with contextlib.suppress(OSError):
            while not website.gone.wait(0.02):
                file.write(b"x")
                file.flush()

    website.files |= {"/a": File(drip), "/robots.txt": b"User-agent: *"}
    with fetcher(website, clock) as client:
        client.robots(httpx.URL(website.url("/a")))  # this file has the default time
        client._file_seconds = 1.0
        with pytest.raises(AssistantTimeoutError, match=r"is not complete within 1 s"):
            client.fetch(httpx.URL(website.url("/a")), 1_000_000)
    # The website may count the last one only after the client has cut it.
    wait_for("the last request", lambda: website.requests.count("/a") >= 4, timeout=60)
    assert website.requests.count("/a") == 4


def test_the_time_for_all_pages_is_limited(website, clock):
    website.files["/a"] = OFFICE
    with fetcher(website, clock, timeout=4.5) as client:
        for _ in range(4):
            client.fetch(httpx.URL(website.url("/a")), 1000)
        with pytest.raises(AssistantTimeoutError, match=r"within timeout=4\.5 s"):
            client.fetch(httpx.URL(website.url("/a")), 1000)
    assert website.requests.count("/a") == 4


def test_too_many_pages_for_the_time(website):
    website.files["/robots.txt"] = b"User-agent: *\nCrawl-delay: 40000"
    with pytest.raises(AssistantInputError, match=r"reading 1 page with 40000 s between requests takes 40,000 s"):
        documents([website.url("/a")])


# -- the pace, and robots.txt ------------------------------------------------------------------------


@pytest.mark.parametrize(("robots", "interval"), [(b"", 0.5), (b"User-agent: *\nCrawl-delay: 7", 7)])
def test_requests_have_pauses(website, clock, robots, interval):
    website.files |= {"/a": OFFICE, "/robots.txt": robots}
    with fetcher(website, clock, requests_per_second=2) as client:
        for _ in range(5):
            client.fetch(httpx.URL(website.url("/a")), 1000)
    assert clock.slept[1:] == pytest.approx([interval] * 4)
    assert website.requests.count("/robots.txt") == 1


def test_nothing_is_read_that_robots_refuse_or_while_they_cannot_be_read(website, clock):
    website.site({"/a": OFFICE})
    website.files["/robots.txt"] = b"User-agent: *\nDisallow: /"
    for source in (website.url("/sitemap.xml"), [website.url("/a")]):
        with pytest.raises(AssistantInputError, match=r"not allowed by robots\.txt"):
            documents(source)
    for status in (404, 403):
        website.files["/robots.txt"] = File(status=status)
        assert fetch(website, clock).content == OFFICE
    website.requests.clear()
    website.files |= {"/a": OFFICE, "/robots.txt": File(status=503)}
    with pytest.raises(AssistantServerError, match=r"/robots\.txt answers 503"):
        fetch(website, clock)
    assert "/a" not in website.requests


def test_robots_may_redirect_and_be_very_long(website, clock):
    website.files["/robots.txt"] = File(status=301, headers={"Location": "/r"})
    website.files["/r"] = b"User-agent: *\nDisallow: /a\n" + b"# comment\n" * 200_000
    with pytest.raises(Skipped, match=r"not allowed by robots\.txt"):
        fetch(website, clock)
    website.files["/r"] = website.files["/robots.txt"] = File(status=301, headers={"Location": "/r"})
    website.files["/a"] = OFFICE
    assert fetch(website, clock).content == OFFICE


def test_robots_on_another_host_are_an_error(website):
    website.files |= {"/a": OFFICE, "/robots.txt": File(status=302, headers={"Location": "http://www.example/r"})}
    with pytest.raises(AssistantInputError, match=r"/robots\.txt redirects to the host www\.example.* in hosts"):
        documents([website.url("/a")])
    assert "/a" not in website.requests


# -- the cache -------------------------------------------------------------------------------------


def test_a_page_that_is_not_modified_stays_in_the_result(website, tmp_path):
    cache = tmp_path / "cache.parquet"
    source = website.site({f"/{n}": File(page(f"Page {n}", "text"), headers={"ETag": f'"{n}"'}) for n in range(3)})
    first = documents(source, cache=cache)
    assert website.not_modified == 0
    assert documents(source, cache=cache) == first
    assert website.not_modified == 3
    website.files["/1"] = File(page("Page 1", "edited"), headers={"ETag": '"new"'})
    website.files["/2"] = File(status=404)
    assert [row["content"] for row in documents(source, cache=cache)] == ["# Page 0\n\ntext", "# Page 1\n\nedited"]
    assert website.not_modified == 4
    assert pq.read_table(cache)["url"].to_pylist() == [website.url("/0"), website.url("/1")]
    cache.unlink()
    assert len(documents(source, cache=cache)) == 2
    assert website.not_modified == 4


# -- private networks --------------------------------------------------------------------------------


@pytest.mark.parametrize("address", ["127.0.0.1", "localhost", "2130706433", "0x7f.1", "[::ffff:127.0.0.1]"])
def test_private_addresses_are_refused(website, address):
    port = website.host.rpartition(":")[2]
    with pytest.raises((AssistantInputError, AssistantConnectionError)) as refused:
        list(website_documents([f"http://{address}:{port}/a"], requests_per_second=1000, timeout=60))
    assert "not a public one" in str(refused.value)
    local_request("GET", website.url("/after"))
    assert (website.requests, website.connections) == (["/after"], 1)


def test_no_error_shows_the_password_of_a_proxy(website, clock, monkeypatch):
    with RecordingProxy() as proxy:
        proxy.behaviour = echoes("407")
        for text in (
            f"user:canary-password@{proxy.host}",
            "socks5://user:canary-password@127.0.0.1:9",
            "http://user:canary-password@127.0.0.1:port",
        ):
            monkeypatch.setenv("HTTPS_PROXY", text)
            with pytest.raises(AssistantError, match="proxy") as refused, fetcher(website, clock) as client:
                client.fetch(httpx.URL(f"https://{website.host}/a"), 1000)
            shown = "".join(traceback.format_exception(refused.value))
            assert "canary-password" not in shown
            assert "Basic" not in shown
        assert len(proxy.heads) > 1


def test_a_name_that_changes_its_address_is_refused(website, clock, monkeypatch):
    port = int(website.host.rpartition(":")[2])
    answers = ["93.184.215.14", "127.0.0.1"]

    def rebinding(host, *_, **__):
        assert host == "rebind.example"
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (answers.pop(0), port))]

    monkeypatch.setattr(socket, "getaddrinfo", rebinding)
    with Fetcher(
        {f"rebind.example:{port}"}, requests_per_second=1, timeout=60, clock=clock, sleep=clock.sleep
    ) as client:
        with pytest.raises(AssistantInputError, match=r"address 127\.0\.0\.1, which is not a public one"):
            client.fetch(httpx.URL(f"http://rebind.example:{port}/a"), 100)
    assert (answers, website.requests) == ([], [])


# -- hostile servers ---------------------------------------------------------------------------------


def bomb(size, fill=b"\0"):
    """Return the gzip of very many equal bytes, without having them in memory."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    piece = fill * 1_000_000
    return b"".join(packer.compress(piece) for _ in range(size // len(piece))) + packer.flush()


def test_a_gzip_bomb_is_not_unpacked(website, clock):
    website.files["/a"] = File(bomb(200_000_000), headers={"Content-Encoding": "gzip"})
    with pytest.raises(AssistantInputError, match="larger than 1,000,000 bytes"):
        fetch(website, clock)


def test_sitemaps_that_list_themselves(website):
    website.files |= {
        "/a.xml": index(website.url("/b.xml"), website.url("/a.xml")),
        "/b.xml": index(website.url("/a.xml"), website.url("/b.xml"), website.url("/c.xml")),
        "/c.xml": sitemap(website.url("/a")),
        "/a": OFFICE,
    }
    assert paths(documents(website.url("/a.xml"))) == ["/a"]
    assert len(website.requests) == 5


def test_too_many_pages_are_refused_before_the_first(website):
    source = website.site({f"/{number}": OFFICE for number in range(4)})
    with pytest.raises(AssistantInputError, match="more pages than max_pages=3 allows"):
        documents(source, max_pages=3)
    with pytest.raises(AssistantInputError, match="more pages than max_pages=3 allows"):
        documents((website.url(f"/{number}") for number in range(10**9)), max_pages=3)
    assert "/0" not in website.requests


def test_a_sitemap_that_cannot_be_read_is_named(website):
    for number in range(10):
        website.files[f"/{number}"] = index(website.url(f"/{number + 1}"))
    website.files |= {
        "/entities": b'<!DOCTYPE a [<!ENTITY a "b">]><urlset/>',
        "/gone": File(status=410),
        "/away": File(status=302, headers={"Location": "http://10.0.0.1/"}),
        "/wide": index(*(website.url(f"/{number}.xml") for number in range(1001))),
        "/bomb.gz": bomb(100_000_000, b" "),
    }
    for path, problem in {"/entities": "entities", "/gone": "410", "/away": "another host", "/0": "3 levels",
                          "/wide": "more than 1,000", "/bomb.gz": "larger than 52,428,800 bytes"}.items():  # fmt: skip
        with pytest.raises(AssistantInputError, match=problem):
            documents(website.url(path))
    assert sum(path[1:].isdigit() for path in website.requests) <= 4


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        ("example.com", {}, "must begin with http"),
        ("https://user:hunter2@example.com/", {}, "user name or a password"),
        ("https://example.com/", {"hosts": ["a b"]}, "must begin with http"),
        ("https://example.com/", {"requests_per_second": 0}, "must be positive"),
        ("https://example.com/", {"on_error": "ignore"}, "must be 'fail' or 'skip'"),
        ("https://example.com/", {"select": "main >"}, "select='main >' is not a selector of CSS"),
        ("https://example.com/", {"remove": [".a", "..b"]}, "remove='.a, ..b' is not a selector of CSS"),
    ],
)
def test_invalid_arguments_are_refused_at_once(source, options, message):
    with pytest.raises(AssistantInputError, match=message) as refused:
        website_documents(source, **options)
    assert "hunter2" not in str(refused.value)
