"""The client puts on the wire what the specification's endpoint table says."""

from __future__ import annotations

import email.parser
import email.policy

import pytest

from tests.contract.cases import CASES, FILE, Case, filled
from tests.wire import Answer, ScriptedService, client_of

REQUEST_ID = "req 1/ä"
QUOTED = "req%201%2F%C3%A4"
KEY = "canary-key-0123456789"


@pytest.mark.parametrize("driver", ["sync", "async"])
@pytest.mark.parametrize("case", CASES, ids=str)
async def test_request(case: Case, driver: str) -> None:
    with ScriptedService(Answer(200, {"request_id": REQUEST_ID, "status": "complete"})) as service:
        client = client_of(service.url, api_key=KEY)
        call = case.call(REQUEST_ID)
        if driver == "sync":
            with client:
                client.send(call)
        else:
            async with client:
                await client.asend(call)

    (request,) = service.received
    assert (request.method, request.path) == (case.method, "/api/v1" + filled(case.path, QUOTED))
    assert request.headers["x-api-key"] == KEY
    if case.multipart:
        (part,) = _parts(request.headers["content-type"], request.body)
        assert part.get_param("name", header="content-disposition") == "file"
        assert part.get_filename() == "refunds.md"
        assert part.get_content_type() == "text/markdown"
        assert part.get_payload(decode=True) == FILE
    elif case.json is None:
        assert request.body == b""
    else:
        assert request.headers["content-type"] == "application/json"
        assert request.json() == filled(case.json, REQUEST_ID)


def test_every_row_of_the_table_is_here() -> None:
    assert [case.row for case in CASES] == list(range(1, 11))


def _parts(content_type: str, body: bytes) -> list[email.message.EmailMessage]:
    parser = email.parser.BytesParser(policy=email.policy.HTTP)
    message = parser.parsebytes(b"Content-Type: " + content_type.encode() + b"\r\n\r\n" + body)
    return list(message.iter_parts())
