"""The normal form of web addresses, and which IP addresses are public."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urljoin

import httpx

from airflow_provider_assistant.exceptions import AssistantInputError

# The protocol of sitemaps allows no more characters.
LONGEST_URL = 2048
HIGHEST_PORT = 65535
# A name, or an IP address without brackets.
_HOST = re.compile(rb"[\w.:-]+")
# All IPv6 addresses of the internet.
_GLOBAL_UNICAST = ipaddress.ip_network("2000::/3")
# Addresses that Python takes for public ones, in some version: 6to4 leads to an IPv4 address, which may be a private
# one; the others are for documents and protocols.
_NOT_PUBLIC = tuple(map(ipaddress.ip_network, ("2002::/16", "3fff::/20", "192.0.0.0/24")))


def web_address(text: str, base: httpx.URL | None = None) -> httpx.URL | None:
    """
    Return an address in its normal form, without a fragment.

    :param text: The address, as a link, a sitemap or a user has written it.
    :param base: Address that a relative one is relative to. Default: None, only absolute ones are valid.
    :return: The address; None if it is not a valid one of ``http`` or ``https``, contains a user name or a password, or
        is longer than 2,048 characters.
    """
    if len(text) > LONGEST_URL:
        return None
    try:
        url = httpx.URL(text.strip())
        if base is not None:
            url = base.join(url)
        # The second copy writes a missing path as a slash.
        url = url.copy_with(fragment=None)
        url = url.copy_with(raw_path=url.raw_path)
    except (httpx.InvalidURL, ValueError):
        return None
    is_web = url.scheme in {"http", "https"} and _HOST.fullmatch(url.raw_host) is not None
    is_possible = (url.port or 0) <= HIGHEST_PORT and not url.userinfo
    # Encoded characters may make the address longer than its text.
    return url if is_web and is_possible and len(str(url)) <= LONGEST_URL else None


def joined(base: str, target: str) -> str:
    """Return the address of a target that is relative to another address; an invalid target as it is."""
    try:
        return urljoin(base, target)
    except ValueError:
        return target


def host_of(url: httpx.URL) -> str:
    """Return host and port of an address; without the port that its scheme implies."""
    return url.netloc.decode("ascii")


def refuse_private_networks(event: str, info: Mapping[str, Any]) -> None:
    """
    Close a connection to an IP address that is not public, before anything is sent.

    Pass it to httpx as the extension ``trace``. It looks at the connected socket, so a name that changes its address
    leads nowhere else.

    :raises AssistantInputError: The IP address is not public.
    """
    if event != "connection.connect_tcp.complete":
        return
    stream = info["return_value"]
    address, *_ = stream.get_extra_info("server_addr")
    if not is_public(address):
        stream.close()
        raise AssistantInputError(
            f"the host of the website has the address {address}, which is not a public one",
            safe="Nothing was sent to it.",
            todo="For a website in your own network, set private_networks=True (--private-networks).",
            field="private_networks",
        )


def is_public(address: str) -> bool:
    """
    Return whether an IP address is on the public internet.

    :return: False for private, loopback, link-local, multicast, reserved and invalid addresses, and for those with
        which a gateway translates IPv6 to IPv4 (6to4, NAT64, Teredo).
    """
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return False
    if isinstance(parsed, ipaddress.IPv6Address):
        # A socket of IPv6 shows an IPv4 address so.
        parsed = parsed.ipv4_mapped or parsed
    if parsed.version == 6 and parsed not in _GLOBAL_UNICAST:
        return False
    is_special = parsed.is_multicast or any(parsed in network for network in _NOT_PUBLIC)
    return parsed.is_global and not is_special
