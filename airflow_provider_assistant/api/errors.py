"""
Turn the outcome of a request into its reply or its error.

The table of statuses alone says which error a status is, whether the same request may succeed later, and whether a
request that creates something may have been carried out.
"""

from __future__ import annotations

import html
import re
from dataclasses import replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any, NamedTuple, TypeVar

from airflow_provider_assistant import strict_json
from airflow_provider_assistant.api.call import Call, CallInfo, Response
from airflow_provider_assistant.api.privacy import WITHHELD
from airflow_provider_assistant.api.replies import ApiReply, error_text
from airflow_provider_assistant.api.reported_errors import reported_error
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

T = TypeVar("T")

# Endpoints that send a message to a session.
CHATS = frozenset({"chat", "chat.async"})
DETAIL_LENGTH = 300
# Characters of a page that are looked at: patterns take quadratic time on hostile text.
PAGE_LENGTH = 4096
# Seconds of a ``Retry-After`` from which an error also says when it ends.
LONG_WAIT = 60.0
# Cap for ``Retry-After`` in seconds: without it, a broken header could make a deferred task wait for years.
LONGEST_RETRY_AFTER = 86_400.0


class Status(NamedTuple):
    """
    One row of the table of statuses.

    :param meaning: What the status means, for the message.
    :param own_todo: What to do, if the text of the class does not fit.
    :param may_pass: Whether the same request may succeed later.
    """

    error: type[AssistantAPIError]
    meaning: str
    own_todo: str | None = None
    may_pass: bool = False


# HTTP defines 408 (Request Timeout) and 425 (Too Early) as retryable: the service has not processed the request.
TOO_SOON = Status(
    AssistantAPIError,
    "the service asks for the same request once more",
    "If it persists, alert the service's owner.",
    may_pass=True,
)
# 501: the service does not have this route or method. 511: the network asks for a login. Neither carried it out.
NOT_DONE = Status(
    AssistantServerError,
    "the service does not have this function",
    "Check the base URL in the Airflow connection, and ask the owner of the service.",
)
STATUSES: dict[int, Status] = {
    400: Status(AssistantBadRequestError, "malformed payload or request structure"),
    401: Status(AssistantAuthenticationError, "the API key is wrong or authentication is not set up"),
    403: Status(AssistantPermissionError, "plan, access or capability does not permit the call"),
    404: Status(AssistantNotFoundError, "tenant, site or resource not found, or not owned by the caller"),
    405: Status(
        AssistantNotFoundError,
        "this address does not take such requests",
        "This is not the assistant's API: check the base URL in the Airflow connection. For the management of "
        "documents, check the method in manage_documents.",
    ),
    408: TOO_SOON,
    409: Status(
        AssistantBadRequestError,
        "an object with this name or in this state already exists",
        "Check the object at the service, then change the row or skip it.",
    ),
    413: Status(
        AssistantBadRequestError,
        "one text, message or file is larger than the service allows",
        "Split the row or the file into smaller ones.",
    ),
    415: Status(
        AssistantBadRequestError,
        "the service does not accept this type of file, by its name or content type",
        "Convert the file to a type that the service accepts, or leave it out.",
    ),
    422: Status(
        AssistantBadRequestError,
        "a field has a value that the service does not allow",
        "Fix the field that the service names in its reply.",
    ),
    425: TOO_SOON,
    429: Status(AssistantRateLimitError, "too many requests", may_pass=True),
    501: NOT_DONE,
    511: NOT_DONE,
}
OTHER_4XX = Status(AssistantBadRequestError, "the service refuses this request")
OTHER_5XX = Status(AssistantServerError, "server-side failure", may_pass=True)
UNEXPECTED = Status(AssistantAPIError, "an answer the specification does not list")
# A 409 to a create that no earlier attempt can have caused.
EXISTS = Status(
    AssistantBadRequestError,
    "a document like this exists already at the service",
    "Look at it there. If it is the document of this row, leave the row out of the source; otherwise, "
    "rename or delete it, and run the task again.",
)
# A chat creates no object that could exist already.
CHAT_CONFLICT = Status(
    AssistantBadRequestError,
    "the session does not take this message",
    "If the session was closed, use another session_id: a closed session takes no more messages.",
)

# Statuses that only gateways and proxies send: a login to them, a wrong host, TLS errors, a captive portal.
ONLY_GATEWAYS = frozenset({407, 421, 431, 494, 495, 496, 497, 511})
# Statuses of a gateway whose service does not answer; 520 to 530 are those of content delivery networks.
NOBODY_BEHIND = frozenset({502, 503, 504, *range(520, 528), 530})
WRONG_ADDRESS = (
    "This is not the assistant's API: check the base URL in the Airflow connection. Redirects are not followed, so "
    "that the key stays with its host."
)
GATEWAY_TODOS = {
    401: "The gateway asks for a login of its own; the API key does not matter there. Ask its owner to let requests "
    "with the API key pass, or set the base URL to an address of the service that needs no such login.",
    404: WRONG_ADDRESS,
    405: WRONG_ADDRESS,
    407: "Set the user and password of the proxy in HTTPS_PROXY or HTTP_PROXY, or list the host of the service in "
    "NO_PROXY.",
    413: "The gateway forwards only smaller requests. Split the row or the file, or ask the owner of the gateway for a "
    "higher limit.",
    421: "The gateway does not serve this host. Check the base URL in the Airflow connection.",
    431: "The gateway takes only smaller headers. Check that the password of the Airflow connection is the API key.",
    495: "The gateway refuses the certificate: check client_cert and client_key in the Airflow connection.",
    496: "The gateway asks for a certificate: set client_cert and client_key in the Airflow connection.",
    497: "Begin the base URL in the Airflow connection with https://.",
    501: WRONG_ADDRESS,
    511: "Log in to the network first: until then, no request reaches the service.",
}
GATEWAY_TODOS[494] = GATEWAY_TODOS[431]

# The beginning of a web page or of XML.
_MARKUP = re.compile(rb"\s*+<[!?a-zA-Z]")
_TITLE = re.compile(r"<(title|h1|message)\b[^>]*>([^<]*)", re.IGNORECASE)
_IGNORED = re.compile(r"<(style|script)\b.*?(?:</\1>|$)", re.IGNORECASE | re.DOTALL)
_TAG = re.compile(r"<[^>]*>")


def reply_of(
    call: Call[T], outcome: Response | AssistantError, info: CallInfo, now: float, *, may_exist: bool = False
) -> T:
    """
    Return the reply to a call.

    If the body of a success describes a failure, it counts as a response with the status of that failure.

    :param outcome: The response, or the error of the transport if there is none.
    :param info: The attempts so far; the status, the text and the links are set here.
    :param now: Current time in seconds since the epoch, to evaluate a ``Retry-After`` that is a date.
    :param may_exist: Whether an earlier request may have been carried out: then a 409 may mean that it was.
    :raises AssistantError: The error that the outcome is, with its two facts.
    """
    if isinstance(outcome, AssistantError):
        raise replace(outcome, maybe_done=outcome.maybe_done and not call.repeatable)
    if outcome.is_success and not is_of_gateway(outcome):
        try:
            reply = _parsed(call, outcome, info)
            meant = _meant_status(reply) if isinstance(reply, ApiReply) else None
        except AssistantResponseError as error:
            raise _unusable(call, error) from None
        if meant is None:
            return reply
        outcome = replace(outcome, status=meant, sent_status=outcome.status)
    if call.existing and may_exist and outcome.status in call.existing_statuses and not is_of_gateway(outcome):
        return call.existing(outcome.readable_value(), replace(info, status=outcome.status, ambiguous=0))
    raise _error_of_response(call, outcome, now)


def _parsed(call: Call[T], response: Response, info: CallInfo) -> T:
    document = response.document()
    text = document.text if document else None
    info = replace(info, status=response.status, raw_json=text, link=response.headers.get("link"))
    return call.parse(document.value if document else None, info)


def _meant_status(reply: ApiReply) -> int | None:
    """
    Return the status that the body of a success means; None unless it reports an error and has no result.

    :raises AssistantResponseError: It says that the call failed, and not why.
    """
    reported = reported_error(reply.raw)
    if reported is None or reply.has_result:
        return None
    # Statistics in an envelope may have errors among them. An envelope inside a failure may only repeat the request.
    if type(reply) is ApiReply and replace(reply, raw=reported.json_object).has_result:
        return None
    if reported.status is None:
        raise AssistantResponseError(
            f"status {reply.call_info.status} with a body that says that the call failed, and not why",
            todo="Ask the owner of the service what this reply means.",
        )
    return reported.status


def _unusable(call: Call[Any], error: AssistantResponseError) -> AssistantResponseError:
    """Return the error of a success whose body cannot be used."""
    happened = f"{call}: {error.happened}"
    if not call.repeatable:
        happened += ". The status says that it was carried out; a retry may create a duplicate"
    todo = error.todo or AssistantAPIError.default_todo
    return AssistantResponseError(happened, todo=todo, maybe_done=not call.repeatable)


def is_of_gateway(response: Response) -> bool:
    """
    Return whether a gateway, a proxy or a login page sent a reply, and not the API.

    The API sends JSON. The specification does not show the bodies of its errors, so an empty one and a plain text count
    as the API's; markup and a redirect do not.
    """
    if 300 <= response.status < 400 or response.status in ONLY_GATEWAYS:
        return True
    if response.status == HTTPStatus.CONFLICT:
        # Only the service knows what exists.
        return False
    return bool(_MARKUP.match(response.body[:PAGE_LENGTH].removeprefix(b"\xef\xbb\xbf")))


def is_refused(error: AssistantError) -> bool:
    """Return whether the service itself would refuse the same request again (a 4xx other than 408, 425 and 429)."""
    if not isinstance(error, AssistantAPIError) or isinstance(error, AssistantGatewayError):
        return False
    return 400 <= error.status < 500 and not STATUSES.get(error.status, OTHER_4XX).may_pass


def is_lost(error: AssistantError) -> bool:
    """
    Return whether the error of a poll means that the service no longer knows the chat request.

    This is every refusal but a 401 or 403, which concern the API key.
    """
    return is_refused(error) and not isinstance(error, AssistantAuthenticationError | AssistantPermissionError)


def may_have_arrived(outcome: Response | AssistantError) -> bool:
    """
    Return whether the service may have carried out a request that failed.

    A page with the status of a success may replace the reply to a request that was carried out.
    """
    if isinstance(outcome, AssistantError):
        return outcome.maybe_done
    return outcome.is_success or (outcome.status >= 500 and STATUSES.get(outcome.status) is not NOT_DONE)


def is_unanswered(outcome: Response | AssistantError) -> bool:
    """Return whether the service itself has not answered: no connection, no response, or a gateway that says so."""
    if isinstance(outcome, Response):
        return outcome.status in NOBODY_BEHIND
    # A certificate does not get better by waiting.
    is_silent = isinstance(outcome, AssistantConnectionError | AssistantTimeoutError)
    return is_silent and "CERTIFICATE_VERIFY_FAILED" not in outcome.happened


def _error_of_response(call: Call[Any], response: Response, now: float) -> AssistantAPIError:
    row = _row(call, response)
    is_gateway = is_of_gateway(response)
    detail = _detail(response)
    if detail and call.private:
        detail = WITHHELD
    retry_after = parse_retry_after(response.headers.get("retry-after"), now)
    line = status_line(response.status)
    if response.sent_status:
        line = f"{status_line(response.sent_status)} with a body that reports an error"
    meaning = "a gateway or proxy answered instead of the service" if is_gateway else row.meaning
    happened = f"{line}: {meaning} ({call})"
    if detail:
        happened += f". {'It' if is_gateway else 'The service'} said: {detail!r}"
    if retry_after is not None:
        happened += f". It asked to wait {retry_after:.0f} s"
    if retry_after is not None and retry_after >= LONG_WAIT:
        happened += f", until {datetime.fromtimestamp(now + retry_after, UTC):%Y-%m-%d %H:%M} UTC"
    kind, todo, stops_all = row.error, row.own_todo or row.error.default_todo, None
    if is_gateway and not row.may_pass:
        kind, todo, stops_all = (
            AssistantGatewayError,
            _todo_of_gateway(call, response),
            response.status in ONLY_GATEWAYS,
        )
    return kind(
        happened,
        todo=todo,
        retryable=is_gateway or row.may_pass,
        stops_all=stops_all,
        status=response.status,
        endpoint=call.endpoint,
        detail=detail,
        retry_after=retry_after,
        request_id=response.headers.get("x-request-id"),
        maybe_done=not call.repeatable and may_have_arrived(response),
    )


def _row(call: Call[Any], response: Response) -> Status:
    status = response.status
    if status == HTTPStatus.CONFLICT and call.existing and not call.repeatable:
        return EXISTS
    if status == HTTPStatus.CONFLICT and call.endpoint in CHATS:
        return CHAT_CONFLICT
    if status == HTTPStatus.BAD_REQUEST and response.sent_status:
        return OTHER_4XX
    if status in STATUSES:
        return STATUSES[status]
    if status >= 500:
        return OTHER_5XX
    return OTHER_4XX if status >= 400 else UNEXPECTED


def _todo_of_gateway(call: Call[Any], response: Response) -> str:
    if response.status >= 400:
        return GATEWAY_TODOS.get(response.status, AssistantGatewayError.default_todo)
    # A redirect may lead to the same route at another address, such as from http to https.
    target = response.headers.get("location", "").partition("?")[0]
    address = target.removesuffix(call.path.partition("?")[0])
    if address == target or not address.startswith("http") or "@" in address:
        return WRONG_ADDRESS
    return (
        f"If {address} is the service's own address, set it as the base URL in the Airflow connection: redirects are "
        "not followed, so that the key stays with its host."
    )


def parse_retry_after(value: str | None, now: float) -> float | None:
    """
    Return the seconds that a ``Retry-After`` header asks to wait, at most one day.

    :param value: Seconds or an HTTP date; None if the header is missing.
    :param now: Current time in seconds since the epoch.
    :return: None if the header is missing or malformed.
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
    return min(max(0.0, when.timestamp() - now), LONGEST_RETRY_AFTER)


def _detail(response: Response) -> str:
    """Return the error text of a JSON body, or the title or the first words of a page, shortened."""
    try:
        document = strict_json.read(response.body)
        return detail_of(error_text(document.value) or "")
    except ValueError:
        page = response.body[:PAGE_LENGTH].decode("utf-8", errors="replace")
    title = _TITLE.search(page)
    text = html.unescape(title[2]).strip() if title else ""
    return detail_of(text or html.unescape(_TAG.sub(" ", _IGNORED.sub(" ", page))).strip())


def detail_of(text: str) -> str:
    """Return a text of the service as part of an error: printable, on one line, shortened."""
    printable = [char if char.isprintable() else " " for char in text[:PAGE_LENGTH]]
    return shortened("".join(printable), DETAIL_LENGTH)


def status_line(status: int) -> str:
    """Return a status with its name, such as ``404 Not Found``."""
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return f"{status} (unknown status)"
