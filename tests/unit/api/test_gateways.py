"""Who sent a reply: the API, or a gateway, proxy or login page in front of it."""

from __future__ import annotations

import itertools
import time

import pytest

from airflow_provider_assistant.api import endpoints, errors
from airflow_provider_assistant.api.call import Response, TransportFailure
from airflow_provider_assistant.api.gateways import ONLY_GATEWAYS, UNKNOWN, gateway_reply
from airflow_provider_assistant.api.payloads import QADocument
from airflow_provider_assistant.client.connection_errors import todo_of_proxy
from airflow_provider_assistant.client.network import Proxy
from airflow_provider_assistant.exceptions import (
    AssistantAmbiguousError,
    AssistantAPIError,
    AssistantAuthenticationError,
    AssistantBadRequestError,
    AssistantConnectionError,
    AssistantGatewayError,
    AssistantServerError,
)

GET = endpoints.get_statistics("docs")
POST = endpoints.create_qa_document("docs", QADocument(title="t", question="q", answer="a", category="c"))
NGINX = (
    b"<html>\r\n<head><title>{0}</title></head>\r\n<body>\r\n<center><h1>{0}</h1></center>\r\n<hr><center>"
    b"nginx/1.26.3</center>\r\n</body>\r\n</html>\r\n"
)


def nginx(status: int, title: str) -> Response:
    headers = {"server": "nginx/1.26.3", "content-type": "text/html"}
    return Response(status, headers, NGINX.replace(b"{0}", title.encode()))


def page(status: int, body: str, **headers: str) -> Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Response(status, {"content-type": "text/html", **named}, body.encode())


# Replies as these programs send them: name of the gateway, whether it concerns every request, a text of the error.
GATEWAYS: list[tuple[Response, str, bool, str]] = [
    (nginx(400, "400 The plain HTTP request was sent to HTTPS port"), "nginx", True, "https://"),
    (nginx(400, "400 No required SSL certificate was sent"), "nginx", True, "client_cert"),
    (nginx(496, "400 No required SSL certificate was sent"), "nginx", True, "496 SSL Certificate Required"),
    (nginx(400, "400 Bad Request"), "nginx", False, "owner of the gateway"),
    (nginx(401, "401 Authorization Required"), "nginx", True, "login of its own"),
    (nginx(403, "403 Forbidden"), "nginx", False, "403 Forbidden"),
    (nginx(404, "404 Not Found"), "nginx", True, "base URL"),
    (nginx(405, "405 Not Allowed"), "nginx", True, "base URL"),
    (nginx(413, "413 Request Entity Too Large"), "nginx", False, "Split"),
    (
        page(
            403,
            '<!DOCTYPE html PUBLIC "-//W3C//DTD HTML 4.01//EN"><html><head><style>h1 { a: b }</style>'
            "<title>ERROR: The requested URL could not be retrieved</title></head>",
            server="squid/6.13",
            via="1.1 gate.corp (squid/6.13)",
            x_squid_error="ERR_ACCESS_DENIED 0",
        ),
        "squid at gate.corp",
        False,
        "could not be retrieved",
    ),
    (
        Response(403, {}, b"<html><body><h1>403 Forbidden</h1>\nRequest forbidden by administrative rules.\n</body>"),
        "haproxy",
        False,
        "403 Forbidden",
    ),
    (Response(403, {"content-type": "text/plain"}, b"RBAC: access denied"), "Envoy", False, "RBAC"),
    (page(403, "<!DOCTYPE html><title>Attention Required!</title>", server="cloudflare"), "cloudflare", False, "!"),
    (Response(403, {"server": "cloudflare"}, b"error code: 1020"), "Cloudflare", False, "1020"),
    (page(406, "<h1>Not Acceptable!</h1><p>Mod_Security", server="Apache/2.4 (Unix)"), "Apache", False, "Acceptable"),
    (Response(403, {}, b'<?xml version="1.0"?><Error><Message>Access Denied</Message></Error>'), UNKNOWN, False, "Acc"),
    (Response(407, {}, b""), UNKNOWN, True, "HTTPS_PROXY"),
    (Response(407, {}, b'{"message": "log in"}'), UNKNOWN, True, "log in"),
    (Response(421, {"server": "Caddy"}, b""), "Caddy", True, "base URL"),
    (Response(431, {}, b"Request Header Fields Too Large"), UNKNOWN, True, "headers"),
    (Response(511, {}, b""), UNKNOWN, True, "Log in"),
    (Response(400, {}, b"Client sent an HTTP request to an HTTPS server.\n"), UNKNOWN, True, "https://"),
    (Response(404, {}, b"404 page not found\n"), UNKNOWN, True, "base URL"),
    (Response(404, {}, b"default backend - 404"), "ingress-nginx", True, "base URL"),
    (page(403, '\ufeff\n<!-- x --> <HTML lang="de"><TITLE>Zugriff verweigert'), UNKNOWN, False, "Zugriff verweigert"),
    (Response(403, {}, "<html><title>Blocked</title>".encode("utf-16")), UNKNOWN, False, "Blocked"),
    (page(200, "<html><title>Sign in to your account</title>"), UNKNOWN, True, "base URL"),
    (page(200, "<html><form><input name=u><input type='password'>", server="F5"), "F5", True, "base URL"),
    (Response(302, {"location": "https://u:p@sso.corp/login?state=secret"}, b""), UNKNOWN, True, "https://sso.corp/login"),
    (Response(308, {"location": "/api/v1/"}, b"{}"), UNKNOWN, True, "base URL"),
]  # fmt: skip
# Bodies that a service may send itself.
OF_API = [
    b"",
    b"null",
    b"{}",
    b'{"error": "<html>"}',
    b"[1]",
    b"No such site.",
    b"site <html> is unknown",
    b"Forbidden",
]


@pytest.mark.parametrize(("response", "name", "concerns_all", "text"), GATEWAYS)
def test_a_reply_of_a_gateway(response: Response, name: str, concerns_all: bool, text: str) -> None:
    error = errors.from_response(POST, response, 0.0)
    assert isinstance(error, AssistantGatewayError), error
    assert (error.gateway, error.concerns_all, error.status) == (name, concerns_all, response.status)
    assert errors.concerns_all(error) is concerns_all
    assert text in str(error)
    assert f"{name} answered instead of the service" in str(error)
    assert not any(secret in str(error) for secret in ("secret", "u:p", "API key is wrong", "Fix the payload"))
    assert not errors.is_transient(error)
    assert not errors.is_refused(error)
    assert not errors.is_lost(error)
    assert not errors.may_have_happened(POST, response)
    assert errors.may_concern_one(error) is not concerns_all
    if not concerns_all:
        alone = errors.refused_alone(error)
        assert isinstance(alone, AssistantBadRequestError)
        assert errors.is_refused(alone)
        assert alone.detail.startswith(f"{name} refuses this request with {errors.status_line(response.status)}")


def test_the_service_judges_by_every_other_reply() -> None:
    statuses = [400, 401, 403, 404, 409, 413, 422, 429, 500, 502, 503]
    for status, body, header in itertools.product(statuses, OF_API, ["application/json", "text/plain", "text/html"]):
        headers = {"content-type": header, "server": "nginx", "via": "1.1 gate.corp (squid/6.13)"}
        response = Response(status, headers, body)
        assert gateway_reply(response) is None, (status, body)
        error = errors.from_response(POST, response, 0.0)
        assert type(error) is errors.STATUSES.get(status, errors.SERVER_ERROR).error
        assert error.gateway is None
    assert gateway_reply(Response(409, {}, b"<html>conflict")) is None
    assert gateway_reply(Response(200, {}, b'{"a": "<input type=password>"}')) is None
    assert isinstance(errors.from_response(POST, Response(401, {}, b"no"), 0.0), AssistantAuthenticationError)


def test_a_failing_gateway_is_named_and_its_503_slows_requests_down() -> None:
    pages = [nginx(503, "503 Service Temporarily Unavailable"), Response(503, {}, b"no healthy upstream"),
             Response(503, {"server": "awselb/2.0"}, b"")]  # fmt: skip
    for response in [*pages, nginx(502, "502 Bad Gateway"), nginx(504, "504 Gateway Time-out"), page(525, "<html>x")]:
        error = errors.from_response(POST, response, 0.0)
        assert isinstance(error, AssistantServerError)
        assert error.gateway
        assert errors.is_transient(error)
        assert errors.may_have_happened(POST, response)
        assert not errors.may_have_happened(POST, response, {response.status})
        assert not errors.may_have_happened(GET, response)
        assert errors.asks_to_slow_down(response) is (response.status == 503)
    assert errors.asks_to_slow_down(Response(429, {}, b""))
    # A 503 of the service itself may have been carried out, whatever the connection says of its gateway.
    own = Response(503, {}, b'{"error": "busy"}')
    assert not errors.asks_to_slow_down(own)
    assert errors.may_have_happened(POST, own, {503})
    later = [errors.from_response(POST, nginx(status, "later"), 0.0) for status in (408, 425, 429)]
    assert all(errors.is_transient(error) and error.gateway for error in later)


def test_a_page_with_a_success_may_follow_a_create() -> None:
    response = page(200, "<html><title>Maintenance</title>")
    error = errors.from_response(POST, response, 0.0)
    assert isinstance(error, AssistantGatewayError)
    assert not error.concerns_all
    assert errors.may_have_happened(POST, response)
    assert not errors.may_have_happened(GET, response)
    ambiguous = AssistantAmbiguousError("perhaps")
    assert errors.refused_alone(ambiguous) is ambiguous


def test_a_proxy_that_refuses_is_named_and_one_that_fails_is_tried_again() -> None:
    for status in (None, 301, 400, 403, 404, 405, 407, 408, 429, 500, 502, 503, 504):
        failure = TransportFailure(
            "connection",
            f"answered {status}",
            sent=False,
            proxy="gate.corp:3128",
            proxy_status=status,
            todo=todo_of_proxy(Proxy("http://gate.corp:3128", "gate.corp:3128", "HTTPS_PROXY")),
        )
        error = errors.from_failure(POST, failure)
        is_refusal = status is not None and status not in {408, 429} and status < 500
        assert type(error) is (AssistantGatewayError if is_refusal else AssistantConnectionError)
        assert errors.is_transient(error) is not is_refusal
        assert errors.concerns_all(error) is is_refusal
        assert "gate.corp:3128" in str(error)
        assert "HTTPS_PROXY" in str(error)
        if isinstance(error, AssistantAPIError):
            assert error.gateway == "the proxy gate.corp:3128"


def test_statuses_that_only_gateways_send_have_an_advice() -> None:
    for status in ONLY_GATEWAYS:
        error = errors.from_response(POST, Response(status, {}, b""), 0.0)
        assert error.todo not in {AssistantGatewayError.default_todo, AssistantAPIError.default_todo}


def test_a_hostile_page_is_judged_in_a_moment() -> None:
    started = time.process_time()
    for piece in ("<!---->", "<!--", "<h1", "<title>", "<style", "<", " ", "type ", "<message><", "ssl "):
        for status in (200, 400, 503):
            gateway_reply(Response(status, {"content-type": "text/html"}, (piece * 9000).encode()))
            gateway_reply(Response(status, {}, b"<html>" + (piece * 9000).encode()))
    assert time.process_time() - started < 3


def test_a_redirect_to_the_same_route_says_the_base_url() -> None:
    for status in (301, 302, 303, 307, 308):
        for base in ("https://assistant.example/api/v1", "http://other.example:8443/below/api/v2"):
            for call in (POST, endpoints.get_statistics("docs")):
                location = f"{base.replace('://', '://user:canary@')}{call.path}?token=canary#canary"
                error = errors.from_response(call, Response(status, {"location": location}, b""), 0.0)
                assert f"If {base} is the service's own address" in str(error.todo)
                assert "canary" not in f"{error} {error.todo}"
        for location in ("https://login.example/sign-in?next=/api/v1", "/login", "", "//h", f"/api/v1{POST.path}"):
            error = errors.from_response(POST, Response(status, {"location": location}, b""), 0.0)
            assert "This is not the assistant's API" in str(error.todo)
            assert location.partition("?")[0] in str(error)
