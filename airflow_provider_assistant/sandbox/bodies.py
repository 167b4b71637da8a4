"""Models of the request bodies."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, StringConstraints

_FILLED = r"\S"
Text = Annotated[str, StringConstraints(min_length=1, pattern=_FILLED)]
Short = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=_FILLED)]
# The format of an HTML e-mail field, which is stricter than the standard and common on web sites.
_EMAIL = r"^[A-Za-z0-9.!#$%&'*+/=?^_{|}~-]+@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+$"
Email = Annotated[str, StringConstraints(pattern=_EMAIL)]
Language = Annotated[str, StringConstraints(pattern=r"^[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*$")]
SettableStatus = Literal["active", "draft"]


class TextDocument(BaseModel):
    """A text to load."""

    title: Text
    content: Text
    category: Short | None = None


class QaDocument(BaseModel):
    """A question and its answer to load."""

    title: Text
    question: Text
    answer: Text
    category: Short | None = None


class DocumentChange(BaseModel):
    """The fields of a document to change; others keep their values."""

    title: Text = Field(default_factory=str)
    content: Text = Field(default_factory=str)
    question: Text = Field(default_factory=str, description="Only of Q&A documents.")
    answer: Text = Field(default_factory=str, description="Of Q&A documents, instead of content.")
    category: Short | None = None
    status: SettableStatus = "active"


class DocumentIds(BaseModel):
    """The documents of a bulk request."""

    document_ids: Annotated[list[Short], Field(min_length=1)]


class StatusChange(DocumentIds):
    """Documents to activate or deactivate."""

    status: SettableStatus


class ChatMessage(BaseModel):
    """A message to the assistant."""

    session_id: Short
    message: Text
    email: Email | None = None
    response_language: Language | None = None


class Feedback(BaseModel):
    """A rating of a chat request."""

    session_id: Short
    request_id: Short
    feedback: Short


class SessionToClose(BaseModel):
    """The conversation to end."""

    session_id: Short


def json_body(model: type[BaseModel]) -> dict[str, Any]:
    """Return the OpenAPI request body for a model."""
    content = {"application/json": {"schema": model.model_json_schema()}}
    return {"requestBody": {"required": True, "content": content}}


_FILE_HEADER = {
    "schema": {"type": "string"},
    "example": 'form-data; name="file"; filename="document.txt"',
}
_FILE_PART = {
    "contentType": "text/plain, text/markdown, text/html, text/csv, application/json",
    "headers": {"Content-Disposition": _FILE_HEADER},
}
_FILE_FORM = {
    "type": "object",
    "properties": {"file": {"type": "string", "format": "binary"}},
    "required": ["file"],
}
_FILE_CONTENT = {"schema": _FILE_FORM, "encoding": {"file": _FILE_PART}}
_FILE_REQUEST = {"required": True, "content": {"multipart/form-data": _FILE_CONTENT}}
FILE_BODY: dict[str, Any] = {"requestBody": _FILE_REQUEST}
