"""The hook: one method per route of the Assistant API, configured by an Airflow connection."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from airflow_provider_assistant.api import document_routes, endpoints
from airflow_provider_assistant.api.ambiguity import OnAmbiguous
from airflow_provider_assistant.api.document_pages import DocumentPages
from airflow_provider_assistant.api.errors import detail_of
from airflow_provider_assistant.api.payloads import (
    ChatMessage,
    Feedback,
    QADocument,
    SessionClose,
    TextDocument,
    checked,
)
from airflow_provider_assistant.api.ratings import RatingReply, check_rating
from airflow_provider_assistant.api.replies import ApiReply, ChatAnswer, ChatRequest, CreatedDocument, SubmittedChat
from airflow_provider_assistant.api.site_documents import SiteDocument
from airflow_provider_assistant.exceptions import (
    AssistantError,
    AssistantInputError,
    AssistantPermissionError,
)
from airflow_provider_assistant.hooks.reads import AssistantReadHook
from airflow_provider_assistant.storage.uploads import FileSource, as_upload

# The statuses that documents can be set to, and the change that does it.
CHANGE_BY_STATUS: dict[str, document_routes.Change] = {"active": "activate", "inactive": "deactivate"}


class AssistantHook(AssistantReadHook):
    """
    Call the Assistant API through an Airflow connection of type ``assistant``.

    Each method sends one request and retries it within the limits of the connection. Each reply keeps the JSON as
    received in ``raw``. Every method that sends a request can raise these errors:

    - :class:`~airflow_provider_assistant.exceptions.AssistantInputError`: a parameter or the connection is invalid;
      nothing was sent;
    - :class:`~airflow_provider_assistant.exceptions.AssistantAPIError`: the service answered with an error status; the
      subclass depends on the status;
    - :class:`~airflow_provider_assistant.exceptions.AssistantConnectionError`: no connection, or it broke;
    - :class:`~airflow_provider_assistant.exceptions.AssistantTimeoutError`: no complete answer within the connection's
      ``timeout``;
    - :class:`~airflow_provider_assistant.exceptions.AssistantResponseError`: the status is a success, but the body
      cannot be used;
    - :class:`~airflow_provider_assistant.exceptions.AssistantAmbiguousError`: a ``POST`` failed and may have taken
      effect nevertheless.

    Under asyncio, send the same calls through :meth:`async_client`::

        async with hook.async_client() as client:
            limits = await client.asend(endpoints.get_limits(hook.resolve_tenant_id()))

    :param assistant_conn_id: Id of the Airflow connection. Default: ``assistant_default``.
    :param tenant_id: Tenant that overrides the connection's ``tenant_id``. Default: None, the connection's.
    :param site_id: Site that overrides the connection's ``site_id``. Default: None, the connection's.
    """

    # Airflow 3.1 looks for the form in this class only, not in its base class.
    @staticmethod
    def get_connection_form_widgets() -> dict[str, Any]:
        """Return the extra fields of the connection form, by name; only Airflow 3.1 calls this."""
        from airflow_provider_assistant.hooks import form

        return form.widgets()

    @staticmethod
    def get_ui_field_behaviour() -> dict[str, Any]:
        """Return which standard fields of the connection form are hidden or renamed; only Airflow 3.1 calls this."""
        from airflow_provider_assistant.hooks import form

        return form.behaviour()

    def upload_document(
        self,
        file: FileSource,
        filename: str | None = None,
        content_type: str | None = None,
        *,
        site_id: str | None = None,
    ) -> CreatedDocument:
        """
        Create a document from a file (``POST …/documents``); the file is streamed, not read into memory.

        :param file: Local path, object storage URL, ObjectStoragePath, or open binary file.
        :param filename: File name to send. Default: None, the file's own name.
        :param content_type: MIME type to send. Default: None, guessed from the file name.
        :param site_id: Site of the document. Default: None, the hook's or the connection's.
        :return: The reply; ``document_id`` is the id of the new document, or None if the reply has none.
        :raises AssistantInputError: The file is missing, empty or unreadable, or its name cannot be sent; nothing was
            sent.
        :raises AssistantError: The call failed; see the errors that :class:`AssistantHook` lists.
        """
        upload = as_upload(file, filename, content_type)
        return self._create(endpoints.upload_document(self.resolve_site_id(site_id), upload))

    def create_text_document(
        self, title: str | None, content: str, category: str | None = None, *, site_id: str | None = None
    ) -> CreatedDocument:
        """
        Create a document from text (``POST …/documents/text``).

        :param title: Title of the document; None omits the field.
        :param content: Text of the document.
        :param category: Category of the document. Default: None, which omits the field.
        :param site_id: Site of the document. Default: None, the hook's or the connection's.
        :return: The reply; ``document_id`` is the id of the new document, or None if the reply has none.
        :raises AssistantInputError: A field is empty or not text; nothing was sent.
        :raises AssistantError: The call failed; see the errors that :class:`AssistantHook` lists.
        """
        document = checked(TextDocument, {"title": title, "content": content, "category": category})
        return self._create(endpoints.create_text_document(self.resolve_site_id(site_id), document))

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

        :param title: Title of the document; None omits the field.
        :param question: The question.
        :param answer: The answer.
        :param category: Category of the document. Default: None, which omits the field.
        :param site_id: Site of the document. Default: None, the hook's or the connection's.
        :return: The reply; ``document_id`` is the id of the new document, or None if the reply has none.
        :raises AssistantInputError: A field is empty or not text; nothing was sent.
        :raises AssistantError: The call failed; see the errors that :class:`AssistantHook` lists.
        """
        fields = {"title": title, "question": question, "answer": answer, "category": category}
        document = checked(QADocument, fields)
        return self._create(endpoints.create_qa_document(self.resolve_site_id(site_id), document))

    def list_documents(self, *, site_id: str | None = None) -> Iterator[SiteDocument]:
        """
        Yield the documents of the site, page by page, in the order of the service.

        A document that is created or deleted meanwhile may be repeated or left out. Needs ``manage_documents`` in the
        connection.

        :param site_id: Site to read. Default: None, the hook's or the connection's.
        :return: Iterator over the documents.
        :raises AssistantInputError: The connection does not switch the route on; nothing was sent.
        :raises AssistantResponseError: The list cannot be read to its end.
        :raises AssistantError: The call failed; see the errors that :class:`AssistantHook` lists.
        """
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
        Activate or deactivate documents, in requests of bounded size. Needs ``manage_documents`` in the connection.

        :param document_ids: Ids of the documents.
        :param status: ``active`` or ``inactive``, in exactly this spelling.
        :param site_id: Site of the documents. Default: None, the hook's or the connection's.
        :return: The reply to each request. Whether they contain the documents, their status or nothing, is up to the
            service; :meth:`list_documents` shows the result.
        :raises AssistantInputError: ``status`` is another word, or the connection does not switch the route on; nothing
            was sent.
        :raises AssistantError: A call failed; see the errors that :class:`AssistantHook` lists. The documents of
            earlier requests are changed.
        """
        if status not in CHANGE_BY_STATUS:
            raise AssistantInputError(
                f"status: documents cannot be set to {status!r}",
                todo=f"Use {' or '.join(CHANGE_BY_STATUS)}.",
                field="status",
            )
        return self._change_documents(CHANGE_BY_STATUS[status], document_ids, site_id)

    def delete_documents(self, document_ids: Sequence[str], *, site_id: str | None = None) -> list[ApiReply]:
        """
        Delete documents, in requests of bounded size. Needs ``manage_documents`` in the connection.

        :param document_ids: Ids of the documents.
        :param site_id: Site of the documents. Default: None, the hook's or the connection's.
        :return: The reply to each request.
        :raises AssistantInputError: The connection does not switch the route on; nothing was sent.
        :raises AssistantNotFoundError: The service does not have the route, or does not know a document.
        :raises AssistantError: A call failed; see the errors that :class:`AssistantHook` lists. The documents of
            earlier requests are deleted.
        """
        return self._change_documents("delete", document_ids, site_id)

    def _change_documents(
        self, change: document_routes.Change, document_ids: Sequence[str], site_id: str | None
    ) -> list[ApiReply]:
        routes = self.document_routes()
        site = self.resolve_site_id(site_id)
        replies = []
        for ids in document_routes.batches(document_ids, document_routes.route_of(routes, change).batch_size):
            reply = self.send(document_routes.change_documents(site, routes, change, ids))
            replies.append(reply)
        return replies

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

        :param session_id: Id of the session; :func:`airflow_provider_assistant.api.sessions.session_id` builds stable
            ids.
        :param message: Text of the user's message.
        :param email: E-mail address of the end user. Default: None, which omits the field.
        :param response_language: Language code of the answer, such as ``en``. Default: None, which omits the field.
        :param site_id: Site to ask. Default: None, the hook's or the connection's.
        :param on_ambiguous: What to do if the call failed and the service may have received the message. ``retry``
            (default) sends it again after a 5xx or a broken connection, as often as the connection's ``retries``
            allow, but never after a timeout. ``fail`` never sends it again.
        :return: The reply; ``text`` is the answer, ``request_id`` identifies it for :meth:`send_feedback`.
        :raises AssistantInputError: A field is empty or malformed; nothing was sent.
        :raises AssistantAmbiguousError: The service may have received the message, and no answer came.
        :raises AssistantAmbiguousPermanentError: The same with ``on_ambiguous="fail"``; Airflow does not retry the
            task.
        :raises AssistantError: The call failed; see the errors that :class:`AssistantHook` lists.
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
        """
        Submit a chat request without waiting for its answer (``POST …/chat/async``).

        Read the answer with :meth:`get_chat_request`.

        :param session_id: Id of the session; :func:`airflow_provider_assistant.api.sessions.session_id` builds stable
            ids.
        :param message: Text of the user's message.
        :param email: E-mail address of the end user. Default: None, which omits the field.
        :param response_language: Language code of the answer, such as ``en``. Default: None, which omits the field.
        :param site_id: Site to ask. Default: None, the hook's or the connection's.
        :param on_ambiguous: What to do if the call failed and the service may have accepted the request. ``retry``
            (default) submits it again, as often as the connection's ``retries`` allow. ``fail`` never submits it
            again.
        :return: The reply; ``request_id`` identifies the chat request.
        :raises AssistantInputError: A field is empty or malformed; nothing was sent.
        :raises AssistantAmbiguousError: The chat request may or may not have been accepted.
        :raises AssistantAmbiguousPermanentError: The same with ``on_ambiguous="fail"``; Airflow does not retry the
            task.
        :raises AssistantError: The call failed; see the errors that :class:`AssistantHook` lists.
        """
        chat = _message(session_id, message, email, response_language)
        return self.send(endpoints.submit_chat(self.resolve_site_id(site_id), chat), on_ambiguous)

    def get_chat_request(self, request_id: str, *, site_id: str | None = None) -> ChatRequest:
        """
        Read the status and, once complete, the answer of an async chat request (``GET …/chat/requests/{request_id}``).

        :param request_id: Id of the chat request, as :meth:`submit_chat` returned it.
        :param site_id: Site of the chat request. Default: None, the hook's or the connection's.
        :return: The reply; ``state`` is ``pending``, ``complete`` or ``failed``, ``text`` the answer of a complete
            request, ``error`` the reason of a failed one.
        :raises AssistantNotFoundError: The service does not know the chat request.
        :raises AssistantError: The call failed; see the errors that :class:`AssistantHook` lists.
        """
        words = self.settings.client.words
        return self.send(endpoints.get_chat_request(self.resolve_site_id(site_id), request_id, words))

    def send_feedback(
        self, session_id: str, request_id: str, feedback: str, *, site_id: str | None = None
    ) -> RatingReply:
        """
        Rate an answer (``POST …/chat/feedback``).

        :param session_id: Id of the answer's session.
        :param request_id: Id of the answer's chat request.
        :param feedback: The rating: ``good``, ``bad``, or another word in ``rating_words`` of the connection.
        :param site_id: Site of the answer. Default: None, the hook's or the connection's.
        :return: The reply; ``is_repeated`` says whether the request had been rated before.
        :raises AssistantInputError: A field is empty or not text, or the rating is another word; nothing
            was sent.
        :raises AssistantError: The call failed; see the errors that :class:`AssistantHook` lists.
        """
        fields = {"session_id": session_id, "request_id": request_id, "feedback": feedback}
        rating = checked(Feedback, fields)
        check_rating(rating.feedback, self.settings.client.rating_words)
        return self.send(endpoints.send_feedback(self.resolve_site_id(site_id), rating))

    def close_session(self, session_id: str, *, site_id: str | None = None) -> ApiReply:
        """
        Close a session (``POST …/chat/session/close``).

        A failed attempt is sent again: the service counts the second close of a session as a success.

        :param session_id: Id of the session.
        :param site_id: Site of the session. Default: None, the hook's or the connection's.
        :return: The reply; ``raw`` is None if it was empty.
        :raises AssistantNotFoundError: The service does not know the site, or the API key may not use it.
        :raises AssistantError: The call failed; see the errors that :class:`AssistantHook` lists.
        """
        session = checked(SessionClose, {"session_id": session_id})
        return self.send(endpoints.close_session(self.resolve_site_id(site_id), session))

    def test_connection(self) -> tuple[bool, str]:
        """
        Check the API key, the tenant and the site; Airflow's Test button calls this.

        The tenant is checked by reading its limits. The site is looked up in the list of sites in the limits. If
        the limits have no such list, the statistics of the site are read.

        :return: Whether the connection works, and a message with the result or the error.
        """
        try:
            tenant_id = self.resolve_tenant_id()
            limits = self.get_limits()
            site = self._checked_site(limits.raw)
        except AssistantError as error:
            # Airflow's Test button gives the connection a random id. The user knows which connection is tested.
            return False, str(error).replace(f"connection {self.assistant_conn_id!r}", "the connection")
        fields = "nothing"
        if isinstance(limits.raw, Mapping):
            fields = detail_of(", ".join(sorted(limits.raw)))
        base_url = self.settings.client.base_url
        message = f"Connected to {base_url}: limits of tenant {tenant_id!r} show {fields}; {site}"
        return True, message

    def _checked_site(self, limits: Any) -> str:
        """Return a sentence about the connection's site, or raise if the API key cannot use it."""
        if self.site_id is None and self.settings.site_id is None:
            return "the connection names no site"
        site_id = self.resolve_site_id()
        sites = _listed_sites(limits)
        if sites:
            if site_id not in sites:
                raise AssistantInputError(
                    f"site {site_id!r} is not among the sites of this API key: {detail_of(', '.join(sites))}",
                    todo="Check Site (extra field site_id) in the connection.",
                    field="site_id",
                )
            return f"site {site_id!r} is one of {len(sites)}"
        try:
            self.get_statistics()
        except AssistantPermissionError:
            return f"site {site_id!r} was not checked: this API key may not read its statistics"
        return f"site {site_id!r} was found"


def _listed_sites(reply: Any, depth: int = 3) -> list[str]:
    """Return the site ids that a reply lists at the top level or in an envelope; an empty list if it has none."""
    if not isinstance(reply, Mapping) or not depth:
        return []
    for name in ("site_ids", "sites"):
        sites = reply.get(name)
        if isinstance(sites, list):
            site_ids = [_id_of(site) for site in sites]
            return [str(site_id) for site_id in site_ids if isinstance(site_id, str | int)]
    for envelope in reply.values():
        site_ids = _listed_sites(envelope, depth - 1)
        if site_ids:
            return site_ids
    return []


def _id_of(site: Any) -> Any:
    """Return the id of a site in a list, whose elements are ids or objects with an id."""
    if not isinstance(site, Mapping):
        return site
    if "site_id" in site:
        return site["site_id"]
    return site.get("id")


def _message(session_id: str, message: str, email: str | None, response_language: str | None) -> ChatMessage:
    fields = {
        "session_id": session_id,
        "message": message,
        "email": email,
        "response_language": response_language,
    }
    return checked(ChatMessage, fields)
