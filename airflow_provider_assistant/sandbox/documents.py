"""The routes of documents."""

from __future__ import annotations

import io
import re
import secrets
import zipfile
from dataclasses import replace
from typing import Any

import python_multipart
from python_multipart.exceptions import FormParserError

from airflow_provider_assistant.sandbox.messages import ApiError, Reply, json_reply
from airflow_provider_assistant.sandbox.routes import Call, route, time_text
from airflow_provider_assistant.sandbox.store import Document

_PATH = "/m2m/sites/{site_id}/documents"
_FILE_TYPES = (".pdf", ".docx", ".txt")


@route("POST", _PATH)
def _upload(call: Call) -> Reply:
    name, content = _uploaded_file(call)
    if not name.lower().endswith(_FILE_TYPES):
        raise ApiError(400, f"unsupported file type; supported are {', '.join(_FILE_TYPES)}")
    return _create(call, "file", title=name, content=_text_of(name.lower(), content), size=len(content))


def _uploaded_file(call: Call) -> tuple[str, bytes]:
    """Return name and content of the multipart part ``file``."""
    files: list[tuple[str, bytes]] = []

    def keep(part: Any) -> None:
        if part.field_name == b"file" and part.file_name:
            part.file_object.seek(0)
            name = part.file_name.decode(errors="replace").replace("\\", "/").rpartition("/")[2]
            files.append((name, part.file_object.read()))

    headers = {"Content-Type": call.request.headers.get("content-type", "").encode()}
    try:
        python_multipart.parse_form(headers, io.BytesIO(call.request.body), None, keep)
    except (FormParserError, ValueError) as error:
        raise ApiError(400, f"the body is not a multipart form: {error}") from None
    if len(files) != 1:
        raise ApiError(400, "file must be one part with a file name")
    return files[0]


def _text_of(name: str, content: bytes) -> str:
    """Return the text of a file; that of a PDF is not read."""
    if name.endswith(".pdf"):
        return ""
    if name.endswith(".txt"):
        return content.decode("utf-8-sig", errors="replace")
    try:
        document = zipfile.ZipFile(io.BytesIO(content)).read("word/document.xml")
    except (zipfile.BadZipFile, KeyError):
        raise ApiError(400, "the file is not a Word document") from None
    return re.sub(rb"<[^>]+>", b"", document.replace(b"</w:p>", b"\n")).decode(errors="replace")


@route("POST", f"{_PATH}/text")
def _create_text(call: Call) -> Reply:
    body = call.body("title", "content")
    return _create(call, "text", title=body["title"], content=body["content"], category=body.get("category"))


@route("POST", f"{_PATH}/qa")
def _create_qa(call: Call) -> Reply:
    body = call.body("title", "question", "answer")
    fields = {name: body.get(name) for name in ("title", "question", "category")}
    return _create(call, "qa", content=body["answer"], **fields)


def _create(call: Call, kind: str, *, size: int | None = None, **fields: Any) -> Reply:
    if size is None:
        size = len(f"{fields.get('question') or ''}{fields['content']}".encode(errors="replace"))
    document = Document(
        id=f"doc_{secrets.token_hex(12)}",
        site=call.scope,
        kind=kind,
        bytes=size,
        created_at=call.now,
        updated_at=call.now,
        activated_at=call.now if call.settings.document_status == "active" else None,
        **{"question": None, "category": None, **fields},
    )
    if not call.settings.allow_duplicates and call.store.has_same(document):
        raise ApiError(409, "document already exists")
    if call.store.count_documents() >= call.settings.max_documents:
        raise ApiError(403, "document limit reached")
    return json_reply(_described(call, call.store.save(document)), 201)


def _described(call: Call, document: Document) -> dict[str, Any]:
    return {
        "id": document.id,
        "site_id": document.site,
        "kind": document.kind,
        "title": document.title,
        "category": document.category,
        "bytes": document.bytes,
        "status": status_of(call, document),
        "created_at": time_text(document.created_at),
        "updated_at": time_text(document.updated_at),
    }


def status_of(call: Call, document: Document) -> str:
    """Return ``draft``, ``processing`` or ``active``; only active documents are used for answers."""
    if document.activated_at is None:
        return "draft"
    is_ready = call.now >= document.activated_at + call.settings.document_seconds
    return "active" if is_ready else "processing"


@route("GET", _PATH)
def _list_documents(call: Call) -> Reply:
    documents, fields = call.page(call.store.all(Document, call.scope))
    return json_reply({"documents": [_described(call, one) for one in documents], **fields})


@route("PATCH", f"{_PATH}/bulk-status")
def _change_status(call: Call) -> Reply:
    active = _is_active(call.body("status")["status"])
    documents, reply = _chosen(call)
    for document in documents:
        _change(call, document, {}, active=active)
    return reply


@route("POST", f"{_PATH}/bulk-delete")
def _delete_documents(call: Call) -> Reply:
    documents, reply = _chosen(call)
    for document in documents:
        call.store.delete(document)
    return reply


def _chosen(call: Call) -> tuple[list[Document], Reply]:
    """Return the documents that a bulk request names, and its reply; unknown ids change nothing."""
    ids = call.body().get("document_ids")
    if not isinstance(ids, list) or not ids:
        raise ApiError(400, "document_ids is required")
    found = {one: call.store.find(Document, call.scope, str(one)) for one in ids}
    documents = [one for one in found.values() if one is not None]
    missing = [identifier for identifier, one in found.items() if one is None]
    return documents, json_reply({"status": "ok", "document_ids": [one.id for one in documents], "not_found": missing})


@route("PATCH", f"{_PATH}/{{document_id}}")
def _change_document(call: Call) -> Reply:
    body = call.body()
    document = call.store.find(Document, call.scope, call.item)
    if document is None:
        raise ApiError(404, "document not found")
    if "answer" in body:
        body["content"] = body["answer"]
    changes: dict[str, Any] = {
        name: body[name] for name in ("title", "question", "content", "category") if name in body
    }
    active = _is_active(body["status"]) if "status" in body else document.activated_at is not None
    return json_reply(_described(call, _change(call, document, changes, active=active)))


def _is_active(status: str) -> bool:
    if status not in {"active", "draft"}:
        raise ApiError(400, "status must be 'active' or 'draft'")
    return status == "active"


def _change(call: Call, document: Document, changes: dict[str, Any], *, active: bool) -> Document:
    """Change a document. One that becomes active, or whose text changes, is processed again."""
    activated_at = document.activated_at if active else None
    if active and (activated_at is None or changes):
        activated_at = call.now
    return call.store.save(replace(document, **changes, updated_at=call.now, activated_at=activated_at))
