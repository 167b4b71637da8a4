"""The hook: an Airflow connection, the ten endpoints, one line each."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping
from functools import cached_property
from typing import Any, TypeVar

from airflow.providers.common.compat.sdk import BaseHook

from airflow_provider_assistant.api import endpoints
from airflow_provider_assistant.api.ambiguity import OnAmbiguous
from airflow_provider_assistant.api.call import Call, Exchange
from airflow_provider_assistant.api.errors import shortened
from airflow_provider_assistant.api.models import (
    ApiReply,
    ChatAnswer,
    ChatMessage,
    ChatRequest,
    CreatedDocument,
    Feedback,
    QADocument,
    SessionClose,
    SubmittedChat,
    TextDocument,
    checked,
)
from airflow_provider_assistant.client import AssistantClient
from airflow_provider_assistant.exceptions import (
    AssistantAmbiguousError,
    AssistantError,
    AssistantInputError,
    AssistantNotFoundError,
    AssistantPermissionError,
)
from airflow_provider_assistant.hooks.connection import Settings, extra_of, settings_of
from airflow_provider_assistant.hooks.files import FileSource, as_upload

T = TypeVar("T")


class AssistantHook(BaseHook):
    """
    The Assistant M2M API behind an Airflow connection of type ``assistant``.

    Every method sends one request, with the connection's bounded retries, and returns a reply whose ``raw``
    is the JSON as received. All of them raise
    :class:`~airflow_provider_assistant.exceptions.AssistantInputError` for input that cannot be sent, before
    anything is sent, and otherwise what :func:`airflow_provider_assistant.api.flow.perform` lists.

    Under asyncio the same calls go through :meth:`async_client`::

        async with hook.async_client() as client:
            limits = await client.asend(endpoints.get_limits(hook.tenant()))

    :param assistant_conn_id: The Airflow connection.
    :param tenant_id: Tenant to use instead of the connection's.
    :param site_id: Site to use instead of the connection's.
    """

    conn_name_attr = "assistant_conn_id"
    default_conn_name = "assistant_default"
    conn_type = "assistant"
    hook_name = "Assistant"

    @staticmethod
    def get_connection_form_widgets() -> dict[str, Any]:
        """Return the connection form's fields to Airflow 3.1."""
        from airflow_provider_assistant.hooks import form

        return form.widgets()

    @staticmethod
    def get_ui_field_behaviour() -> dict[str, Any]:
        """Return what becomes of Airflow's own fields in the form to Airflow 3.1."""
        from airflow_provider_assistant.hooks import form

        return form.behaviour()

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

    @cached_property
    def settings(self) -> Settings:
        """The connection's settings."""
        return self._read_settings()

    @cached_property
    def client(self) -> AssistantClient:
        """The client of the synchronous methods."""
        return AssistantClient(self.settings.client)

    def get_conn(self) -> AssistantClient:
        """Return the client, as Airflow's hooks do."""
        return self.client

    async def look_up(self) -> Settings:
        """
        Read the connection again without blocking the event loop.

        :return: Its current settings, which are also those of :attr:`settings`.
        """
        from asgiref.sync import sync_to_async

        # In a thread, because before Airflow 3.3.2 `aget_connection` also calls the supervisor synchronously, to mask
        # secrets. The helper for that came with common-compat 1.21, which is newer than what Airflow's constraints pin.
        # asgiref's thread, because Airflow 3.1's triggerer answers synchronous calls only from there.
        self.settings = await sync_to_async(self._read_settings)()
        return self.settings

    def _read_settings(self) -> Settings:
        connection = self.get_connection(self.assistant_conn_id)
        return settings_of(connection, extra_of(connection))

    @contextlib.asynccontextmanager
    async def async_client(self) -> AsyncIterator[AssistantClient]:
        """
        Open a client for asyncio; looking up the connection does not block the event loop.

        Inside the block :meth:`tenant` and :meth:`site` know the connection's. Where many ask at the same time,
        :func:`airflow_provider_assistant.hooks.shared.shared_client` lets them share one.
        """
        settings = await self.look_up()
        async with AssistantClient(settings.client) as client:
            yield client

    def tenant(self, tenant_id: str | None = None) -> str:
        """
        Return the tenant to use: the given one, the hook's, or the connection's.

        :raises AssistantInputError: None of them is set.
        """
        return self._scope("tenant_id", tenant_id or self.tenant_id or self.settings.tenant_id)

    def site(self, site_id: str | None = None) -> str:
        """
        Return the site to use: the given one, the hook's, or the connection's.

        :raises AssistantInputError: None of them is set.
        """
        return self._scope("site_id", site_id or self.site_id or self.settings.site_id)

    def target(self, site_id: str | None = None) -> str:
        """Return the URL of the site: what tells one site from another of the same name elsewhere."""
        return f"{self.settings.client.base_url}/m2m/sites/{self.site(site_id)}"

    def _scope(self, field: str, value: str | None) -> str:
        # Pasted, or read from a file by a template.
        value = (value or "").strip()
        if not value:
            raise AssistantInputError(
                f"no {field}: give it to the operator or hook, or set it in connection {self.assistant_conn_id!r}",
                field=field,
            )
        return value

    def send(self, call: Call[T], on_ambiguous: OnAmbiguous | None = None) -> T:
        """
        Send a call of :mod:`airflow_provider_assistant.api.endpoints` and return its reply.

        :param call: The call.
        :param on_ambiguous: As of :meth:`airflow_provider_assistant.client.AssistantClient.send`.
        """
        return self.client.send(call, on_ambiguous)

    def get_limits(self, *, tenant_id: str | None = None) -> ApiReply:
        """Endpoint 1: read the tenant's limits."""
        return self.send(endpoints.get_limits(self.tenant(tenant_id)))

    def upload_document(
        self,
        file: FileSource,
        filename: str | None = None,
        content_type: str | None = None,
        *,
        site_id: str | None = None,
    ) -> CreatedDocument:
        """
        Endpoint 2: create a document from a file, which is streamed and never read whole.

        :param file: Local path, object storage URL, ObjectStoragePath, or open binary file.
        :param filename: Name the service sees; by default the file's own.
        :param content_type: MIME type; by default guessed from the name.
        :param site_id: Site to use instead of the hook's.
        """
        return self.send(endpoints.upload_document(self.site(site_id), as_upload(file, filename, content_type)))

    def create_text_document(
        self, title: str | None, content: str, category: str | None = None, *, site_id: str | None = None
    ) -> CreatedDocument:
        """
        Create a document from text (``POST …/documents/text``).

        :param title: Its title; None to send none.
        :param content: The text.
        :param category: Its category; None to send none.
        :param site_id: Site to use instead of the hook's.
        """
        document = checked(TextDocument, {"title": title, "content": content, "category": category})
        return self.send(endpoints.create_text_document(self.site(site_id), document))

    def create_qa_document(
        self,
        title: str | None,
        question: str,
        answer: str,
        category: str | None = None,
        *,
        site_id: str | None = None,
    ) -> CreatedDocument:
        """
        Create a question-and-answer document (``POST …/documents/qa``).

        :param title: Its title; None to send none.
        :param question: The question.
        :param answer: The answer.
        :param category: Its category; None to send none.
        :param site_id: Site to use instead of the hook's.
        """
        fields = {"title": title, "question": question, "answer": answer, "category": category}
        return self.send(endpoints.create_qa_document(self.site(site_id), checked(QADocument, fields)))

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
        Endpoint 5: ask and wait for the answer.

        :param session_id: Conversation; see :func:`airflow_provider_assistant.api.sessions.session_id`.
        :param message: The user's text.
        :param email: E-mail address of the end user.
        :param response_language: Language code of the reply, such as ``en``.
        :param site_id: Site to use instead of the hook's.
        :param on_ambiguous: What to do when the message may have arrived although there is no answer. ``retry`` sends
            it again after a 5xx or a broken connection, as often as the connection's ``retries`` allow, and never
            after a timeout. ``fail`` never sends it again.
        :raises AssistantAmbiguousError: The message may or may not stand in the conversation.
        :raises AssistantAmbiguousErrorForGood: The same, with ``fail``; Airflow does not retry the task.
        """
        chat = _message(session_id, message, email, response_language)
        return self.send(endpoints.chat(self.site(site_id), chat), on_ambiguous)

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
        """
        Endpoint 6: ask without waiting.

        :param session_id: Conversation; see :func:`airflow_provider_assistant.api.sessions.session_id`.
        :param message: The user's text.
        :param email: E-mail address of the end user.
        :param response_language: Language code of the reply, such as ``en``.
        :param site_id: Site to use instead of the hook's.
        :param on_ambiguous: What to do when the chat may have been submitted although there is no usable reply:
            ``retry`` submits it again, as often as the connection's ``retries`` allow; ``fail`` never does.
        :raises AssistantAmbiguousError: The chat may or may not have been submitted.
        :raises AssistantAmbiguousErrorForGood: The same, with ``fail``; Airflow does not retry the task.
        """
        chat = _message(session_id, message, email, response_language)
        return self.send(endpoints.submit_chat(self.site(site_id), chat), on_ambiguous)

    def get_chat_request(self, request_id: str, *, site_id: str | None = None) -> ChatRequest:
        """Endpoint 7: read state and, once complete, answer of an async chat request."""
        words = self.settings.client.words
        return self.send(endpoints.get_chat_request(self.site(site_id), request_id, words))

    def send_feedback(self, session_id: str, request_id: str, feedback: str, *, site_id: str | None = None) -> ApiReply:
        """Endpoint 8: rate an answer; ``feedback`` is a rating word such as ``good``."""
        fields = {"session_id": session_id, "request_id": request_id, "feedback": feedback}
        return self.send(endpoints.send_feedback(self.site(site_id), checked(Feedback, fields)))

    def close_session(self, session_id: str, *, site_id: str | None = None) -> ApiReply:
        """
        Endpoint 9: end a conversation.

        A 404 after an attempt that may have closed it is a success: it is closed.
        """
        session = checked(SessionClose, {"session_id": session_id})
        try:
            return self.send(endpoints.close_session(self.site(site_id), session))
        except AssistantAmbiguousError as error:
            if not isinstance(error.__cause__, AssistantNotFoundError):
                raise
            return ApiReply(None, Exchange(error.__cause__.status, error.attempts, error.attempts - 1))

    def get_statistics(self, *, site_id: str | None = None) -> ApiReply:
        """Endpoint 10: read the site's statistics."""
        return self.send(endpoints.get_statistics(self.site(site_id)))

    def call(self, method: str, path: str, json: Mapping[str, Any] | None = None) -> ApiReply:
        """
        Send a request to an endpoint that the specification mentions but does not show.

        :param method: HTTP method.
        :param path: Path below the base URL, such as ``/m2m/tenants/acme-inc/usage``.
        :param json: JSON body, if any.
        """
        return self.send(endpoints.other(method, path, json))

    def test_connection(self) -> tuple[bool, str]:
        """
        Read the tenant's limits and check the site, for Airflow's Test button.

        The site is checked against the sites that the limits list, or else by reading its statistics.

        :return: Whether the connection works, and a message that says what was seen or what is wrong.
        """
        try:
            tenant_id = self.tenant()
            limits = self.get_limits()
            site = self._checked_site(limits.raw)
        except AssistantError as error:
            return False, str(error)
        fields = shortened(", ".join(sorted(limits.raw))) if isinstance(limits.raw, Mapping) else "nothing"
        return (
            True,
            f"Connected to {self.settings.client.base_url}: limits of tenant {tenant_id!r} show {fields}; {site}",
        )

    def _checked_site(self, limits: Any) -> str:
        """Return a sentence about the connection's site, or raise if the key does not reach it."""
        site_id = self.site_id or self.settings.site_id
        if not site_id:
            return "the connection names no site"
        if sites := _listed_sites(limits):
            if site_id not in sites:
                raise AssistantInputError(
                    f"site {site_id!r} is not among the sites of this API key: {shortened(', '.join(sites))}. "
                    "Check Site (extra field site_id) in the connection",
                    field="site_id",
                )
            return f"site {site_id!r} is one of {len(sites)}"
        try:
            self.get_statistics()
        except AssistantPermissionError:
            return f"site {site_id!r} was not checked: this API key may not read its statistics"
        return f"site {site_id!r} was found"


def _listed_sites(reply: Any, depth: int = 3) -> list[str]:
    """Return the ids of the sites that a reply lists, in an envelope or not; none if it lists no sites."""
    if not isinstance(reply, Mapping) or not depth:
        return []
    for name in ("site_ids", "sites"):
        if isinstance(listed := reply.get(name), list):
            ids = (_first(site, "site_id", "id") if isinstance(site, Mapping) else site for site in listed)
            return [str(site) for site in ids if isinstance(site, str | int)]
    return next((found for part in reply.values() if (found := _listed_sites(part, depth - 1))), [])


def _first(record: Mapping[str, Any], *names: str) -> Any:
    return next((record[name] for name in names if name in record), None)


def _message(session_id: str, message: str, email: str | None, response_language: str | None) -> ChatMessage:
    fields = {
        "session_id": session_id,
        "message": message,
        "email": email,
        "response_language": response_language,
    }
    return checked(ChatMessage, fields)
