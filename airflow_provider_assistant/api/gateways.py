"""
Judge who sent a reply: the API, or a gateway, proxy or login page in front of it.

The API sends JSON. The specification does not show the bodies of its errors, so an empty body and a plain text count as
the API's, too. A reply is a gateway's only if it shows that: by a status that only gateways send, a web page or XML
where JSON is expected, a redirect, a header of a proxy's own replies, or a text that a known gateway sends.
"""

from __future__ import annotations

import html
import re
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import urlsplit

from airflow_provider_assistant import strict_json
from airflow_provider_assistant.api.call import Response

# Characters of a body that are looked at: the patterns below take quadratic time on hostile text.
PAGE_LENGTH = 4096
UNKNOWN = "a gateway or proxy in front of the service"
# Proxy authentication, a wrong host, the TLS errors of nginx, and a network that asks for a login.
ONLY_GATEWAYS = frozenset({407, 421, 494, 495, 496, 497, 511})
# Servers of applications send it as well, but not as JSON.
HEADERS_TOO_LARGE = 431
# The page of a login, a wrong address or a wrong method: no other request gets further.
OF_ALL = ONLY_GATEWAYS | {401, 404, 405, HEADERS_TOO_LARGE}

# Without going back to a comment: many of them would take exponential time.
_PAGE = re.compile(
    r"(?:\s|<!--.*?-->)*+<(?:!doctype|\?xml|html|head|title|body|center|h1)\b", re.IGNORECASE | re.DOTALL
)
_TITLE = re.compile(r"<(title|h1|message)\b[^>]*>(.*?)</\1>", re.IGNORECASE | re.DOTALL)
_IGNORED = re.compile(r"<(style|script)\b.*?(?:</\1>|$)", re.IGNORECASE | re.DOTALL)
_TAG = re.compile(r"<[^>]*>")
_LOGIN_FORM = re.compile(r"type\s*=\s*[\"']?password|name\s*=\s*[\"']?SAMLRe(?:quest|sponse)", re.IGNORECASE)
_LOGIN_TITLE = re.compile(
    r"\b(?:log[ -]?[io]n|sign[ -]?[io]n|single sign|sso|anmeld\w*|captive portal)\b", re.IGNORECASE
)
_TLS = re.compile(r"\b(?:plain http|http request to an https|requires tls|ssl|certificates?)\b", re.IGNORECASE)
# What gateways say that may not name themselves in a header, and their names.
_KNOWN_TEXTS = [
    (re.compile(pattern, re.IGNORECASE), name)
    for pattern, name in (
        (r"upstream (?:connect error|request timeout)|no healthy upstream|stream timeout|RBAC: access denied", "Envoy"),
        (r"no available server\s*$", "Traefik"),
        (r"error code: \d{3,4}\s*$", "Cloudflare"),
        (r"default backend - 404", "ingress-nginx"),
        (r"Client sent an HTTP request to an HTTPS server", ""),
        (r"(?:Bad Request\s+)?This combination of host and port requires TLS", ""),
        (r"(?:404 page not found|Bad Gateway|Gateway Time-?out)\s*$", ""),
    )
]
_KNOWN_PAGES = re.compile(
    r"No server is available to handle this request|The server didn't respond in time"
    r"|Request forbidden by administrative rules|Your browser sent an invalid request",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class GatewayReply:
    """
    A reply that the API did not send.

    :param name: Name of the gateway, such as ``nginx``.
    :param text: Title or text of its page, or the target of its redirect; empty if there is none.
    :param concerns_all: Whether it concerns every request. If not, it may concern this one only.
    :param is_login: Whether it is a redirect or asks for a login, so that nothing was forwarded whatever the status is.
    :param about_tls: Whether the gateway refuses the TLS connection or its certificate.
    """

    name: str
    text: str
    concerns_all: bool
    is_login: bool = False
    about_tls: bool = False


def gateway_reply(response: Response) -> GatewayReply | None:
    """
    Return what a gateway, proxy or login page says; None if the API may have sent the reply.

    :param response: The response, with any status.
    """
    status = response.status
    if response.is_success and response.body[:1] in b"{[":
        # Nearly every reply; b"" is in these bytes as well.
        return None
    if status == HTTPStatus.CONFLICT:
        # Only the service knows what exists.
        return None
    if 300 <= status < 400:
        return GatewayReply(_name(response, ""), _target(response), concerns_all=True, is_login=True)
    body = _beginning(response.body)
    is_json = body.lstrip()[:1] in {"{", "["}
    if status not in ONLY_GATEWAYS and (is_json or not _is_foreign(response, body)):
        return None
    text = "" if is_json else page_text(body)
    is_login = response.is_success and bool(_LOGIN_FORM.search(body) or _LOGIN_TITLE.search(text))
    about_tls = status in {495, 496, 497} or (status in {400, 403} and bool(_TLS.search(_visible(body))))
    return GatewayReply(
        name=_name(response, body),
        text=text,
        concerns_all=status in OF_ALL or is_login or about_tls,
        is_login=is_login,
        about_tls=about_tls,
    )


def page_text(body: str) -> str:
    """
    Return the title or the first heading of a web page, or else its text; a plain text as it is.

    :param body: The beginning of the body.
    """
    title = _TITLE.search(body)
    text = html.unescape(_TAG.sub(" ", title.group(2))).strip() if title else ""
    return text or _visible(body)


def _beginning(body: bytes) -> str:
    mark, encoding = strict_json.encoding_of(body[:4])
    return body[len(mark) : PAGE_LENGTH].decode(encoding, errors="replace")


def _visible(body: str) -> str:
    """Return the text of a page without its markup."""
    return html.unescape(_TAG.sub(" ", _IGNORED.sub(" ", body))).strip()


def _is_foreign(response: Response, body: str) -> bool:
    """Return whether a body that is not JSON, or a header, shows a gateway."""
    if _PAGE.match(body) or _own_name(response):
        return True
    if response.status == HEADERS_TOO_LARGE:
        return True
    return not response.is_success and any(pattern.match(body) for pattern, _ in _KNOWN_TEXTS)


def _own_name(response: Response) -> str:
    """Return the name of a gateway by a header that it adds only to its own replies; empty if there is none."""
    if "x-squid-error" in response.headers:
        return "squid"
    if "cf-mitigated" in response.headers:
        return "Cloudflare"
    if response.headers.get("server", "").startswith("awselb"):
        return "AWS load balancer"
    return ""


def _name(response: Response, body: str) -> str:
    """Return the name of a gateway, and its address if it tells it."""
    name = _own_name(response)
    for pattern, known in _KNOWN_TEXTS:
        if not name and pattern.match(body):
            name = known
    if not name and _KNOWN_PAGES.search(body):
        name = "haproxy"
    # Such as "nginx/1.26.0 (Ubuntu)".
    name = name or re.split(r"[/ (]", response.headers.get("server", ""), maxsplit=1)[0]
    if not name:
        return UNKNOWN
    # Such as "1.1 proxy.example.com (squid/6.1)"; the last one is the nearest.
    via = response.headers.get("via", "").rpartition(",")[2].split()
    is_of_gateway = len(via) > 2 and name.lower() in via[2].lower()
    return f"{name} at {via[1]}" if is_of_gateway else name


def _target(response: Response) -> str:
    """Return where a redirect leads, without the parts of the URL that may identify a person or a session."""
    try:
        parts = urlsplit(response.headers.get("location", ""))
    except ValueError:
        return ""
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path}" if host else parts.path
