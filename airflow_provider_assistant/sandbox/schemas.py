"""Models of the request and response bodies.

The specification leaves most response bodies open. The response models here forbid additional fields, so that
schema-driven tests detect a response that differs from its documentation.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

_FILLED = r"\S"
Text = Annotated[str, StringConstraints(min_length=1, pattern=_FILLED)]
Short = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=_FILLED)]
# The format of an HTML e-mail field, which is stricter than the standard and common on web sites.
_EMAIL = r"^[A-Za-z0-9.!#$%&'*+/=?^_{|}~-]+@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+$"
Email = Annotated[str, StringConstraints(pattern=_EMAIL)]
Language = Annotated[str, StringConstraints(pattern=r"^[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*$")]
Kind = Literal["file", "text", "qa"]
# Only active documents are used for answers.
DocumentStatus = Literal["draft", "processing", "active"]
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


class _Reply(BaseModel):
    model_config = ConfigDict(extra="forbid")


class RequestError(_Reply):
    """Why a request failed."""

    code: str
    message: str


class ErrorDetail(RequestError):
    """Why a request was refused."""

    field: str = Field(default="", description="Only where one field is at fault.")
    document_id: str = Field(default="", description="Only where the document exists already.")


class ErrorReply(_Reply):
    """A refusal."""

    error: ErrorDetail | str = Field(description="A text with the setting error_format.")


class DocumentReply(_Reply):
    """A document that was created."""

    id: str
    site_id: str
    kind: Kind
    title: str
    category: str | None
    bytes: int
    status: DocumentStatus
    active: bool
    created_at: str
    updated_at: str


class ListedDocument(DocumentReply):
    """A document of a list."""

    content: str = Field(default="", description="Only with the setting list_content.")
    question: str = Field(default="", description="Only of Q&A documents, instead of content.")
    answer: str = Field(default="", description="Only of Q&A documents, instead of content.")


class _PagedReply(_Reply):
    """Fields of a page. Which of them there are depends on the setting ``paging``."""

    page: int = 1
    page_size: int = 0
    total: int = 0
    total_pages: int = 0
    offset: int = 0
    limit: int = 0
    next_cursor: str | None = None
    next: str | None = None


class DocumentsReply(_PagedReply):
    """Documents of a site, or a page of them."""

    documents: list[ListedDocument]


class BulkReply(_Reply):
    """What a bulk request changed."""

    count: int
    document_ids: list[str] = Field(description="The documents that were changed or deleted.")
    not_found: list[str]


class Source(_Reply):
    """A document an answer rests on."""

    document_id: str
    title: str
    score: float


# What the replies of the documented service leave out.
_NOT_DOCUMENTED = "Absent with the setting documented."
_TIME = "Absent without the setting request_times."
_CONFIDENCE = "Only with the setting confidence."


class Result(_Reply):
    """The result of a complete request."""

    answer: str
    answered: bool = Field(default=False, description=_NOT_DOCUMENTED)
    sources: list[Source] = Field(default=[], description=_NOT_DOCUMENTED)
    response_language: str = Field(default="", description=_NOT_DOCUMENTED)
    confidence_score: float = Field(default=0.0, description=_CONFIDENCE)
    confidence_level: Literal["low"] = Field(default="low", description="Absent if not low.")


class _Request(_Reply):
    request_id: str
    session_id: str
    created_at: str = Field(default="", description=_TIME)


class ChatReply(Result, _Request):
    """An answer."""


class AsyncReply(_Request):
    """A request that was accepted."""

    status: str


class StatusReply(AsyncReply):
    """How far a request is."""

    started_at: str | None = Field(default=None, description=_TIME)
    completed_at: str | None = Field(default=None, description=_TIME)
    result: Result | None = Field(default=None, description=_TIME)
    answer: str = Field(default="", description="Instead of result, without request_times.")
    error: RequestError | str | None = Field(default=None, description="A text without the setting request_times.")


class FeedbackReply(_Reply):
    """A rating that was recorded."""

    status: Literal["recorded", "ok"]
    request_id: str
    session_id: str = Field(default="", description=_NOT_DOCUMENTED)
    feedback: str
    created_at: str = Field(default="", description=_NOT_DOCUMENTED)
    feedback_submitted_at: str = Field(default="", description="With the setting documented, only of the first rating.")


class ClosedReply(_Reply):
    """A conversation that was closed."""

    status: Literal["ok"]


class Limit(_Reply):
    """One limit."""

    limit: int | float | None
    used: int | None
    resets_at: str | None


class Capabilities(_Reply):
    """What the key may do."""

    write: bool
    async_chat: bool


class LimitsReply(_Reply):
    """The limits of a tenant."""

    tenant_id: str
    plan: str
    sites: list[str]
    capabilities: Capabilities
    limits: dict[str, Limit]


class CategoryCount(_Reply):
    """How many documents a category has."""

    category: str
    documents: int


class DocumentStatistics(_Reply):
    """The documents of a site."""

    total: int
    by_kind: dict[str, int]
    bytes: int
    last_added_at: str | None
    top_categories: list[CategoryCount]


class Latency(_Reply):
    """Percentiles, in milliseconds."""

    p50: float
    p95: float
    p99: float


class ChatStatistics(_Reply):
    """The chat requests of a site, of one mode."""

    total: int
    answered: int
    unanswered: int
    failed: int
    pending: int
    answer_rate: float | None
    latency_ms: Latency | None


class SessionStatistics(_Reply):
    """The conversations of a site."""

    open: int
    closed: int
    mean_messages: float | None


class FeedbackStatistics(_Reply):
    """The ratings of a site."""

    total: int
    has_feedback: bool
    by_rating: dict[str, int]


class DocumentTotal(_Reply):
    """How many documents a site had at the end of a day."""

    total: int


class DailyStatistics(_Reply):
    """The statistics of one day (UTC) of a site."""

    generated: bool = Field(description="True for a day before the site stored anything.")
    documents: DocumentTotal
    chats: dict[str, ChatStatistics]
    feedback: FeedbackStatistics


class StatisticsReply(_Reply):
    """The statistics of a site."""

    site_id: str
    generated_at: str
    documents: DocumentStatistics
    chats: dict[str, ChatStatistics]
    sessions: SessionStatistics
    feedback: FeedbackStatistics
    daily: dict[str, DailyStatistics] = Field(
        default={}, description="The last days by date, today last. Only with the setting history."
    )


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
