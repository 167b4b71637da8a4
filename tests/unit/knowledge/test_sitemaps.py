"""Sitemaps and feeds."""

from __future__ import annotations

import contextlib
import random
import tracemalloc

import pytest

from airflow_provider_assistant.knowledge.fetch import Skipped
from airflow_provider_assistant.knowledge.sitemaps import Listing, iso_date, listing_of
from tests.website import index, sitemap

RSS = b"""<?xml version="1.0" encoding="iso-8859-1"?>
<!DOCTYPE rss PUBLIC "-//Netscape//DTD RSS 0.91//EN" "http://127.0.0.1:1/rss.dtd">
<rss version="2.0" xmlns:atom="http://www.w3.org/2005/Atom" xmlns:m="http://search.yahoo.com/mrss/"><channel>
<link>https://x.org/</link><image><link>https://x.org/logo</link></image>
<item><atom:link href="https://x.org/wrong"/><title>B\xfcro</title>
<link> https://x.org/a </link><pubDate>Sun, 22 Nov 2026 10:00:00 +0100</pubDate>
<m:thumb><link>no</link></m:thumb></item>
<item><title>no link</title></item>
<item><link><![CDATA[https://x.org/b?c=1&d=2]]></link><pubDate>yesterday</pubDate></item>
</channel></rss>"""
ATOM = b"""<feed xmlns="http://www.w3.org/2005/Atom"><link href="https://x.org/"/><updated>2026-01-01T00:00:00Z</updated>
<entry><link rel="self" href="https://x.org/self"/><link href="/a"/><source><link href="no"/></source>
<published>2026-11-20</published><updated>2026-11-22T10:00:00Z</updated></entry>
<entry><link rel="alternate" href="/b"/></entry></feed>"""
RDF = b"""<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://purl.org/rss/1.0/"
xmlns:dc="http://purl.org/dc/elements/1.1/"><channel><link>https://x.org/</link></channel>
<item><link>https://x.org/a</link><dc:date>2026-11-22</dc:date></item></rdf:RDF>"""
PICTURES = b"""<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:i="http://www.google.com/schemas/sitemap-image/1.1">
<url><i:image><i:loc>https://x.org/a.png</i:loc></i:image><loc>https://x.org/a</loc><lastmod>2026-11-22</lastmod></url>
<url><lastmod>2026-11-22</lastmod></url></urlset>"""


@pytest.mark.parametrize(
    ("xml", "entries"),
    [
        (RSS, [("https://x.org/a", "2026-11-22T10:00:00+01:00"), ("https://x.org/b?c=1&d=2", None)]),
        (ATOM, [("/a", "2026-11-22T10:00:00+00:00"), ("/b", None)]),
        (RDF, [("https://x.org/a", "2026-11-22")]),
        (PICTURES, [("https://x.org/a", "2026-11-22")]),
        (b"\xef\xbb\xbfhttps://x.org/a\r\n\r\nHTTP://x.org/b ", [("https://x.org/a", None), ("HTTP://x.org/b", None)]),
        (sitemap("https://x.org/a"), [("https://x.org/a", None)]),
        (sitemap(), []),
    ],
)
def test_entries(xml, entries):
    assert listing_of(xml, 100) == Listing(is_index=False, dates=dict(entries))


def test_an_index():
    assert listing_of(index("https://x.org/a.xml"), 100) == Listing(is_index=True, dates={"https://x.org/a.xml": None})


BOMB = b'<!DOCTYPE urlset [<!ENTITY a "aaaaaaaaaa">' + b"".join(
    b'<!ENTITY %c "%s">' % (98 + level, b"&%c;" % (97 + level) * 10) for level in range(9)
)


@pytest.mark.parametrize(
    ("xml", "message"),
    [
        (b"", "not well-formed"),
        (b"<urlset><url><loc>a&nbsp;b</loc></url></urlset>", "not well-formed"),
        (b"<html><body/></html>", "neither a sitemap nor a feed"),
        (BOMB + b"]><urlset><url><loc>&j;</loc></url></urlset>", "declares entities"),
        (b'<!DOCTYPE urlset [<!ENTITY a SYSTEM "file:///etc/passwd">]><urlset/>', "declares entities"),
        (b"<urlset>" * 200 + b"</urlset>" * 200, "more than 100 levels"),
        (b'<?xml version="1.0" encoding="no-such"?><urlset/>', "unknown encoding"),
        (sitemap(*map(str, range(101))), "more than 100 addresses"),
    ],
)
def test_what_is_refused(xml, message):
    with pytest.raises(Skipped, match=message):
        listing_of(xml, 100)


def test_damaged_listings_are_read_or_refused():
    (url,) = listing_of(sitemap("x" * 1_000_000), 100).dates
    assert len(url) <= 10_000
    chance = random.Random(1)
    for _ in range(300):
        xml = bytearray(chance.choice((RSS, ATOM, RDF, PICTURES, BOMB)))
        for _ in range(chance.randint(1, 4)):
            at = chance.randrange(len(xml))
            xml[at : at + chance.randint(0, 3)] = chance.randbytes(chance.randint(0, 3))
        with contextlib.suppress(Skipped):
            assert all(listing_of(bytes(xml), 100).dates)


def test_a_large_listing_needs_little_memory():
    """What is read is dropped: neither many elements, nor deep or long ones, fill the memory."""
    for xml in (
        b"<urlset><url>" + b"<a/>" * 1_000_000 + b"</url></urlset>",
        b"<urlset>" + b"<url><lastmod>x</lastmod></url>" * 200_000 + b"</urlset>",
        b"<urlset>" + b"<a>" * 1_000_000 + b"</a>" * 1_000_000 + b"</urlset>",
    ):
        tracemalloc.start()
        with contextlib.suppress(Skipped):
            assert listing_of(xml, 100) == Listing()
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 20_000_000


@pytest.mark.parametrize(
    ("text", "date"),
    [
        ("2026-11-22", "2026-11-22"),
        ("2026-11-22T10:00:00Z", "2026-11-22T10:00:00+00:00"),
        ("Sun, 22 Nov 2026 10:00:00 GMT", "2026-11-22T10:00:00+00:00"),
        ("today", None),
        ("", None),
    ],
)
def test_dates(text, date):
    assert iso_date(text) == date
