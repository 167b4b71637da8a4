"""Models of the response bodies.

The specification leaves most of them open. The models here forbid additional fields, so that
schema-driven tests detect a response that differs from its documentation.
"""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

Kind = Literal["file", "text", "qa"]
# Only active documents are used for answers.
DocumentStatus = Literal["draft", "processing", "active"]


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
_ERROR = "A text without the setting request_times."
_FIRST_RATING = "Only of the first rating, with the setting documented."


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
    error: RequestError | str | None = Field(default=None, description=_ERROR)


class FeedbackReply(_Reply):
    """A rating that was recorded."""

    status: Literal["recorded", "ok"]
    request_id: str
    session_id: str = Field(default="", description=_NOT_DOCUMENTED)
    feedback: str
    created_at: str = Field(default="", description=_NOT_DOCUMENTED)
    feedback_submitted_at: str = Field(default="", description=_FIRST_RATING)


class ClosedReply(_Reply):
    """A conversation that was closed."""

    status: Literal["ok"]


class Limit(_Reply):
    """One limit."""

    limit: int | float | None
    used: int | None = Field(default=None, description="Absent without usage_in_limits.")
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


class TenantReply(_Reply):
    """A workspace."""

    tenant_id: str
    plan: str
    sites: list[str]


class Usage(_Reply):
    """What a tenant has and uses."""

    documents: int
    active_documents: int
    storage_bytes: int
    messages: int = Field(description="In this calendar month (UTC).")


class UsageReply(_Reply):
    """The usage of a tenant."""

    tenant_id: str
    period: str
    usage: Usage


class DailyUsage(_Reply):
    """The usage of a tenant on one day (UTC)."""

    date: str
    documents: int = Field(description="At the end of the day, of those that still exist.")
    messages: int
    sessions: int = Field(description="Opened on this day.")


class UsageHistoryReply(_Reply):
    """The usage of a tenant by day, the last day last."""

    tenant_id: str
    days: list[DailyUsage]


class TenantDocuments(_Reply):
    """The documents of a tenant."""

    total: int
    bytes: int


class ChatCounts(_Reply):
    """The chat requests of a tenant or a user."""

    total: int
    answered: int
    unanswered: int
    failed: int
    pending: int


class TenantSessions(_Reply):
    """The conversations of a tenant."""

    open: int
    closed: int


class SiteTotals(_Reply):
    """The totals of a site."""

    site_id: str
    documents: int
    chats: int


class TenantStatisticsReply(_Reply):
    """The statistics of a tenant."""

    tenant_id: str
    generated_at: str
    documents: TenantDocuments
    chats: ChatCounts
    sessions: TenantSessions
    feedback: FeedbackStatistics
    sites: list[SiteTotals]


class SiteReply(_Reply):
    """A website or chatbot."""

    site_id: str
    tenant_id: str
    documents: int
    active_documents: int
    open_sessions: int


class SessionReply(_Reply):
    """A conversation."""

    session_id: str
    status: Literal["open", "closed"]
    email: str | None
    messages: int
    opened_at: str
    closed_at: str | None


class SessionsReply(_PagedReply):
    """Conversations of a site, or a page of them."""

    sessions: list[SessionReply]


class UserStatisticsReply(_Reply):
    """The statistics of a user of a site."""

    site_id: str
    email: str
    sessions: int
    chats: ChatCounts
    first_message_at: str
    last_message_at: str
    feedback: FeedbackStatistics
