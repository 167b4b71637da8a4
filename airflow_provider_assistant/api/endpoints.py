"""
Build the calls of the Assistant API, one function per route.

Every function returns a :class:`~airflow_provider_assistant.api.call.Call` and sends nothing. Send it with
:meth:`AssistantClient.send <airflow_provider_assistant.client.client.AssistantClient.send>` or
:meth:`AssistantHook.send <airflow_provider_assistant.hooks.assistant.AssistantHook.send>`. Each raises
:class:`~airflow_provider_assistant.exceptions.AssistantInputError` if an id is empty or cannot be part of a URL.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar
from urllib.parse import quote, unquote, urlencode

from airflow_provider_assistant.api.call import Call, CallInfo, Upload
from airflow_provider_assistant.api.document_state import DOCUMENT_ENVELOPES
from airflow_provider_assistant.api.fields import find, layers
from airflow_provider_assistant.api.payloads import ChatMessage, Feedback, QADocument, SessionClose, TextDocument
from airflow_provider_assistant.api.privacy import names_user, shown_path
from airflow_provider_assistant.api.ratings import RatingReply
from airflow_provider_assistant.api.replies import (
    ApiReply,
    ChatAnswer,
    ChatRequest,
    CreatedDocument,
    SubmittedChat,
    find_request_id,
)
from airflow_provider_assistant.api.reported_errors import reported_error
from airflow_provider_assistant.api.status import StatusMapping
from airflow_provider_assistant.exceptions import AssistantInputError, AssistantResponseError

T = TypeVar("T")

# Fields of a 409 with the id of the document that exists, and the objects that they may be in. A field ``id`` may be
# that of the error.
_EXISTING_ID_FIELDS = ("document_id", "documentId", "existing_document_id", "existing_id", "duplicate_of")
_CONFLICT_ENVELOPES = (*DOCUMENT_ENVELOPES, "error", "detail", "details")
# Statuses of a close that was sent again: the session is closed already, or gone.
_CLOSED_STATUSES = frozenset({404, 409, 410})


def get_limits(tenant_id: str) -> Call[ApiReply]:
    """Return the call that reads a tenant's limits (``GET …/tenants/{tenant_id}/limits``)."""
    path = f"/m2m/tenants/{segment('tenant_id', tenant_id)}/limits"
    return Call(endpoint="limits", method="GET", path=path, subject=f"tenant {tenant_id!r}", parse=ApiReply)


def upload_document(site_id: str, upload: Upload) -> Call[CreatedDocument]:
    """Return the call that creates a document from a file (``POST …/documents``), which ``as_upload`` opens."""
    return _create("documents.upload", site_id, "documents", upload=upload)


def create_text_document(site_id: str, document: TextDocument) -> Call[CreatedDocument]:
    """Return the call that creates a document from text (``POST …/documents/text``)."""
    return _create("documents.text", site_id, "documents/text", json=document.body())


def create_qa_document(site_id: str, document: QADocument) -> Call[CreatedDocument]:
    """Return the call that creates a question-and-answer document (``POST …/documents/qa``)."""
    return _create("documents.qa", site_id, "documents/qa", json=document.body())


def _create(endpoint: str, site_id: str, path: str, **body: Any) -> Call[CreatedDocument]:
    return _on_site(endpoint, "POST", site_id, path, CreatedDocument, existing=_existing_document, **body)


def _existing_document(raw: Any, call_info: CallInfo) -> CreatedDocument:
    """Return the document that a 409 says exists, see :attr:`.Call.existing`."""
    document_id = find(raw, *_EXISTING_ID_FIELDS, envelopes=_CONFLICT_ENVELOPES)
    for json_object in layers(raw, _CONFLICT_ENVELOPES):
        document_id = document_id or find(json_object.get("document"), "id", "uuid", envelopes=())
    return CreatedDocument({"document_id": document_id} if document_id else None, call_info)


def chat(site_id: str, message: ChatMessage) -> Call[ChatAnswer]:
    """
    Return the call that asks and receives the answer in the same round trip (``POST …/chat``).

    It is never sent again after a timeout, because the service may still be answering: the message would be in the
    session twice, and the assistant would answer it twice.
    """
    fields: dict[str, Any] = {"timeout_field": "chat_timeout", "resend_after_timeout": False}
    return _on_site("chat", "POST", site_id, "chat", ChatAnswer, json=message.body(), **fields)


def submit_chat(site_id: str, message: ChatMessage) -> Call[SubmittedChat]:
    """Return the call that submits a chat request without waiting for its answer (``POST …/chat/async``)."""
    return _on_site("chat.async", "POST", site_id, "chat/async", _submitted_chat, json=message.body())


def _submitted_chat(raw: Any, call_info: CallInfo) -> SubmittedChat:
    """
    Return the reply to a submitted chat.

    :raises AssistantResponseError: It has no ``request_id`` with which to poll.
    """
    request_id = find_request_id(raw)
    if request_id is None and reported_error(raw):
        # reply_of raises this error.
        return SubmittedChat(raw, call_info, "")
    if request_id is not None and _fits_into_path(request_id):
        return SubmittedChat(raw, call_info, request_id)
    defect = "no request_id"
    if request_id is not None:
        defect = f"the request_id {request_id[:20]!a}, invalid in a URL"
    raise AssistantResponseError(
        f"the service accepted the chat request (status {call_info.status}) but its reply "
        f"carries {defect}, so its answer cannot be polled"
    )


def get_chat_request(site_id: str, request_id: str, words: StatusMapping = StatusMapping()) -> Call[ChatRequest]:
    """Return the call that polls an async chat request (``GET …/chat/requests/{request_id}``)."""

    def parse(raw: Any, call_info: CallInfo) -> ChatRequest:
        return ChatRequest(raw, call_info, request_id, words)

    path = f"chat/requests/{segment('request_id', request_id)}"
    return _on_site("chat.request", "GET", site_id, path, parse, f"request {request_id!r} of ")


def send_feedback(site_id: str, feedback: Feedback) -> Call[RatingReply]:
    """Return the call that rates an answer (``POST …/chat/feedback``)."""
    about = f"request {feedback.request_id!r} of "
    return _on_site("chat.feedback", "POST", site_id, "chat/feedback", RatingReply, about, json=feedback.body())


def close_session(site_id: str, session: SessionClose) -> Call[ApiReply]:
    """
    Return the call that closes a session (``POST …/chat/session/close``).

    A 404, 409 or 410 is a success only if an earlier attempt of this call may have closed the session, and its reply
    was lost. Otherwise the service does not know the site or the session.
    """
    return _on_site(
        "session.close",
        "POST",
        site_id,
        "chat/session/close",
        ApiReply,
        f"session {session.session_id!r} of ",
        json=session.body(),
        idempotent=True,
        existing=ApiReply,
        existing_statuses=_CLOSED_STATUSES,
    )


def get_statistics(site_id: str) -> Call[ApiReply]:
    """Return the call that reads a site's statistics (``GET …/statistics``)."""
    return _on_site("statistics", "GET", site_id, "statistics", ApiReply)


def other(method: str, path: str, json: Mapping[str, Any] | None = None) -> Call[ApiReply]:
    """
    Return the call of a route that no other function here covers.

    :param path: Path below the base URL, already percent-encoded, such as ``/m2m/tenants/acme-inc/usage``.
    :raises AssistantInputError: It leaves the base URL: the API key must not be sent to another host or path.
    """
    if not is_below_base_url(path):
        raise AssistantInputError(
            "path must begin with one '/' and lie below the base URL, for example '/m2m/sites/…'; "
            f"got {shown_path(path)!r}",
            field="path",
        )
    return Call(
        endpoint="other",
        method=method.upper(),
        path=path,
        subject=shown_path(path),
        parse=ApiReply,
        json=json,
        private=names_user(path),
    )


def is_below_base_url(path: str) -> bool:
    """
    Return whether every HTTP library sends a path to the service's host, below the base URL.

    Some libraries resolve ``%2e%2e`` like ``..``, and read a backslash like a slash.
    """
    if not path.startswith("/") or path.startswith("//") or "\\" in path or not path.isprintable():
        return False
    segments = unquote(re.split(r"[?#]", path, maxsplit=1)[0]).split("/")
    return not {".", ".."}.intersection(segments)


def with_query(path: str, params: Mapping[str, str] | None) -> str:
    """Return a path with query parameters, which are not encoded yet; None for no parameters."""
    if not params:
        return path
    separator = "&" if "?" in path else "?"
    return f"{path}{separator}{urlencode(params)}"


def _on_site(
    endpoint: str,
    method: str,
    site_id: str,
    path: str,
    parse: Callable[[Any, CallInfo], T],
    about: str = "",
    **fields: Any,
) -> Call[T]:
    path = f"/m2m/sites/{segment('site_id', site_id)}/{path}"
    return Call(endpoint, method, path, subject=f"{about}site {site_id!r}", parse=parse, **fields)


def segment(field: str, value: str) -> str:
    """Return an id as a segment of a path, percent-encoded; an error names its field if that is impossible."""
    if not isinstance(value, str) or not value.strip():
        raise AssistantInputError(
            f"{field} must be a non-empty string",
            todo="Give it to the operator or hook, or in the connection's extra.",
            field=field,
        )
    if not _fits_into_path(value):
        raise AssistantInputError(f"{field} {value[:20]!a} cannot be sent: it cannot be part of a URL", field=field)
    return quote(value, safe="")


def _fits_into_path(value: str) -> bool:
    """Return whether a text can be a path segment: not blank, not ``.`` or ``..``, without lone surrogates."""
    if not value.strip() or value in {".", ".."}:
        return False
    # Most ids are ASCII, which is quick to check.
    return value.isascii() or not any("\ud800" <= char <= "\udfff" for char in value)
