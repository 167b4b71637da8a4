"""
The specification's endpoint table as data.

The client is held against the request, the embedded service against request and reply; neither is held
against the other, so that they cannot agree on a mistake.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_assistant.api import endpoints
from airflow_provider_assistant.api.call import Call, Upload
from airflow_provider_assistant.api.payloads import ChatMessage, Feedback, QADocument, SessionClose, TextDocument

TENANT = "acme-inc"
SITE = "acme-docs"
CHAT = {"session_id": "visitor-1", "message": "What is the refund policy?"}
WHOLE_CHAT = {**CHAT, "email": "ada@example.com", "response_language": "en"}
FILE = b"# Refunds\n\nRefunds are paid within 14 days.\n"


@dataclass(frozen=True)
class Case:
    """
    One row of the endpoint table.

    :param row: Number of the row.
    :param call: What the client offers for it; takes the request id of an async chat.
    :param method: HTTP method on the wire.
    :param path: Path on the wire below the base URL; ``{request_id}`` stands for the request id.
    :param json: JSON body on the wire, None if there is none.
    :param multipart: Whether the body is a form with the part ``file``.
    :param needs_request: Whether an async chat has to be submitted first.
    :param reply_has: Fields that the specification shows of the reply.
    """

    row: int
    call: Callable[[str], Call[Any]]
    method: str
    path: str
    json: dict[str, Any] | None = None
    multipart: bool = False
    needs_request: bool = False
    reply_has: tuple[str, ...] = field(default=())

    def __str__(self) -> str:
        return f"{self.row}-{self.method}-{self.path.split('/')[-1]}"


def _upload() -> Upload:
    import io

    return Upload(lambda: io.BytesIO(FILE), "refunds.md", "text/markdown")


TEXT = {"title": "Refunds", "content": "Refunds are paid within 14 days.", "category": "policy"}
QA = {"title": "Refunds", "question": "When are refunds paid?", "answer": "Within 14 days.", "category": "faq"}

CASES = [
    Case(1, lambda _: endpoints.get_limits(TENANT), "GET", f"/m2m/tenants/{TENANT}/limits"),
    Case(
        2,
        lambda _: endpoints.upload_document(SITE, _upload()),
        "POST",
        f"/m2m/sites/{SITE}/documents",
        multipart=True,
    ),
    Case(
        3,
        lambda _: endpoints.create_text_document(SITE, TextDocument(**TEXT)),
        "POST",
        f"/m2m/sites/{SITE}/documents/text",
        TEXT,
    ),
    Case(
        4,
        lambda _: endpoints.create_qa_document(SITE, QADocument(**QA)),
        "POST",
        f"/m2m/sites/{SITE}/documents/qa",
        QA,
    ),
    Case(
        5,
        lambda _: endpoints.chat(SITE, ChatMessage(**WHOLE_CHAT)),
        "POST",
        f"/m2m/sites/{SITE}/chat",
        WHOLE_CHAT,
    ),
    Case(
        6,
        lambda _: endpoints.submit_chat(SITE, ChatMessage(**CHAT)),
        "POST",
        f"/m2m/sites/{SITE}/chat/async",
        CHAT,
        reply_has=("request_id",),
    ),
    Case(
        7,
        lambda request_id: endpoints.get_chat_request(SITE, request_id),
        "GET",
        f"/m2m/sites/{SITE}/chat/requests/{{request_id}}",
        needs_request=True,
        reply_has=("status",),
    ),
    Case(
        8,
        lambda request_id: endpoints.send_feedback(
            SITE, Feedback(session_id=CHAT["session_id"], request_id=request_id, feedback="good")
        ),
        "POST",
        f"/m2m/sites/{SITE}/chat/feedback",
        {"session_id": CHAT["session_id"], "request_id": "{request_id}", "feedback": "good"},
        needs_request=True,
    ),
    Case(
        9,
        lambda _: endpoints.close_session(SITE, SessionClose(session_id=CHAT["session_id"])),
        "POST",
        f"/m2m/sites/{SITE}/chat/session/close",
        {"session_id": CHAT["session_id"]},
        needs_request=True,
    ),
    Case(10, lambda _: endpoints.get_statistics(SITE), "GET", f"/m2m/sites/{SITE}/statistics"),
]


def filled(value: Any, request_id: str) -> Any:
    """Return a path or body with the request id in its place."""
    if isinstance(value, dict):
        return {name: filled(item, request_id) for name, item in value.items()}
    return value.replace("{request_id}", request_id) if isinstance(value, str) else value
