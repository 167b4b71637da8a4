"""What robots.txt allows, and what pages tell search engines."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_assistant.knowledge.fetch import NAME, robots_rules
from airflow_provider_assistant.knowledge.website import is_noindex


def allows(text, path="/a"):
    return robots_rules(text).can_fetch(f"https://x.org{path}", NAME)


@pytest.mark.parametrize(
    ("text", "is_allowed"),
    [
        ("", True),
        ("Disallow: /", True),
        ("<html>Not found</html>", True),
        ("User-agent: *\nDisallow: /a/*/c\nDisallow: *.pdf$", True),
        ("User-agent: *\nDisallow: /\nAllow: /a", True),
        ("User-agent: *\ndisallow : /a # why", False),
        ("User-agent: other\nDisallow: /", True),
        ("User-agent: Airflow-Provider-Assistant/2\nDisallow: /\n\nUser-agent: *\nAllow: /", False),
        ("User-agent: *\nDisallow: /\n\nUser-agent: airflow-provider-assistant\nDisallow:", True),
        ("User-agent: *\nAllow: /b\nSitemap: /x\n\nUser-agent: *\nDisallow: /a", False),
        ("\ufeffUser-agent: *\r\nDisallow: /\r\n", False),
        ("User-agent: *\nDisallow: /\n\nUser agent airflow-provider-assistant # us\nAllow: /", True),
    ],
)
def test_groups(text, is_allowed):
    assert allows(text) is is_allowed


@pytest.mark.parametrize(
    ("value", "seconds"), [("2.5", 2.5), ("soon", 0), ("-1", 0), ("inf", 0), ("nan", 0), ("86400", 86400)]
)
def test_crawl_delay(value, seconds):
    assert (robots_rules(f"User-agent: *\nCrawl-delay: {value}").crawl_delay(NAME) or 0) == seconds


def test_hostile_rules_need_little_time_and_memory():
    """A copy of each rule for each name would be a billion rules."""
    start = time.process_time()
    assert allows("User-agent: *\n" + f"Disallow: /{'*a' * 500}b\n" * 50, "/" + "a" * 2000)
    names = "".join(f"User-agent: a{number}\n" for number in range(30_000))
    assert allows(names + "Disallow: /b\n" * 40_000, "/b")
    assert time.process_time() - start < 10


@settings(max_examples=80, derandomize=True)
@given(st.text(alphabet="aU*$/%: \n#-", max_size=60), st.text(alphabet="a/*%$", max_size=20))
def test_any_text_is_understood(text, path):
    assert allows(f"User-agent: *\nDisallow: {text}", f"/{path}") in {True, False}


@pytest.mark.parametrize(
    ("robots", "is_hidden"),
    [
        ("", False),
        ("index, follow", False),
        ("NOINDEX", True),
        ("nofollow , noindex", True),
        ("max-snippet:20, none", True),
        ("max-image-preview:none, follow", False),
        ("max-image-preview: none, noindex", True),
        ("unavailable_after: 25 Jun 2030 15:00:00 PST", False),
        ("googlebot: nofollow, noindex", True),
        ("robots:none", True),
        ("otherbot: noindex", False),
        ("otherbot: nofollow, noindex", False),
        ("noindexing", False),
    ],
)
def test_what_search_engines_must_not_show(robots, is_hidden):
    assert is_noindex([robots]) is is_hidden
