"""Addresses of pages, and which IP addresses are public."""

from __future__ import annotations

import ipaddress

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_assistant.knowledge.website.addresses import host_of, is_public, web_address


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("https://Example.com", "https://example.com/"),
        (" http://example.com:80/a?b#c ", "http://example.com/a?b"),
        ("https://example.com/ä b", "https://example.com/%C3%A4%20b"),
        ("https://bücher.example/", "https://xn--bcher-kva.example/"),
        ("https://example.com/" + "a" * 2028, "https://example.com/" + "a" * 2028),
        ("https://example.com/" + "a" * 2029, None),
        ("https://user:secret@example.com/", None),
        ("ftp://example.com/", None),
        ("//example.com/a", None),
        ("https://exa mple.com/", None),
        ("https://example.com:99999999/", None),
        ("", None),
    ],
)
def test_an_address_has_one_form(text, normal):
    url = web_address(text)
    assert (str(url) if url else None) == normal


def test_a_relative_address():
    base = httpx.URL("https://example.com/a/b")
    assert str(web_address("../c?d", base)) == "https://example.com/c?d"
    assert web_address("javascript:alert(1)", base) is None


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://example.com/", "example.com"),
        ("http://example.com:80/", "example.com"),
        ("http://example.com:8080/", "example.com:8080"),
        ("http://[2a00::1]:8080/", "[2a00::1]:8080"),
    ],
)
def test_the_host(url, host):
    assert host_of(httpx.URL(url)) == host


@settings(max_examples=100, derandomize=True)
@given(st.text(alphabet="htps:/.@[]%#?ä1a\\ \t\n\x00\u202e", max_size=40), st.booleans())
def test_any_text_is_an_address_or_none(text, is_relative):
    url = web_address(text, httpx.URL("https://example.com/") if is_relative else None)
    if url:
        assert web_address(str(url)) == url
        assert host_of(url)


PRIVATE_IPV4 = ("127.0.0.1", "192.168.0.1", "0.0.0.0")


def with_ipv4(ipv4):
    """Return IPv6 addresses of the internet with which gateways reach an IPv4 address."""
    number = int(ipaddress.ip_address(ipv4))
    return [
        f"::ffff:{ipv4}",
        f"64:ff9b::{ipv4}",
        f"2002:{number >> 16:x}:{number & 0xFFFF:x}::1",
        f"2600::5efe:{ipv4}",
        f"2600::200:5efe:{ipv4}",
    ]


@pytest.mark.promise("security", "A website never makes Airflow read an address of the private network.")
@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "10.0.0.1", "172.16.0.1", "169.254.169.254", "100.64.0.1", "224.0.0.1", "255.255.255.255",
        "192.0.0.8", "192.0.0.170", "198.18.0.1",
        "::1", "::", "fe80::1%eth0", "fd00:ec2::254", "ff02::1", "::ffff:127.0.0.1", "64:ff9b::a9fe:a9fe",
        "not an address", "fec0::1", "::8.8.8.8", "::ffff:0:127.0.0.1", "2001::1", "64:ff9b:1::7f00:1", "3fff::1",
        "5f00::1", "100::1", "100:0:0:1::1", "2001:db8::1", "4000::1",
        *(address for ipv4 in PRIVATE_IPV4 for address in with_ipv4(ipv4)),
    ],
)  # fmt: skip
def test_not_public(address):
    assert not is_public(address)


def test_public():
    for address in ("1.1.1.1", "2a00:1450:4001::1", "2001:200::1", "2606:4700::1%eth0", *with_ipv4("93.184.215.14")):
        assert is_public(address)
