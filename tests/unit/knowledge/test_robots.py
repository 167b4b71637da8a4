"""The rules of robots.txt."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_assistant.knowledge.website.robots import Robots


@pytest.mark.parametrize(
    ("rule", "path", "is_allowed"),
    [
        ("", "/a", True),
        ("Disallow:", "/a", True),
        ("Disallow: /", "/a", False),
        ("Disallow: /a", "/abc", False),
        ("Disallow: /a", "/b/a", True),
        ("Disallow: /a/*/c", "/a/b/c", False),
        ("Disallow: *.pdf$", "/a.pdf", False),
        ("Disallow: *.pdf$", "/a.pdf?b", True),
        ("Disallow: /a$", "/ab", True),
        ("Disallow: /a*a$", "/a", True),
        ("Disallow: /*?print=", "/a?print=1", False),
        ("Disallow: /a\nAllow: /a/b", "/a/b/c", True),
        ("Disallow: /a\nAllow: /a", "/a", True),
        ("Disallow: /ä", "/%c3%a4", False),
        ("Disallow: /%7Ea%2f", "/~a%2F", False),
        ("disallow : /a # why", "/a", False),
        ("Disallow: /a", "//x.org/a", True),
    ],
)
def test_a_rule(rule, path, is_allowed):
    assert Robots(f"User-agent: *\n{rule}\n").allows(f"https://x.org{path}") is is_allowed


@pytest.mark.parametrize(
    ("text", "is_allowed"),
    [
        ("User-agent: other\nDisallow: /", True),
        ("User-agent: Airflow-Provider-Assistant/2\nDisallow: /\n\nUser-agent: *\nAllow: /", False),
        ("User-agent: *\nDisallow: /\n\nUser-agent: airflow-provider-assistant\nDisallow:", True),
        ("User-agent: *\nDisallow: /\n\nUser-agent: airflow-provider-assistant", True),
        ("User-agent: *\nAllow: /b\nSitemap: /x\n\nUser-agent: *\nDisallow: /a", False),
        ("\ufeffUser-agent: *\r\nDisallow: /\r\n", False),
        ("User-agent: *\nDisallow: /\n\nUser agent airflow-provider-assistant # us\nAllow: /", True),
        ("Disallow: /", True),
        ("<html>Not found</html>", True),
    ],
)
def test_groups(text, is_allowed):
    assert Robots(text).allows("https://x.org/a") is is_allowed


@pytest.mark.parametrize(
    ("value", "seconds"), [("2.5", 2.5), ("soon", 0), ("-1", 0), ("inf", 0), ("nan", 0), ("86400", 86400)]
)
def test_crawl_delay(value, seconds):
    assert Robots(f"User-agent: *\nCrawl-delay: {value}").crawl_delay == seconds


def test_hostile_rules_need_little_time_and_memory():
    """A copy of each rule for each name would be a billion rules."""
    start = time.process_time()
    wild = Robots("User-agent: *\n" + f"Disallow: /{'*a' * 500}b\n" * 50)
    assert wild.allows("https://x.org/" + "a" * 2000)
    names = "".join(f"User-agent: a{number}\n" for number in range(30_000))
    assert Robots(names + "Disallow: /b\n" * 40_000).allows("https://x.org/b")
    assert time.process_time() - start < 10


@settings(max_examples=80, derandomize=True)
@given(st.text(alphabet="aU*$/%: \n#-", max_size=60), st.text(alphabet="a/*%$", max_size=20))
def test_any_text_is_understood(text, path):
    assert Robots(f"User-agent: *\nDisallow: {text}").allows(f"https://x.org/{path}") in {True, False}
