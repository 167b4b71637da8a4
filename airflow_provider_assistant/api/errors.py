"""
Turn a response, or a missing one, into an exception.

This module alone decides which exception a status becomes, whether a retry can help (:func:`is_transient`) or cannot
(:func:`is_refused`), whether the request may have taken effect (:func:`may_have_happened`), and whether a polled chat
request is lost (:func:`is_lost`).
"""

from __future__ import annotations

import re
from collections.abc import Collection
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any, NamedTuple

from airflow_provider_assistant import strict_json
from airflow_provider_assistant.api.call import Call, Response, TransportFailure
from airflow_provider_assistant.api.gateways import PAGE_LENGTH, GatewayReply, gateway_reply, page_text
from airflow_provider_assistant.api.privacy import WITHHELD
from airflow_provider_assistant.api.replies import error_text
from airflow_provider_assistant.exceptions import (
    AssistantAPIError,
    AssistantAuthenticationError,
    AssistantBadRequestError,
    AssistantConnectionError,
    AssistantError,
    AssistantGatewayError,
    AssistantNotFoundError,
    AssistantPermissionError,
    AssistantRateLimitError,
    AssistantResponseError,
    AssistantServerError,
    AssistantTimeoutError,
)
from airflow_provider_assistant.texts import shortened

# Endpoints that send a message to a session.
CHATS = frozenset({"chat", "chat.async"})
DETAIL_LENGTH = 300
# Seconds of a ``Retry-After`` from which an error also says when it ends.
LONG_WAIT = 60.0
# Cap for ``Retry-After`` in seconds: without it, a broken header could make a deferred task wait for years.
LONGEST_RETRY_AFTER = 86_400.0


class Row(NamedTuple):
    """
    One row of the table of statuses.

    :param error: Exception class.
    :param condition: What the status means, for the message.
    :param own_todo: What to do, if the class has no answer that fits this status. Default: None.
    """

    error: type[AssistantAPIError]
    condition: str
    own_todo: str | None = None

    @property
    def todo(self) -> str:
        """What to do."""
        return self.own_todo or self.error.default_todo


STATUSES: dict[int, Row] = {
    400: Row(AssistantBadRequestError, "malformed payload or request structure"),
    401: Row(AssistantAuthenticationError, "the API key is wrong or authentication is not set up"),
    403: Row(AssistantPermissionError, "plan, access or capability does not permit the call"),
    404: Row(AssistantNotFoundError, "tenant, site or resource not found, or not owned by the caller"),
    405: Row(
        AssistantNotFoundError,
        "this address does not take such requests",
        "This is not the assistant's API: check the base URL in the Airflow connection. For the management of "
        "documents, check the method in manage_documents.",
    ),
    409: Row(
        AssistantBadRequestError,
        "an object with this name or in this state already exists",
        "Check the object at the service, then change the row or skip it.",
    ),
    413: Row(
        AssistantBadRequestError,
        "one text, message or file is larger than the service allows",
        "Split the row or the file into smaller ones.",
    ),
    415: Row(
        AssistantBadRequestError,
        "the service does not accept this type of file, by its name or content type",
        "Convert the file to a type that the service accepts, or leave it out.",
    ),
    422: Row(
        AssistantBadRequestError,
        "a field has a value that the service does not allow",
        "Fix the field that the service names in its reply.",
    ),
    429: Row(AssistantRateLimitError, "too many requests"),
}
# A 409 to a create that no earlier attempt can have caused.
EXISTS = Row(
    AssistantBadRequestError,
    "a document like this exists already at the service",
    "Look at it there. If it is the document of this row, leave the row out of the source; otherwise, "
    "rename or delete it, and run the task again.",
)
# A chat creates no object that could exist already.
CHAT_CONFLICT = Row(
    AssistantBadRequestError,
    "the session does not take this message",
    "If the session was closed, use another session_id: a closed session takes no more messages.",
)
SERVER_ERROR = Row(AssistantServerError, "server-side failure")
# A 4xx that the table does not list rejects this one request, like a 400.
REFUSED = Row(AssistantBadRequestError, "the service refuses this request")
# HTTP defines 408 (Request Timeout) and 425 (Too Early) as retryable: the service has not processed the request.
TOO_SOON = Row(
    AssistantAPIError,
    "the service asks for the same request once more",
    "If it persists, alert the service's owner.",
)
SENT_AGAIN = frozenset({408, 425})
# 501: the service does not have this route or method. 511: the network asks for a login. Neither carried it out.
FINAL_5XX = frozenset({501, 511})
# Names of statuses that Python does not know: those of nginx and Cloudflare.
NAMES = {
    494: "Request Header Too Large",
    495: "SSL Certificate Error",
    496: "SSL Certificate Required",
    497: "HTTP Request Sent to HTTPS Port",
    520: "Web Server Returned an Unknown Error",
    521: "Web Server Is Down",
    522: "Connection Timed Out",
    523: "Origin Is Unreachable",
    524: "A Timeout Occurred",
    525: "SSL Handshake Failed",
    526: "Invalid SSL Certificate",
}
UNEXPECTED = Row(AssistantAPIError, "an answer the specification does not list")
# What to do about a gateway's refusal, by status.
GATEWAY_TODOS = {
    401: "The gateway asks for a login of its own; the API key does not matter there. Ask its owner to let requests "
    "with the API key pass, or set the base URL to an address of the service that needs no such login.",
    407: "Set the user and password of the proxy in HTTPS_PROXY or HTTP_PROXY, or list the host of the service in "
    "NO_PROXY.",
    413: "The gateway forwards only smaller requests. Split the row or the file, or ask the owner of the gateway for a "
    "higher limit.",
    421: "The gateway does not serve this host. Check the base URL in the Airflow connection.",
    494: "The gateway takes only smaller headers. Check that the password of the Airflow connection is the API key.",
    511: "Log in to the network first: until then, no request reaches the service.",
}
GATEWAY_TODOS[431] = GATEWAY_TODOS[494]
WRONG_ADDRESS = (
    "This is not the assistant's API: check the base URL in the Airflow connection; redirects are not followed, so "
    "that the key stays with its host."
)
WRONG_TLS = (
    "If the gateway asks for a client certificate, set client_cert and client_key in the Airflow connection. If it "
    "complains about plain http, begin the base URL with https://."
)


def from_response(call: Call[Any], response: Response, now: float) -> AssistantAPIError:
    """
    Return the exception for a response whose status is not 2xx.

    :param call: The call.
    :param response: The response.
    :param now: Current time in seconds since the epoch, to evaluate a ``Retry-After`` that is a date.
    :return: The exception, with ``status``, ``endpoint``, ``detail``, ``retry_after`` and ``request_id`` set.
    """
    gateway = gateway_reply(response)
    row = STATUSES.get(response.status) or _row_of_class(response.status)
    if response.status == HTTPStatus.CONFLICT and call.existing and not call.repeatable:
        row = EXISTS
    if response.status == HTTPStatus.CONFLICT and call.endpoint in CHATS:
        row = CHAT_CONFLICT
    line = status_line(response.status)
    if response.sent_status:
        line = f"{status_line(response.sent_status)} with a body that reports an error"
        if response.status == HTTPStatus.BAD_REQUEST:
            row = REFUSED
    condition = row.condition
    detail = _detail(response)
    speaker = "The service"
    if gateway:
        condition = f"{gateway.name} answered instead of the service"
        detail = detail_of(gateway.text) or detail
        speaker = "It"
    detail = _shown(call, detail)
    retry_after = parse_retry_after(response.headers.get("retry-after"), now)
    happened = f"{line}: {condition} ({call})"
    if detail:
        happened += f". {speaker} said: {detail!r}"
    if retry_after is not None:
        happened += f". It asked to wait {retry_after:.0f} s"
        if retry_after >= LONG_WAIT:
            happened += f", until {datetime.fromtimestamp(now + retry_after, UTC):%Y-%m-%d %H:%M} UTC"
    fields: dict[str, Any] = {
        "status": response.status,
        "endpoint": call.endpoint,
        "detail": detail,
        "retry_after": retry_after,
        "request_id": response.headers.get("x-request-id"),
        "gateway": gateway.name if gateway else None,
    }
    if gateway and not _may_pass_later(response.status):
        todo = _todo_of_gateway(call, response.status, gateway)
        return AssistantGatewayError(happened, todo=todo, concerns_all=gateway.concerns_all, **fields)
    return row.error(happened, todo=row.todo, **fields)


def _may_pass_later(status: int) -> bool:
    """Return whether the same request may get an answer of the service later, although a gateway answered now."""
    return status in SENT_AGAIN or status == HTTPStatus.TOO_MANY_REQUESTS or (status >= 500 and status not in FINAL_5XX)


def _todo_of_gateway(call: Call[Any], status: int, gateway: GatewayReply) -> str:
    if gateway.about_tls:
        return WRONG_TLS
    path = call.path.partition("?")[0]
    address = gateway.text.removesuffix(path)
    is_same_route = address != gateway.text and address.startswith("http")
    if 300 <= status < 400 and is_same_route and _shown(call, address) == address:
        # Such as from http to https.
        return (
            f"If {address} is the service's own address, set it as the base URL in the Airflow "
            "connection: redirects are not followed, so that the key stays with its host."
        )
    if status < 400 or status in {404, 405, 501}:
        return WRONG_ADDRESS
    return GATEWAY_TODOS.get(status, AssistantGatewayError.default_todo)


def _row_of_class(status: int) -> Row:
    """Return the row for a status that STATUSES does not list, by its class (3xx, 4xx, 5xx)."""
    if status >= 500:
        return SERVER_ERROR
    if status in SENT_AGAIN:
        return TOO_SOON
    if status >= 400:
        return REFUSED
    return UNEXPECTED


def from_failure(call: Call[Any], failure: TransportFailure) -> AssistantError:
    """
    Return the exception for a request without a complete response.

    :param call: The call.
    :param failure: What went wrong on the connection.
    :return: An AssistantGatewayError if a proxy refused to pass the request on, an AssistantResponseError if a response
        cannot be read, an AssistantTimeoutError if the response timeout passed, or else an AssistantConnectionError.
    """
    detail = _shown(call, failure.detail)
    host = failure.host
    if failure.proxy:
        host = f"{host} through the proxy {failure.proxy}"
    if failure.proxy_status and not _may_pass_later(failure.proxy_status):
        return AssistantGatewayError(
            f"The proxy {failure.proxy} did not pass the request on to {failure.host}: {detail} ({call})",
            todo=failure.todo or GATEWAY_TODOS.get(failure.proxy_status),
            status=failure.proxy_status,
            endpoint=call.endpoint,
            gateway=f"the proxy {failure.proxy}",
        )
    if failure.is_answered:
        return AssistantResponseError(
            f"The reply of {host} cannot be read: {detail} ({call})", todo=failure.todo or None
        )
    if failure.kind == "timeout":
        return AssistantTimeoutError(
            f"No answer in time from {host}: {detail} ({call})",
            todo=f"If the service is only slow, raise {call.timeout_field} in the Airflow connection.",
        )
    todo = failure.todo or (
        "Check the base URL in the Airflow connection and that the service can be reached from this machine."
    )
    return AssistantConnectionError(f"No answer from {host}: {detail} ({call})", todo=todo)


def is_transient(error: AssistantError) -> bool:
    """
    Return whether a retry of the same request may succeed (408, 425, 429, 5xx, no response).

    :param error: The error of the request.
    """
    if isinstance(error, AssistantAPIError) and error.status in SENT_AGAIN:
        return True
    if isinstance(error, AssistantAPIError) and error.status in FINAL_5XX:
        return False
    return isinstance(
        error,
        AssistantRateLimitError | AssistantServerError | AssistantConnectionError | AssistantTimeoutError,
    )


def is_refused(error: AssistantError) -> bool:
    """
    Return whether the service would refuse the same request again (a 4xx other than 408, 425 and 429).

    :param error: The error of the request.
    :return: False if a gateway refused the request: the service has not judged it.
    """
    if not isinstance(error, AssistantAPIError) or isinstance(error, AssistantGatewayError):
        return False
    return 400 <= error.status < 500 and not is_transient(error)


def concerns_all(error: AssistantError) -> bool:
    """
    Return whether a gateway, a proxy or a wrong address refuses every request, so that a task has to stop.

    :param error: The error of a request, or its cause if the request is ambiguous.
    """
    return isinstance(error, AssistantGatewayError) and error.concerns_all


def may_concern_one(error: AssistantError) -> bool:
    """
    Return whether a gateway refused a request, and it is not known yet whether it refuses the others as well.

    :param error: The error of a request, or its cause if the request is ambiguous.
    """
    return isinstance(error, AssistantGatewayError) and not error.concerns_all


def refused_alone(error: AssistantError) -> AssistantError:
    """
    Return the error of a request that a gateway refuses while it lets other requests pass.

    :param error: The error of the request.
    :return: An AssistantBadRequestError that names the gateway; the same error if the request is ambiguous.
    """
    if not isinstance(error, AssistantGatewayError):
        return error
    said = f", with the page {error.detail!r}" if error.detail else ""
    reason = f"{error.gateway} refuses this request with {status_line(error.status)}{said}, and lets others pass"
    return AssistantBadRequestError(
        f"{reason}. {error.happened}",
        safe=error.safe,
        todo=error.todo,
        status=error.status,
        endpoint=error.endpoint,
        detail=reason,
        gateway=error.gateway,
    )


def is_lost(error: AssistantError) -> bool:
    """
    Return whether the error of a poll means that the service no longer knows the chat request.

    This is every 4xx that :func:`is_refused` returns True for, except 401 and 403, which concern the API key.

    :param error: The error of the poll.
    """
    return is_refused(error) and not isinstance(error, AssistantAuthenticationError | AssistantPermissionError)


def may_have_happened(
    call: Call[Any], outcome: Response | TransportFailure, gateway_refusals: Collection[int] = ()
) -> bool:
    """
    Return whether a failed call may have taken effect nevertheless.

    :param call: The call.
    :param outcome: Its response, with a status outside 2xx or from a gateway, or the failure of its connection.
    :param gateway_refusals: Statuses with which the gateway in front of the service refuses a request that it has not
        forwarded. Default: none.
    :return: True if the call is not idempotent, and the response is a 5xx (but not 501 or 511), or a web page with a
        success status that asks for no login, or the request was sent and got no response.
    """
    return not call.repeatable and may_have_arrived(outcome, gateway_refusals)


def may_have_arrived(outcome: Response | TransportFailure, gateway_refusals: Collection[int] = ()) -> bool:
    """Return whether the service may have carried out a failed call, see :func:`may_have_happened`."""
    if isinstance(outcome, TransportFailure):
        return outcome.sent
    gateway = gateway_reply(outcome)
    if gateway and (gateway.is_login or outcome.status in gateway_refusals):
        return False
    return outcome.is_success or (outcome.status >= 500 and outcome.status not in FINAL_5XX)


def is_still_answering(call: Call[Any], error: AssistantError) -> bool:
    """
    Return whether the service may still be answering a call that timed out, so that it is never sent again.

    :param call: The call.
    :param error: Error of its request.
    """
    return not call.resend_after_timeout and isinstance(error, AssistantTimeoutError)


def asks_to_slow_down(response: Response) -> bool:
    """
    Return whether a response asks for fewer requests: a 429, or the 503 of a gateway, such as of nginx's limit_req.

    :param response: The response.
    """
    if response.status == HTTPStatus.SERVICE_UNAVAILABLE:
        return gateway_reply(response) is not None
    return response.status == HTTPStatus.TOO_MANY_REQUESTS


def parse_retry_after(value: str | None, now: float) -> float | None:
    """
    Return the seconds that a ``Retry-After`` header asks to wait.

    :param value: Value of the header, seconds or an HTTP date; None if the header is missing.
    :param now: Current time in seconds since the epoch.
    :return: Seconds, at least 0 and at most one day; None if the header is missing or malformed.
    """
    if value is None:
        return None
    value = value.strip()
    if re.fullmatch(r"\d{1,9}(\.\d{1,9})?", value, re.ASCII):
        return min(float(value), LONGEST_RETRY_AFTER)
    try:
        when = parsedate_to_datetime(value)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    if when.tzinfo is None:
        # HTTP dates are in UTC.
        when = when.replace(tzinfo=UTC)
    seconds = max(0.0, when.timestamp() - now)
    return min(seconds, LONGEST_RETRY_AFTER)


def _detail(response: Response) -> str:
    """Return the error text of a JSON body, or the title or text of a web page, shortened."""
    try:
        document = strict_json.read(response.body)
        text = error_text(document.value) or ""
    except ValueError:
        text = page_text(response.body[:PAGE_LENGTH].decode("utf-8", errors="replace"))
    return detail_of(text)


def _shown(call: Call[Any], text: str) -> str:
    """Return a text from outside; a remark instead if it may repeat the user in the path of the call."""
    return WITHHELD if text and call.private else text


def detail_of(text: str) -> str:
    """
    Return a text of the service as part of an error: printable, on one line, at most DETAIL_LENGTH characters.

    :param text: The text.
    """
    printable = [char if char.isprintable() else " " for char in text[:PAGE_LENGTH]]
    return shortened("".join(printable), DETAIL_LENGTH)


def short_reason(error: AssistantError) -> str:
    """
    Return what happened in a few words: the status if there was an answer, and who gave it if not the service.

    :param error: The error of a request.
    """
    if isinstance(error, AssistantAPIError):
        line = status_line(error.status)
        return f"{line} from {error.gateway}" if error.gateway else line
    return error.happened


def status_line(status: int) -> str:
    """Return a status with its name, such as ``404 Not Found``."""
    if status in NAMES:
        return f"{status} {NAMES[status]}"
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return f"{status} (unknown status)"
