"""The hook: one method per route of the Assistant API, configured by an Airflow connection."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar
from urllib.parse import urlsplit

from airflow.providers.common.compat.sdk import AirflowException, BaseHook

from airflow_provider_assistant.api import document_routes, endpoints
from airflow_provider_assistant.api.call import Call
from airflow_provider_assistant.api.document_routes import Change, DocumentRoutes
from airflow_provider_assistant.api.document_state import needs_attention
from airflow_provider_assistant.api.errors import detail_of
from airflow_provider_assistant.api.payloads import ChatMessage, Feedback, QADocument, SessionClose, TextDocument
from airflow_provider_assistant.api.payloads import checked as body
from airflow_provider_assistant.api.ratings import RatingReply, check_rating
from airflow_provider_assistant.api.replies import ApiReply, ChatAnswer, ChatRequest, CreatedDocument, SubmittedChat
from airflow_provider_assistant.exceptions import AssistantError, AssistantInputError
from airflow_provider_assistant.hooks import extra
from airflow_provider_assistant.ledger.scopes import Site
from airflow_provider_assistant.parameters import checked, choice, text
from airflow_provider_assistant.storage.uploads import FileSource, as_upload
from airflow_provider_assistant.texts import escaped

if TYPE_CHECKING:
    from airflow_provider_assistant.api.site_documents import SiteDocument
    from airflow_provider_assistant.client.client import AssistantClient
    from airflow_provider_assistant.client.settings import ClientSettings
    from airflow_provider_assistant.hooks.connection import Settings

OnAmbiguous: TypeAlias = Literal["retry", "fail"]
T = TypeVar("T")

# The statuses that documents can be set to, and the change that does it.
CHANGE_BY_STATUS: dict[str, Change] = {"active": "activate", "inactive": "deactivate"}


class AssistantHook(BaseHook):
    """
    Call the Assistant API through an Airflow connection of type ``assistant``.

    Each method sends one request and retries it within the limits of the connection; its errors are the subclasses of
    :class:`~airflow_provider_assistant.exceptions.AssistantError`. Each reply keeps the JSON as received in ``raw``.
    ``site_id`` and ``tenant_id`` of a method override those of the hook, and these override those of the connection.

    Under asyncio, send the same calls with the ``asend`` of :meth:`async_client`.

    :param assistant_conn_id: Id of the Airflow connection. Default: ``assistant_default``.
    :param tenant_id: The tenant. Default: that of the connection.
    :param site_id: The site. Default: that of the connection.
    """

    conn_name_attr = "assistant_conn_id"
    default_conn_name = "assistant_default"
    conn_type = "assistant"
    hook_name = "Assistant"

    def __init__(
        self,
        assistant_conn_id: str = default_conn_name,
        *,
        tenant_id: str | None = None,
        site_id: str | None = None,
    ) -> None:
        super().__init__()
        self.assistant_conn_id = assistant_conn_id
        self.tenant_id = tenant_id
        self.site_id = site_id

    @staticmethod
    def get_connection_form_widgets() -> dict[str, Any]:
        """Return the extra fields of the connection form; only Airflow 3.1 calls this, others read provider_info."""
        return extra.form_widgets()

    @staticmethod
    def get_ui_field_behaviour() -> dict[str, Any]:
        """Return which standard fields of the connection form are hidden or renamed; only Airflow 3.1 calls this."""
        return {name.replace("-", "_"): value for name, value in extra.STANDARD_FIELDS.items()}

    @cached_property
    def settings(self) -> Settings:
        """Settings of the connection, read once per hook; :meth:`load_settings_async` reads them again."""
        return self._read_settings()

    @cached_property
    def client(self) -> AssistantClient:
        """Client that the synchronous methods send with."""
        return _client(self.settings)

    def get_conn(self) -> AssistantClient:
        """Return :attr:`client`; this is Airflow's common hook interface."""
        return self.client

    def _read_settings(self) -> Settings:
        # A DAG file imports this module, and reads no connection.
        from airflow_provider_assistant.hooks.connection import Settings

        return Settings.of(self.get_connection(self.assistant_conn_id))

    async def load_settings_async(self) -> Settings:
        """Read the connection again, without blocking the event loop; :attr:`settings` is updated as well."""
        from asgiref.sync import sync_to_async

        # Before Airflow 3.3.2, `aget_connection` also calls the supervisor synchronously to mask secrets. Airflow 3.1's
        # triggerer answers synchronous calls only from asgiref's thread.
        self.settings = await sync_to_async(self._read_settings)()
        return self.settings

    @contextlib.asynccontextmanager
    async def async_client(self) -> AsyncIterator[AssistantClient]:
        """
        Open an asyncio client for an ``async with`` block, with the settings that the connection has now.

        Many coroutines may share one, see :func:`airflow_provider_assistant.hooks.shared_client.shared_client`.
        """
        async with _client(await self.load_settings_async()) as client:
            yield client

    def client_settings(self, max_concurrency: int | None = None) -> ClientSettings:
        """Return the settings of a client for many requests; None leaves the number in flight to the connection."""
        settings = self.settings.client
        return settings if max_concurrency is None else replace(settings, max_concurrency=max_concurrency)

    def resolve_tenant_id(self, tenant_id: str | None = None) -> str:
        """Return the tenant to use: the parameter, else the hook's, else the connection's; none is an error."""
        return self._required("tenant_id", tenant_id, self.tenant_id, self.settings.tenant_id)

    def resolve_site_id(self, site_id: str | None = None) -> str:
        """Return the site to use: the parameter, else the hook's, else the connection's; none is an error."""
        return self._required("site_id", site_id, self.site_id, self.settings.site_id)

    def _required(self, field: str, *choices: str | None) -> str:
        """Return the first id that is given. An empty one is an error, and does not mean the next."""
        for value in choices:
            if value is not None:
                # A pasted id, or one that a template read from a file, may end in white space.
                given_id: str = checked(field, value, text)
                return given_id.strip()
        raise AssistantInputError(
            f"no {field}",
            todo=f"Give it to the operator or hook, or set it in connection {self.assistant_conn_id!r}: in its "
            "extra, which is below Extra Fields in the form.",
            field=field,
        )

    def known_tenant_id(self) -> str | None:
        """Return the hook's tenant, else the connection's; None if neither is set."""
        is_known = self.tenant_id is not None or self.settings.tenant_id is not None
        return self.resolve_tenant_id() if is_known else None

    def site(self, site_id: str | None = None) -> Site:
        """Return the site as the ledger and the datasets identify it: by service and id."""
        site_id = self.resolve_site_id(site_id)
        url = f"{self.settings.client.base_url}/m2m/sites/{site_id}"
        return Site(self.settings.service, site_id, self.known_tenant_id(), url)

    def location(self) -> str:
        """Return site, host and connection, or only the connection if it cannot be read, as the end of a sentence."""
        try:
            host = urlsplit(self.settings.client.base_url).netloc
            site_id = self.settings.site_id if self.site_id is None else self.site_id
        except AirflowException:
            return f"connection {self.assistant_conn_id!r}"
        site = f"site {site_id!r} at " if site_id else ""
        return f"{site}{host} (connection {self.assistant_conn_id!r})"

    def test_connection(self) -> tuple[bool, str]:
        """Read the limits of the tenant, then the statistics of the site; Airflow's Test button calls this."""
        step = "The connection cannot be used"
        try:
            tenant_id = self.resolve_tenant_id()
            step = f"The limits of tenant {tenant_id!r} cannot be read"
            limits = self.get_limits().raw
            fields = detail_of(", ".join(sorted(limits))) if isinstance(limits, Mapping) else "nothing"
            result = f"Connected to {self.settings.client.base_url}: limits of tenant {tenant_id!r} show {fields}"
            if self.site_id is None and self.settings.site_id is None:
                return True, f"{result}; the connection names no site"
            site_id = self.resolve_site_id()
            step = f"The limits can be read, but not the statistics of site {site_id!r} (extra field site_id)"
            self.get_statistics()
        except AssistantError as error:
            # Airflow's Test button gives the connection a random id. The user knows which connection is tested.
            message = str(error).replace(f"connection {self.assistant_conn_id!r}", "the connection")
            return False, f"{step}: {message}"
        return True, f"{result}; site {site_id!r} was found"

    def send(self, call: Call[T], on_ambiguous: OnAmbiguous | None = None) -> T:
        """
        Send a call that was built with :mod:`airflow_provider_assistant.api.endpoints`, and return its reply.

        :param on_ambiguous: What to do if the call failed and may have taken effect nevertheless. ``retry`` sends it
            again as often as the connection's ``retries`` allow, except for a ``POST …/chat`` that timed out; ``fail``
            never does.
        """
        return self.client.send(call, retry_ambiguous=None if on_ambiguous is None else on_ambiguous == "retry")

    def get_limits(self, *, tenant_id: str | None = None) -> ApiReply:
        """Read the tenant's limits (``GET …/tenants/{tenant_id}/limits``)."""
        return self.send(endpoints.get_limits(self.resolve_tenant_id(tenant_id)))

    def get_statistics(self, *, site_id: str | None = None) -> ApiReply:
        """Read the site's statistics (``GET …/statistics``)."""
        return self.send(endpoints.get_statistics(self.resolve_site_id(site_id)))

    def read(self, what: str, params: Mapping[str, str] | None = None) -> ApiReply:
        """Read ``limits``, ``statistics``, or a path as :meth:`call` takes it; ``params`` are not encoded."""
        if what == "limits":
            call = endpoints.get_limits(self.resolve_tenant_id())
        elif what == "statistics":
            call = endpoints.get_statistics(self.resolve_site_id())
        else:
            return self.call("GET", endpoints.with_query(what, params))
        return self.send(replace(call, path=endpoints.with_query(call.path, params)))

    def call(self, method: str, path: str, json: Mapping[str, Any] | None = None) -> ApiReply:
        """
        Send a request to a route that no other method covers. No log shows an e-mail address in its path.

        :param path: Path below the base URL, already percent-encoded, such as ``/m2m/tenants/acme-inc/usage``.
        """
        return self.send(endpoints.other(method, path, json))

    def upload_document(
        self,
        file: FileSource,
        filename: str | None = None,
        content_type: str | None = None,
        *,
        site_id: str | None = None,
        on_ambiguous: OnAmbiguous = "retry",
    ) -> CreatedDocument:
        """
        Create a document from a file (``POST …/documents``); the file is streamed, not read into memory.

        :param file: Local path, object storage URL, ObjectStoragePath, or open binary file.
        :param filename: File name to send. Default: the file's own name.
        :param content_type: MIME type to send. Default: guessed from the file name.
        """
        upload = as_upload(file, filename, content_type)
        return self._create(endpoints.upload_document(self.resolve_site_id(site_id), upload), on_ambiguous)

    def create_text_document(
        self,
        title: str | None,
        content: str,
        category: str | None = None,
        *,
        site_id: str | None = None,
        on_ambiguous: OnAmbiguous = "retry",
    ) -> CreatedDocument:
        """Create a document from text (``POST …/documents/text``); a title or category of None is not sent."""
        document = body(TextDocument, {"title": title, "content": content, "category": category})
        return self._create(endpoints.create_text_document(self.resolve_site_id(site_id), document), on_ambiguous)

    def create_qa_document(
        self,
        title: str | None,
        question: str,
        answer: str,
        category: str | None = None,
        *,
        site_id: str | None = None,
        on_ambiguous: OnAmbiguous = "retry",
    ) -> CreatedDocument:
        """Create a question-and-answer document (``POST …/documents/qa``); a title or category of None is not sent."""
        document = body(QADocument, {"title": title, "question": question, "answer": answer, "category": category})
        return self._create(endpoints.create_qa_document(self.resolve_site_id(site_id), document), on_ambiguous)

    def _create(self, call: Call[CreatedDocument], on_ambiguous: OnAmbiguous) -> CreatedDocument:
        """Create a document, and log a warning if the service does not use it."""
        created = document_routes.described(self.send(call, on_ambiguous), self.settings.documents)
        if created.existed:
            self.log.info("An earlier attempt had created the document of this call: %s.", call)
        reason = needs_attention(created.status, created.words)
        if reason:
            self.log.warning("Document %s of %s: %s.", escaped(str(created.document_id)), call.subject, reason)
        return created

    def document_routes(self) -> DocumentRoutes:
        """Return the routes that list, change and delete documents; an error if the connection has none."""
        routes = self.settings.documents
        if routes is None:
            raise AssistantInputError(
                f"connection {self.assistant_conn_id!r} does not allow to list, change or delete documents",
                todo="Set manage_documents in its extra to true, or to the routes of the service; "
                "`airflow assistant documents check` tests them.",
                field="manage_documents",
            )
        return routes

    def list_documents(self, *, site_id: str | None = None) -> Iterator[SiteDocument]:
        """
        Yield the documents of the site, page by page, in the order of the service.

        Needs ``manage_documents``. A document that is created or deleted meanwhile may be repeated or left out.
        """
        from airflow_provider_assistant.api.document_pages import DocumentPages

        pages = DocumentPages(self.resolve_site_id(site_id), self.document_routes())
        while pages.call is not None:
            try:
                page = self.send(pages.call)
            except AssistantError as error:
                pages.failed(error)
            else:
                yield from pages.take(page)

    def set_document_status(
        self, document_ids: Sequence[str], status: Literal["active", "inactive"], *, site_id: str | None = None
    ) -> list[ApiReply]:
        """
        Activate or deactivate documents, in requests of bounded size, and return the reply to each.

        Needs ``manage_documents``. If a request fails, the documents of earlier ones are changed. Another spelling of
        ``status`` is an error.
        """
        change = CHANGE_BY_STATUS[checked("status", status, choice(*CHANGE_BY_STATUS))]
        return self._change_documents(change, document_ids, site_id)

    def delete_documents(self, document_ids: Sequence[str], *, site_id: str | None = None) -> list[ApiReply]:
        """Delete documents in the same way, and return the reply to each request."""
        return self._change_documents("delete", document_ids, site_id)

    def _change_documents(self, change: Change, document_ids: Sequence[str], site_id: str | None) -> list[ApiReply]:
        routes, site = self.document_routes(), self.resolve_site_id(site_id)
        groups = document_routes.batches(document_ids, document_routes.route_of(routes, change).batch_size)
        return [self.send(document_routes.change_documents(site, routes, change, ids)) for ids in groups]

    def chat(
        self,
        session_id: str,
        message: str,
        email: str | None = None,
        response_language: str | None = None,
        *,
        site_id: str | None = None,
        on_ambiguous: OnAmbiguous = "retry",
    ) -> ChatAnswer:
        """
        Ask the assistant and return its answer from the same round trip (``POST …/chat``).

        :param session_id: Id of the session; ``session_id`` of :mod:`.api.sessions` builds stable ids.
        :param email: E-mail address of the end user. Default: not sent.
        :param response_language: Language code of the answer, such as ``en``. Default: not sent.
        :param on_ambiguous: What to do if the service may have received the message and no answer came, see
            :meth:`send`.
        :return: The reply; ``text`` is the answer, ``request_id`` identifies it for :meth:`send_feedback`.
        """
        chat = _message(session_id, message, email, response_language)
        return self.send(endpoints.chat(self.resolve_site_id(site_id), chat), on_ambiguous)

    def submit_chat(
        self,
        session_id: str,
        message: str,
        email: str | None = None,
        response_language: str | None = None,
        *,
        site_id: str | None = None,
        on_ambiguous: OnAmbiguous = "retry",
    ) -> SubmittedChat:
        """Submit a chat request (``POST …/chat/async``), whose answer :meth:`get_chat_request` reads."""
        chat = _message(session_id, message, email, response_language)
        return self.send(endpoints.submit_chat(self.resolve_site_id(site_id), chat), on_ambiguous)

    def get_chat_request(self, request_id: str, *, site_id: str | None = None) -> ChatRequest:
        """Read an async chat request, which is ``pending``, ``complete`` (with its ``text``) or ``failed``."""
        words = self.settings.client.words
        return self.send(endpoints.get_chat_request(self.resolve_site_id(site_id), request_id, words))

    def send_feedback(
        self, session_id: str, request_id: str, feedback: str, *, site_id: str | None = None
    ) -> RatingReply:
        """Rate an answer ``good`` or ``bad`` (``POST …/chat/feedback``)."""
        rating = body(Feedback, {"session_id": session_id, "request_id": request_id, "feedback": feedback})
        check_rating(rating.feedback)
        return self.send(endpoints.send_feedback(self.resolve_site_id(site_id), rating))

    def close_session(self, session_id: str, *, site_id: str | None = None) -> ApiReply:
        """Close a session (``POST …/chat/session/close``). A session that is closed already is a success."""
        session = body(SessionClose, {"session_id": session_id})
        return self.send(endpoints.close_session(self.resolve_site_id(site_id), session))


def _client(settings: Settings) -> AssistantClient:
    from airflow_provider_assistant.client.client import AssistantClient

    return AssistantClient(settings.client)


def _message(session_id: str, message: str, email: str | None, response_language: str | None) -> ChatMessage:
    fields = {"session_id": session_id, "message": message, "email": email, "response_language": response_language}
    return body(ChatMessage, fields)
