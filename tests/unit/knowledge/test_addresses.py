"""Addresses of pages, and which IP addresses are public."""

from __future__ import annotations

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_assistant.knowledge.addresses import host_of, is_public, web_address

BASE = httpx.URL("https://example.com/a/b")


@pytest.mark.parametrize(
    ("text", "base", "normal"),
    [
        ("https://Example.com", None, "https://example.com/"),
        (" http://example.com:80/a?b#c ", None, "http://example.com/a?b"),
        ("https://example.com/ä b", None, "https://example.com/%C3%A4%20b"),
        ("https://bücher.example/", None, "https://xn--bcher-kva.example/"),
        ("https://example.com/" + "a" * 2028, None, "https://example.com/" + "a" * 2028),
        ("https://example.com/" + "a" * 2029, None, None),
        ("https://user:secret@example.com/", None, None),
        ("ftp://example.com/", None, None),
        ("//example.com/a", None, None),
        ("https://exa mple.com/", None, None),
        ("https://example.com:99999999/", None, None),
        ("", None, None),
        ("../c?d", BASE, "https://example.com/c?d"),
        ("//other.example/c", BASE, "https://other.example/c"),
        ("javascript:alert(1)", BASE, None),
    ],
)
def test_an_address_has_one_form(text, base, normal):
    url = web_address(text, base)
    assert (str(url) if url else None) == normal


@settings(max_examples=100, derandomize=True)
@given(st.text(alphabet="htps:/.@[]%#?ä1a\\ \t\n\x00\u202e", max_size=40), st.booleans())
def test_any_text_is_an_address_or_none(text, is_relative):
    url = web_address(text, BASE if is_relative else None)
    if url:
        assert web_address(str(url)) == url
        assert host_of(url)


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "10.0.0.1", "172.16.0.1", "192.168.0.1", "169.254.169.254", "100.64.0.1", "224.0.0.1", "0.0.0.0",
        "255.255.255.255", "192.0.0.8", "192.0.0.170", "198.18.0.1", "not an address",
        "::1", "::", "fe80::1%eth0", "fd00:ec2::254", "ff02::1", "fec0::1", "3fff::1", "5f00::1", "100::1",
        "100:0:0:1::1", "2001:db8::1", "4000::1",
        # With an IPv4 address inside, private or not: mapped, 6to4, NAT64, Teredo.
        "::ffff:127.0.0.1", "::ffff:0:127.0.0.1", "::8.8.8.8", "2002:7f00:1::1", "2002:5db8:d70e::1",
        "64:ff9b::a9fe:a9fe", "64:ff9b::5db8:d70e", "64:ff9b:1::7f00:1", "2001::1",
    ],
)  # fmt: skip
def test_not_public(address):
    assert not is_public(address)


@pytest.mark.parametrize(
    "address", ["1.1.1.1", "2a00:1450:4001::1", "2001:200::1", "2606:4700::1%eth0", "::ffff:93.184.215.14"]
)
def test_public(address):
    assert is_public(address)
