"""Documents from a website on a real socket: what is read, what is left out, and hostile servers."""

from __future__ import annotations

import contextlib
import gzip
import socket
import traceback
import zlib
from types import SimpleNamespace

import httpx
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
from airflow_provider_assistant.knowledge import (
    DEFAULT_REMOVE,
    split_documents,
    website,
    website_documents,
    write_documents,
)
from airflow_provider_assistant.knowledge.fetch import Fetcher, robots_rules
from airflow_provider_assistant.operators.documents import AssistantLoadTextOperator
from airflow_provider_assistant.parsing.child import ChildParser
from airflow_provider_assistant.texts import escaped
from tests.hostile import HostileService
from tests.live.clients import local_request
from tests.live.process import wait_for
from tests.pages import generated_page
from tests.proxies import RecordingProxy, echoes
from tests.task_runs.context import task_context
from tests.website import File, Website, index, page, sitemap

OFFICE, HOME = page("Office", "From nine to five."), page("Home", "Ask first.")
# The website asks for an immediate retry.
NOW = {"Retry-After": "0"}


@pytest.fixture
def site():
    with Website() as site:
        yield site


@pytest.fixture(scope="module")
def _child():
    with ChildParser() as parser:
        yield parser


@pytest.fixture(autouse=True)
def _one_child_for_all_tests(_child, monkeypatch):
    """Starting the process that parses pages takes longer than a test."""
    shared = contextlib.nullcontext(SimpleNamespace(parse=_child.parse))
    monkeypatch.setattr(website, "ChildParser", lambda **_: shared)


def documents(source, **options):
    return website_documents(source, requests_per_second=1000, private_networks=True, **options)


def paths(rows):
    return [httpx.URL(row["key"]).raw_path.decode() for row in rows]


def reasons(rows):
    return {each.reason: (each.count, each.is_expected) for each in rows.account.left_out if each.unit != "word"}


class Clock:
    """A clock that only sleeping moves."""

    def __init__(self):
        self.now = 1000.0
        self.slept = []

    def __call__(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds
        self.slept.append(seconds)


@pytest.fixture
def clock():
    return Clock()


def fetcher(site, clock, **options):
    settings = {"requests_per_second": 1, "timeout": 3600, "private_networks": True, **options}
    return Fetcher({site.host}, clock=clock, sleep=clock.sleep, **settings)


def fetch(site, clock, path="/a", **options):
    return fetcher(site, clock, **options).fetch(httpx.URL(site.url(path)), 1_000_000)


# -- what is read ----------------------------------------------------------------------------------


def test_the_pages_of_a_sitemap(site):
    site.files |= {"/office": OFFICE, "/home?a=1": page("Home", '<a href="office#hours">Hours</a>')}
    site.files["/sitemap.xml"] = (
        f"<urlset><url><loc>{site.url('/office#hours')}</loc><lastmod>2026-11-22</lastmod></url>"
        f"<url><loc>{site.url('/home?a=1')}</loc></url><url><loc>{site.url('/office')}</loc></url></urlset>"
    ).encode()
    first, second = documents(site.url("/sitemap.xml"))
    assert first == {
        "key": site.url("/office"),
        "parent": site.url("/office"),
        "title": "Office",
        "content": "# Office\n\nFrom nine to five.",
        "category": None,
        "url": site.url("/office"),
        "date": "2026-11-22",
    }
    assert f"[Hours]({site.url('/office#hours')})" in second["content"]
    assert site.requests == ["/robots.txt", "/sitemap.xml", "/office", "/home?a=1"]
    assert site.headers["/office"]["User-Agent"].startswith("airflow-provider-assistant/")


def test_every_way_to_list_pages(site):
    entries = '<entry><link href="a"/></entry><entry><link href="/b"/></entry>'
    both = [site.url("/a"), site.url("/b")]
    site.files |= {
        "/a": File(gzip.compress(OFFICE), headers={"Content-Encoding": "gzip"}),
        "/b": HOME,
        "/docs/": HOME,
        "/rss": b"<rss><channel><item><link>/a</link></item><item><link>/b</link></item></channel></rss>",
        "/atom": f'<feed xmlns="http://www.w3.org/2005/Atom">{entries}</feed>'.encode(),
        "/list.txt": "\n".join(both).encode(),
        "/1.xml": sitemap(both[0]),
        "/2.xml.gz": gzip.compress(sitemap(both[1])),
        "/index": index(site.url("/1.xml"), site.url("/2.xml.gz"), site.url("/1.xml"), site.url("/index")),
    }
    starts = ["/rss", "/atom", "/list.txt", "/index"]
    for start in [*map(site.url, starts), both]:
        assert paths(documents(start)) == ["/a", "/b"], start
    assert site.requests.count("/1.xml") == 1
    assert paths(documents(both, include=lambda url: url.endswith("b"), max_pages=1)) == ["/b"]
    # The website is named, and its sitemap is found.
    for files in (
        {"/docs/sitemap.xml": sitemap(*both)},
        {"/sitemap.xml": sitemap(*both), "/docs/sitemap.xml": File(status=404)},
        {"/robots.txt": b"User-agent: *\nSitemap: /index\nsitemap: /1.xml", "/sitemap.xml": File(status=404)},
    ):
        site.files |= files
        assert paths(documents(site.url("/docs/"))) == ["/a", "/b"], files


def test_only_the_pages_that_changed(site):
    days = {"/old": "2026-11-18", "/zone": "2026-11-19", "/same": "2026-11-20T08:00:00Z", "/new": "2026-11-22"}
    site.files |= {path: page(path, "text") for path in [*days, "/undated"]}
    entries = "".join(f"<url><loc>{site.url(path)}</loc><lastmod>{day}</lastmod></url>" for path, day in days.items())
    site.files["/sitemap.xml"] = f"<urlset>{entries}<url><loc>{site.url('/undated')}</loc></url></urlset>".encode()
    rows = documents(site.url("/sitemap.xml"), changed_since="2026-11-20 08:00:00+00:00")
    # A day ends last west of all zones, twelve hours later than in UTC.
    assert paths(rows) == ["/zone", "/same", "/new", "/undated"]
    assert reasons(rows) == {"has not changed since changed_since": (1, True)}
    site.files["/sitemap.xml"] = f"<urlset>{entries}</urlset>".encode()
    assert not list(documents(site.url("/sitemap.xml"), changed_since="2027-01-01"))
    with pytest.raises(AssistantInputError, match="changed_since must be a day or a time in ISO format, not 'soon'"):
        documents(site.url("/"), changed_since="soon")


def test_a_sample_of_a_website_of_any_size(site):
    addresses = (site.url(f"/{number}") for number in range(10**9))
    site.files["/1.xml"] = sitemap(*(site.url(f"/{number}") for number in range(20)))
    site.files["/index"] = index(site.url("/1.xml"), site.url("/2.xml"))
    site.files |= {"/0": OFFICE, "/1": HOME}
    assert paths(documents(site.url("/index"), sample=2, max_pages=10)) == ["/0", "/1"]
    for source in (site.url("/1.xml"), addresses):
        with pytest.raises(AssistantInputError, match="more pages than max_pages=3 allows"):
            list(documents(source, max_pages=3))
    assert site.requests.count("/0") == 1


# -- what is left out ------------------------------------------------------------------------------


def test_every_page_that_is_left_out_has_a_reason(site):
    site.site(
        {
            "/a": OFFICE,
            "/gone": File(status=410),
            "/moved": File(status=301, headers={"Location": "/a"}),
            "/refresh": b"<meta http-equiv=refresh content='0; url=/a'><p>This page has moved.</p>",
            "/away": File(status=302, headers={"Location": "http://10.0.0.1/secret"}),
            "/a.pdf": File(b"%PDF", headers={"Content-Type": "application/pdf"}),
            "/a.png": File(b"PNG", headers={"Content-Type": "image/png"}),
            "/empty": b"<html><title>Empty</title></html>",
            "/meta": b'<meta name="Googlebot" content="NOINDEX, nofollow">' + HOME,
            "/header": File(page("Header", "text"), headers={"X-Robots-Tag": "googlebot: none"}),
            "/private/b": HOME,
        }
    )
    site.files["/robots.txt"] = b"User-agent: *\nDisallow: /private"
    urls = [site.url(path) for path in (*list(site.files)[:-2], "/missing", "/private/b")]
    site.files["/sitemap.xml"] = sitemap(*urls, "http://other.example/", "http://user:pass@other.example/")
    rows = documents(site.url("/sitemap.xml"))
    assert paths(rows) == ["/a"]
    assert rows.account.as_dict()["read"] == {"page": 1}
    assert reasons(rows) == {
        "has an invalid address": (1, False),
        "has no main text": (1, False),
        "is not HTML (application/pdf)": (1, False),
        "is not HTML (image/png)": (1, True),
        "is gone (404)": (1, False),
        "is gone (410)": (1, False),
        "is not allowed by robots.txt": (1, True),
        "is on another host": (2, True),
        "asks not to be indexed": (2, True),
        "leads to another page": (1, True),
        "is the same page as another address": (1, True),
    }
    assert "pass@" not in str(rows.account.as_dict())
    assert "/private/b" not in site.requests
    assert paths(documents([site.url("/meta"), site.url("/header")], include_noindex=True)) == ["/meta", "/header"]


def test_nothing_to_read_is_an_error(site):
    for source in (site.site({"/a": File(status=404)}), [site.url("/a")]):
        with pytest.raises(AssistantInputError, match=r"no page that can be read\. 1 page left out: is gone"):
            list(documents(source))
    for source in (site.site({}), []):
        with pytest.raises(AssistantInputError, match="no page that can be read"):
            list(documents(source))


def test_a_redirect_to_another_host_can_be_allowed(site):
    with Website() as other:
        other.files |= {"/b": HOME, "/robots.txt": b"User-agent: *\nDisallow: /c", "/c": OFFICE}
        moved = {path: File(status=307, headers={"Location": other.url(path)}) for path in ("/b", "/c")}
        rows = documents(site.site(moved), hosts=[other.host])
        assert [row["key"] for row in rows] == [other.url("/b")]
    assert other.requests == ["/robots.txt", "/b"]


def test_a_page_that_calls_another_one_canonical_is_left_out(site):
    canonical = {
        "/one?utm_source=mail": "/one",
        "/one": "/one#top",
        "/one/": "",
        # Each calls the other one canonical: one of them stays.
        "/print/two": "/two",
        "/two": "/print/two",
        # By mistake: some websites call their home page canonical on every page.
        "/three": "/",
        "/": "/",
        # Neither of the list nor of the website.
        "/four": "/elsewhere",
        "/five": "http://[",
    }
    link = '<link rel="canonical" href="{}">'
    source = site.site({path: link.format(to).encode() + page(path[:4], "text") for path, to in canonical.items()})
    rows = documents(source)
    assert " ".join(paths(rows)) == "/one /two /three / /four /five"
    assert reasons(rows) == {"is the same page as another address": (3, True)}


# -- night after night -----------------------------------------------------------------------------


@pytest.mark.promise("sources of documents", "A website that is built again every night creates no document twice.")
def test_a_website_that_is_built_every_night(site, connection, service, tmp_path):
    """With the dates of a build left out, a new one creates nothing; a page that is refused once loses nothing."""

    def load(day):
        generated = {f"/{seed}": generated_page(seed, day=day) for seed in range(6)}
        site.site({path: each.html.encode() for path, each in generated.items()})
        entries = "".join(f"<url><loc>{site.url(path)}</loc><lastmod>{day}</lastmod></url>" for path in generated)
        site.files["/sitemap.xml"] = f"<urlset>{entries}</urlset>".encode()
        if day == "2026-11-22":
            site.files["/3"] = File(status=403)
        rows = documents(site.url("/sitemap.xml"), on_error="skip", remove=f"{DEFAULT_REMOVE}, time")
        path = write_documents(split_documents(rows, 2000), tmp_path / "pages.parquet")["path"]
        operator = AssistantLoadTextOperator(
            task_id="load", source=path, key_columns=["key"], group_columns=["parent"], max_rejected=1
        )
        return operator.execute(task_context())

    first, second, third = (load(day) for day in ("2026-11-20", "2026-11-21", "2026-11-22"))
    assert first["created"] == len(service.documents()) > 20
    assert (second["created"], second["rejected"], second["stale"]) == (0, 0, 0)
    assert (third["created"], third["rejected"]) == (0, 1)
    assert not third["stale"]


@pytest.mark.promise("sources of documents", "A website that cannot be read whole changes nothing.")
def test_nothing_is_written_after_a_failure(site, tmp_path):
    path = tmp_path / "pages.parquet"
    source = site.site({"/a": OFFICE, "/b": HOME})
    write_documents(documents(source), path)
    before = path.read_bytes()
    site.files["/b"] = File(status=500, headers=NOW)
    with pytest.raises(AssistantServerError, match="/b answers 500"):
        write_documents(documents(source), path)
    assert path.read_bytes() == before


def test_pages_that_fail_can_be_rows_without_key(site):
    failures = {
        "/403": File(status=403),
        "/500": File(status=500, headers=NOW),
        "/loop": File(status=302, headers={"Location": "/loop"}),
        "/long": File(b"x" * 5_000_000),
        # The documents of a page are those of the address to which it redirects.
        "/moved": File(status=301, headers={"Location": "/new"}),
    }
    source = site.site({"/a": OFFICE, **failures, "/b": HOME})
    site.files["/new"] = File(status=401)
    rows = documents(source, on_error="skip")
    found = list(rows)
    assert [row["key"] for row in found if row["key"]] == [site.url("/a"), site.url("/b")]
    lost = [(row["parent"], row["content"]) for row in found if row["key"] is None]
    assert lost == [(site.url(path), "") for path in ("/403", "/500", "/loop", "/long", "/new")]
    assert reasons(rows) == {"cannot be read": (5, False)}
    with pytest.raises(AssistantInputError, match=r"strict=True.*answers 403"):
        list(documents(source, on_error="skip", strict=True))
    with pytest.raises(AssistantInputError, match="leads to no page that can be read"):
        list(documents(site.site(failures), on_error="skip"))
    site.files["/500"] = File(status=503, headers={"Retry-After": "100"})
    with pytest.raises(AssistantTimeoutError, match=r"within timeout=5 s"):
        list(documents([site.url("/500")], on_error="skip", timeout=5))


# -- failures, and the pace --------------------------------------------------------------------------


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
def test_failures(site, clock, file, error, requests):
    site.files["/a"] = file
    with pytest.raises(error, match=r"127\.0\.0\.1"):
        fetch(site, clock)
    assert site.requests.count("/a") == requests


def test_a_failure_that_passes_is_retried_with_growing_pauses(site, clock):
    site.files["/a"] = File(status=500, times=2, then=OFFICE)
    assert fetch(site, clock).content == OFFICE
    assert sum(clock.slept) == pytest.approx(1 + 2 + 4)


def test_a_slow_body_is_cut(site, clock):
    def drip(file):
        with contextlib.suppress(OSError):
            while not site.gone.wait(0.02):
                file.write(b"x")
                file.flush()

    site.files |= {"/a": File(drip), "/robots.txt": b"User-agent: *"}
    with pytest.raises(AssistantTimeoutError, match=r"is not complete within 1 s"):
        fetch(site, clock, file_seconds=1.0)
    # The website may count the last one only after the client has cut it.
    wait_for("the last request", lambda: site.requests.count("/a") >= 4, timeout=60)
    assert site.requests.count("/a") == 4


def test_the_time_for_all_pages_is_limited(site, clock):
    site.files["/a"] = OFFICE
    limited = fetcher(site, clock, timeout=4.5)
    for _ in range(4):
        limited.fetch(httpx.URL(site.url("/a")), 10_000)
    with pytest.raises(AssistantTimeoutError, match=r"within timeout=4\.5 s"):
        limited.fetch(httpx.URL(site.url("/a")), 10_000)
    assert site.requests.count("/a") == 4
    site.files["/robots.txt"] = b"User-agent: *\nCrawl-delay: 40000"
    with pytest.raises(AssistantInputError, match=r"reading 1 page with 40000 s between requests takes 40,000 s"):
        list(documents([site.url("/a")]))


@pytest.mark.parametrize(("robots", "interval"), [(b"", 0.5), (b"User-agent: *\nCrawl-delay: 7", 7)])
def test_requests_have_pauses(site, clock, robots, interval):
    site.files |= {"/a": OFFICE, "/robots.txt": robots}
    slow = fetcher(site, clock, requests_per_second=2)
    for _ in range(5):
        slow.fetch(httpx.URL(site.url("/a")), 10_000)
    assert clock.slept[1:] == pytest.approx([interval] * 4)
    assert site.requests.count("/robots.txt") == 1


def test_nothing_is_read_that_robots_refuse_or_while_they_cannot_be_read(site, clock):
    site.site({"/a": OFFICE})
    site.files["/robots.txt"] = File(status=301, headers={"Location": "/r"})
    site.files["/r"] = b"User-agent: *\nDisallow: /\n" + b"# comment\n" * 200_000
    for source in (site.url("/sitemap.xml"), [site.url("/a")]):
        with pytest.raises(AssistantInputError, match=r"not allowed by robots\.txt"):
            list(documents(source))
    for file, error in (
        (File(status=503), r"/robots\.txt answers 503"),
        (File(status=302, headers={"Location": "http://www.example/r"}), r"/robots\.txt is on another host.* in hosts"),
    ):
        site.files["/robots.txt"] = file
        with pytest.raises(AssistantError, match=error):
            fetch(site, clock)
    assert "/a" not in site.requests
    for status in (404, 403):
        site.files["/robots.txt"] = File(status=status)
        assert fetch(site, clock).content == OFFICE


# -- private networks --------------------------------------------------------------------------------


@pytest.mark.promise("security", "A website never makes Airflow send anything to an address of the private network.")
@pytest.mark.parametrize("address", ["127.0.0.1", "localhost", "2130706433", "0x7f.1", "[::ffff:127.0.0.1]"])
def test_private_addresses_are_refused(site, address):
    port = site.host.rpartition(":")[2]
    with pytest.raises(AssistantError) as refused:
        list(website_documents([f"http://{address}:{port}/a"], requests_per_second=1000, timeout=60))
    assert "not a public one" in str(refused.value)
    local_request("GET", site.url("/after"))
    assert site.requests == ["/after"]


def test_a_name_that_changes_its_address_is_refused(site, clock, monkeypatch):
    """Only the connected socket counts, whatever the name meant before."""
    port = int(site.host.rpartition(":")[2])
    info = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [info])
    rebound = Fetcher({f"rebind.example:{port}"}, requests_per_second=1, timeout=60, clock=clock, sleep=clock.sleep)
    with pytest.raises(AssistantInputError, match=r"address 127\.0\.0\.1, which is not a public one"):
        rebound.fetch(httpx.URL(f"http://rebind.example:{port}/a"), 100)
    assert site.requests == []


def test_no_error_shows_the_password_of_a_proxy(site, clock, monkeypatch):
    with RecordingProxy() as proxy:
        proxy.behaviour = echoes("407")
        for text in (
            f"user:canary-password@{proxy.host}",
            "socks5://user:canary-password@127.0.0.1:9",
            "http://user:canary-password@127.0.0.1:port",
        ):
            monkeypatch.setenv("HTTPS_PROXY", text)
            with pytest.raises(AssistantError, match=r"proxy|PROXY") as refused:
                fetcher(site, clock).fetch(httpx.URL(f"https://{site.host}/a"), 1000)
            shown = "".join(traceback.format_exception(refused.value))
            assert "canary-password" not in shown
            assert "Basic" not in shown
        assert len(proxy.heads) > 1


# -- hostile servers ---------------------------------------------------------------------------------


def bomb(size, fill=b"\0"):
    """Return the gzip of very many equal bytes, without having them in memory."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    piece = fill * 1_000_000
    return b"".join(packer.compress(piece) for _ in range(size // len(piece))) + packer.flush()


def test_what_would_fill_the_memory_or_never_end_is_named(site, clock):
    site.files["/a"] = File(bomb(200_000_000), headers={"Content-Encoding": "gzip"})
    with pytest.raises(AssistantInputError, match="has 1,000,000 bytes or more"):
        fetch(site, clock)
    for number in range(10):
        site.files[f"/{number}"] = index(site.url(f"/{number + 1}"))
    site.files |= {
        "/entities": b'<!DOCTYPE a [<!ENTITY a "b">]><urlset/>',
        "/gone": File(status=410),
        "/away": File(status=302, headers={"Location": "http://10.0.0.1/"}),
        "/wide": index(*(site.url(f"/{number}.xml") for number in range(1001))),
        "/bomb.gz": bomb(100_000_000, b" "),
        "/page": HOME,
        "/robots.txt": b"",
    }
    for path, problem in {"/entities": "entities", "/gone": "410", "/away": "another host", "/0": "3 levels",
                          "/wide": "404", "/bomb.gz": "larger than 52,428,800 bytes",
                          "/page": "do not lead to one either"}.items():  # fmt: skip
        with pytest.raises(AssistantInputError, match=problem):
            list(documents(site.url(path)))
    assert sum(path[1:].isdigit() for path in site.requests) <= 4
    site.files["/robots.txt"] = b"Sitemap: https://www.example.com/sitemap.xml"
    with pytest.raises(AssistantInputError, match=r"if www\.example\.com is the same website, pass it in hosts"):
        list(documents(site.url("/")))


# Characters of a header, none of which ends it, and of an address.
ODD = ("\xe9", "\x80\xff", "\x1b[2Jforged", "\x7f", "\x85forged", "a" * 60_000, "\x01\x02", "\xe2\x80\xaeforged")


def test_odd_headers_and_addresses_forge_no_line(site, caplog):
    caplog.set_level("INFO")
    pages = {"/title": page("&#10;&#27;[2Jforged", "&#x85;&#x2028;&#x202e;&#xd800; text")}
    for number, text in enumerate(ODD):
        pages[f"/robots{number}"] = File(HOME, headers={"X-Robots-Tag": f"noindex, {text}"})
        pages[f"/type{number}"] = File(HOME, headers={"Content-Type": f"text/{text}"})
    forged = [f"/a{sign}b forged" for sign in ("&#10;", "&#13;", "&#9;", "&#x85;", "&#x2028;", "&#x202e;")]
    site.site(pages)
    listed = [*map(site.url, pages), *map(site.url, forged), "http://a&#10;b/", "//[&#x85;", "javascript:&#10;"]
    site.files["/sitemap.xml"] = sitemap(*listed)
    assert len(list(documents(site.url("/sitemap.xml")))) == 1
    for record in caplog.records:
        message = record.getMessage()
        assert message == escaped(message)
        assert len(message) < 3000


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        ("example.com", {}, "'example.com' must begin with http"),
        ("https://user:hunter2@example.com/", {}, "user name or a password"),
        ("https://example.com/", {"hosts": ["a b"]}, "must begin with http"),
        ("https://example.com/", {"requests_per_second": 0}, "must be positive"),
        ("https://example.com/", {"on_error": "ignore"}, "must be 'fail' or 'skip'"),
        ("https://example.com/", {"select": "main >"}, "select='main >' is not a selector of CSS"),
        ("https://example.com/", {"remove": ".a, ..b"}, "remove='.a, ..b' is not a selector of CSS"),
    ],
)
def test_invalid_arguments_are_refused_at_once(source, options, message):
    with pytest.raises(AssistantInputError, match=message) as refused:
        website_documents(source, **options)
    assert "hunter2" not in str(refused.value)


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"


def endless(start, piece):
    def speak(line):
        line.say(start)
        while True:
            line.say(piece)

    return speak


@pytest.mark.parametrize(
    ("speak", "words"),
    [
        (lambda line: line.drip(HEAD, 0.05), "not complete within 1 s"),
        (endless(HEAD, b"X-A: " + b"a" * 1000 + b"\r\n"), "Receive buffer too long"),
        (endless(HEAD + b"\r\n", b"a" * 100_000), "has 1,000,000 bytes or more"),
        (endless(HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"5;" + b"a" * 10_000), "Receive buffer too long"),
        (endless(HEAD + b"Content-Encoding: gzip\r\n\r\n" + gzip.compress(b"a"), b"b" * 10_000), ""),
        (endless(b"HTTP/1.1 103 Early Hints\r\n\r\n", b"HTTP/1.1 103 Early Hints\r\n\r\n"), "not complete within 1 s"),
        (endless(b"HTTP/1.1 500 E\r\nRetry-After: nan\r\n\r\n", b"a" * 100_000), "answers 500"),
        (endless(b"HTTP/1.1 302 F\r\nLocation: /a\r\n\r\n", b"a" * 100_000), "redirects again"),
        (endless(b"", bytes(range(256))), "RemoteProtocolError"),
    ],
)
def test_a_server_that_breaks_the_protocol_ends_in_time(speak, words, clock, monkeypatch):
    with HostileService(speak) as server:
        host = httpx.URL(server.url).netloc.decode()
        hostile = fetcher(SimpleNamespace(host=host), clock, file_seconds=1.0)
        monkeypatch.setattr(hostile, "robots", lambda _: robots_rules(""))
        with pytest.raises(AssistantError, match=words) if words else contextlib.nullcontext():
            assert hostile.fetch(httpx.URL(f"http://{host}/a"), 1_000_000).content == b"a"
