"""Check the mail of the how-to on observing, as a mail server receives it."""

from __future__ import annotations

import email
import json
import socketserver
import threading
from email import policy
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_assistant.operators.documents import AssistantLoadQAOperator
from tests.docs.pages import ROOT, blocks_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.conftest import RunningService
    from tests.task_runs.run import Run

ROW = {"title": "t", "question": "q", "answer": "a", "category": "faq"}


class Session(socketserver.StreamRequestHandler):
    """A minimal SMTP server that accepts mail."""

    def handle(self) -> None:
        self.wfile.write(b"220 tests\r\n")
        while line := self.rfile.readline():
            command = line.split()[0].upper() if line.split() else b""
            if command == b"DATA":
                self.wfile.write(b"354 go on\r\n")
                self.server.mails.append(b"".join(iter(self.rfile.readline, b".\r\n")))  # type: ignore[attr-defined]
            self.wfile.write(b"221 bye\r\n" if command == b"QUIT" else b"250 ok\r\n")


@pytest.fixture
def mails(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bytes]]:
    """The mails that the server has received."""
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Session) as server:
        server.mails = []  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        connection = {
            "conn_type": "smtp",
            "host": "127.0.0.1",
            "port": server.server_address[1],
            "extra": {"disable_ssl": True, "disable_tls": True},
        }
        monkeypatch.setenv("AIRFLOW_CONN_SMTP_DEFAULT", json.dumps(connection))
        yield server.mails  # type: ignore[attr-defined]
        server.shutdown()


@pytest.fixture
def tell() -> Any:
    """The notifier of the page."""
    [block] = [block for block in blocks_of(ROOT / "docs/operate/observe.md") if block.language == "python"]
    names: dict[str, Any] = {"__name__": "block"}
    exec(compile(block.code, block.name, "exec"), names)
    return names["tell"]


def sent(tell: Any, mails: list[bytes], **context: Any) -> email.message.EmailMessage:
    ti = SimpleNamespace(dag_id="load_faq_and_tell", task_id="load", log_url="http://airflow/log?a=1&b=2")
    tell({"ti": ti, "dag": None, **context})
    [mail] = mails
    return email.message_from_bytes(mail, policy=policy.default)


def test_the_mail_says_what_went_wrong(
    tell: Any,
    mails: list[bytes],
    service: RunningService,
    connection: Callable[..., None],
    run_operator: Callable[..., Run],
) -> None:
    service.answer("status:401", path="documents")
    error = run_operator(AssistantLoadQAOperator, source=[ROW]).error
    mail = sent(tell, mails, exception=error)
    [shown] = [block for block in blocks_of(ROOT / "docs/operate/observe.md") if block.language == "text"]
    assert mail["subject"].startswith(shown.code.strip())
    body = mail.get_body().get_content()
    assert "Fix the API key in the Airflow connection" in body
    assert "http://airflow/log" in body


def test_a_task_that_was_killed_has_no_exception(tell: Any, mails: list[bytes]) -> None:
    assert sent(tell, mails)["subject"] == "load_faq_and_tell.load: it was killed"
