"""Try the routes that change documents, on a document that is created for it."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Iterator
from typing import Any

from airflow_provider_assistant.api import document_routes, endpoints
from airflow_provider_assistant.api.call import Call
from airflow_provider_assistant.api.document_pages import DocumentPages
from airflow_provider_assistant.api.document_routes import ChangeRoute, DocumentRoutes, StatusRoute
from airflow_provider_assistant.api.payloads import TextDocument
from airflow_provider_assistant.api.replies import ApiReply
from airflow_provider_assistant.api.site_documents import SiteDocument
from airflow_provider_assistant.cli.document_candidates import delete_routes, status_routes
from airflow_provider_assistant.cli.document_list import NAMED, CheckResult, check_list, listed
from airflow_provider_assistant.client.defaults import get_client_defaults
from airflow_provider_assistant.exceptions import (
    AssistantAmbiguousError,
    AssistantBadRequestError,
    AssistantError,
    AssistantNotFoundError,
    AssistantResponseError,
)
from airflow_provider_assistant.hooks.assistant import AssistantHook
from airflow_provider_assistant.texts import counted

CONTENT = (
    "The command `airflow assistant documents check --write` created this document, to see which "
    "routes of documents work. It may be deleted."
)
# Seconds between two looks at the list, and until the list must show an accepted change.
FIRST_WAIT, LONGEST_WAIT = 0.5, 5.0
EFFECT_SECONDS = 20.0
# Seconds that are left for the deletion, even if the time is over.
DELETE_SECONDS = 60.0
# Fields that the check needs.
FIELDS = ("id", "title", "status")
# Seconds after which a status word that is not known counts as final.
UNKNOWN_SECONDS = 20.0


class _StepError(Exception):
    """A step has found a problem."""


class ChangeCheck:
    """
    Create a document, and activate, deactivate and delete it.

    :param routes: Routes to try first.
    :param timeout: Longest duration of all steps, in seconds.
    :param is_empty: Whether the list was empty, so that its fields are not known yet.
    """

    def __init__(self, hook: AssistantHook, routes: DocumentRoutes, timeout: float, *, is_empty: bool = False) -> None:
        #: The routes that worked.
        self.routes = routes
        #: The document, or its title, while it may be on the site.
        self.left: str | None = None
        self._hook = hook
        self._site_id = hook.resolve_site_id()
        self._title = f"Check of the routes of documents {uuid.uuid4().hex[:12]}"
        self._document_id = ""
        self._now = hook.client.now
        self._sleep = get_client_defaults().sleep
        self._end = self._now() + timeout
        self._is_empty = is_empty
        # Whether the list has shown the document.
        self._was_seen = False
        self._is_stopped = False
        # All other documents in the list when it was last compared.
        self._others: dict[str, SiteDocument] = {}

    def results(self) -> Iterator[CheckResult]:
        """Yield the result of each step. After a problem, the document is still deleted."""
        steps: tuple[tuple[str, Callable[[], str]], ...] = (
            ("create", self._create),
            ("fields", self._understand),
            ("ready", self._wait_until_ready),
            ("set_status", self._set_status),
            ("delete", self._delete),
        )
        for name, step in steps:
            if name == "fields" and not self._is_empty:
                continue
            started = self._now()
            try:
                result = CheckResult(name, "ok", step())
            except (AssistantError, _StepError) as error:
                result = CheckResult(name, "problem", str(error))
            seconds = round(self._now() - started, 3)
            yield CheckResult(name, result.verdict, result.detail, seconds)
            if self._is_stopped or not self._document_id:
                return

    # -- steps ---------------------------------------------------------------------------------

    def _create(self) -> str:
        self.left = f"the document titled {self._title!r}"
        try:
            document = TextDocument(title=self._title, content=CONTENT)
            # The hook's own method would also log that a draft is not in use.
            created = self._hook.send(endpoints.create_text_document(self._site_id, document))
        except AssistantError as error:
            if not isinstance(error, AssistantAmbiguousError | AssistantResponseError):
                self.left = None
            raise
        document_id = created.document_id
        if document_id is None:
            if self._is_empty:
                # The id is in a field that only the list can show.
                with contextlib.suppress(_StepError):
                    self._understand()
            shown = self._wait_for(lambda document: document is not None, EFFECT_SECONDS)
            if shown is None:
                raise _StepError(
                    f"The reply to the create has no id, and the list shows no document of the title {self._title!r}."
                )
            document_id = shown.document_id
        self._document_id = document_id
        self.left = f"document {document_id!r} ({self._title})"
        self._others = self._other_documents()
        return f"document {document_id!r}, {created.status or 'no status in the reply'}"

    def _understand(self) -> str:
        """Look at the fields of the first document in a list that was empty."""
        end = min(self._now() + EFFECT_SECONDS, self._end)
        wait = FIRST_WAIT
        while True:
            report = check_list(self._hook, self.routes)
            fields = [result for result in report.results if result.step in FIELDS]
            if fields or self._now() >= end:
                break
            self._sleep(wait)
            wait = min(2 * wait, LONGEST_WAIT)
        self.routes = report.routes
        problems = [result for result in fields if result.verdict == "problem"]
        text = "; ".join(f"{result.step}: {result.detail}" for result in problems or fields)
        if problems or not fields:
            raise _StepError(text or "The list is still empty.")
        return text

    def _wait_until_ready(self) -> str:
        words: list[str] = []
        document = self._settled(words)
        if document is None:
            raise _StepError("The list does not show the document.")
        if document.state == "processing":
            raise _StepError(
                f"Its status is still {document.status!r}. Use a longer --timeout, or add the word "
                "to active_words if it means that the document is in use."
            )
        if document.state == "unknown":
            raise _StepError("The list shows no status of it, so changes of it cannot be seen.")
        if document.state != "other":
            self._learn("processing_words", words[:-1])
        seen = ", then ".join(repr(word) for word in words)
        return f"{document.state}: its status was {seen}"

    def _set_status(self) -> str:
        if self.routes.set_status is None:
            return "not tried: the connection says that the service does not have it"
        document = self._find()
        if document is None:
            raise _StepError("The list does not show the document.")
        if document.state == "unknown":
            raise _StepError("Not tried: the list shows no status, so the effect cannot be seen.")
        accepted: list[str] = []
        status_path = self.routes.list.status if self.routes.list else None
        for route in status_routes(self.routes.set_status, document, status_path):
            if self._works_in_both_directions(route, accepted):
                self.routes = self.routes.changed(set_status=route)
                return f"{_text(route)} activates and deactivates"
        raise _StepError(_no_route("activates and deactivates", accepted, "set_status"))

    def _delete(self) -> str:
        if self.routes.delete is None:
            return "not tried: the connection says that the service does not have it"
        self._end = max(self._end, self._now() + DELETE_SECONDS)
        accepted: list[str] = []
        for route in delete_routes(self.routes.delete):
            call = document_routes.change_documents(self._site_id, route, "delete", [self._document_id])
            if not self._is_accepted(call, route, accepted):
                continue
            left = self._wait_for(lambda document: document is None, EFFECT_SECONDS)
            self._check_others(route)
            if not self._was_seen:
                raise _StepError(
                    f"{_text(route)} was accepted. Whether the document is gone cannot be seen, "
                    "because the list never showed it."
                )
            if left is None:
                self.routes = self.routes.changed(delete=route)
                self.left = None
                return f"{_text(route)} deletes"
        raise _StepError(_no_route("deletes", accepted, "delete"))

    # -- changes -------------------------------------------------------------------------------

    def _works_in_both_directions(self, route: StatusRoute, accepted: list[str]) -> bool:
        """Return whether a route deactivates and activates, in the order that shows an effect."""
        document = self._find()
        if document is None:
            raise _StepError("The list does not show the document any more.")
        first = document.state == "draft"
        is_changed = self._is_changed(route, accepted, document, active=first)
        if not is_changed and document.state == "other":
            # The word may mean a draft.
            first = not first
            is_changed = self._is_changed(route, accepted, document, active=first)
        if not is_changed:
            return False
        changed = self._find()
        return changed is not None and self._is_changed(route, accepted, changed, active=not first)

    def _is_changed(self, route: StatusRoute, accepted: list[str], before: SiteDocument, *, active: bool) -> bool:
        """Send one change, and return whether the list shows it. Learn unknown status words."""
        change: document_routes.Change = "activate" if active else "deactivate"
        call = document_routes.change_documents(self._site_id, route, change, [before.document_id])
        if not self._is_accepted(call, route, accepted):
            return False
        self._wait_for(
            lambda document: document is not None and document.status != before.status,
            EFFECT_SECONDS,
        )
        words: list[str] = []
        after = self._settled(words)
        self._check_others(route)
        if after is None or after.status == before.status:
            return False
        if after.state == "other":
            self._learn("active_words" if active else "draft_words", words[-1:])
            if before.state == "other":
                self._learn("draft_words" if active else "active_words", [before.status or ""])
            return True
        return after.state == ("active" if active else "draft")

    def _is_accepted(self, call: Call[ApiReply], route: ChangeRoute, accepted: list[str]) -> bool:
        """Send a change; return whether it was accepted, and raise if no other one can help."""
        if self._now() > self._end:
            raise _StepError("The time is over. Use a longer --timeout.")
        try:
            self._hook.send(call)
        except (AssistantBadRequestError, AssistantNotFoundError):
            return False
        except AssistantError as error:
            if document_routes.is_missing_route(error):
                return False
            raise
        accepted.append(_text(route))
        return True

    def _other_documents(self) -> dict[str, SiteDocument]:
        """Return all documents in the list but the own one, by their ids."""
        found = {document.document_id: document for document in self._listed()}
        found.pop(self._document_id, None)
        return found

    def _check_others(self, route: ChangeRoute) -> None:
        """
        Check that a change has changed no other document.

        :raises _StepError: It may have.
        """
        before = self._others
        self._others = self._other_documents()
        changed = []
        for document_id, document in before.items():
            after = self._others.get(document_id)
            # Others become ready at any time.
            if after is None or (document.state != "processing" and after.status != document.status):
                changed.append(document_id)
        if not changed:
            return
        self._is_stopped = True
        names = ", ".join(repr(document_id) for document_id in changed[:NAMED])
        raise _StepError(
            f"after {_text(route)} was sent, {counted(len(changed), 'other document')} changed: {names}. "
            "If nobody else did that, the route ignores the ids that it gets: do not use "
            "it. Nothing else is tried."
        )

    def _learn(self, setting: str, words: list[str]) -> None:
        """Add words whose meaning was not known to the words of the routes."""
        unknown = [word for word in words if self.routes.words.state(word) == "other"]
        if unknown:
            known = getattr(self.routes, setting)
            self.routes = self.routes.changed(**{setting: (*known, *unknown)})

    # -- the list ------------------------------------------------------------------------------

    def _listed(self) -> Iterator[SiteDocument]:
        return listed(self._hook, DocumentPages(self._site_id, self.routes))

    def _find(self) -> SiteDocument | None:
        """Return the document as the list shows it; None if it does not show it."""
        for document in self._listed():
            is_own = document.title == self._title
            if self._document_id:
                is_own = document.document_id == self._document_id
            if is_own:
                self._was_seen = True
                return document
        return None

    def _settled(self, words: list[str]) -> SiteDocument | None:
        """
        Wait until the document is shown with a status that does not change by itself.

        :param words: Gets the status words that were seen.
        :return: The document as last shown.
        """
        unknown_since: float | None = None

        def is_settled(document: SiteDocument | None) -> bool:
            nonlocal unknown_since
            if document is None:
                return False
            word = document.status or ""
            if words[-1:] != [word]:
                words.append(word)
                unknown_since = self._now()
            if document.state == "other":
                return self._now() - (unknown_since or 0.0) >= UNKNOWN_SECONDS
            return document.state != "processing"

        return self._wait_for(is_settled, self._end - self._now())

    def _wait_for(self, is_done: Callable[[SiteDocument | None], bool], seconds: float) -> SiteDocument | None:
        """Look at the list until a condition holds or the time is over; return the last look."""
        end = min(self._now() + seconds, self._end)
        wait = FIRST_WAIT
        while True:
            document = self._find()
            if is_done(document) or self._now() >= end:
                return document
            self._sleep(wait)
            wait = min(2 * wait, LONGEST_WAIT)


def _text(route: ChangeRoute) -> str:
    body: dict[str, Any] = {}
    if not route.is_single:
        body[route.ids] = "[…]"
    if isinstance(route, StatusRoute):
        body[route.status] = f"{route.active!r} or {route.inactive!r}"
    fields = ", ".join(f"{name}: {value}" for name, value in body.items())
    return f"{route.method} {route.path} {{{fields}}}" if fields else f"{route.method} {route.path}"


def _no_route(verb: str, accepted: list[str], name: str) -> str:
    text = f"No request that was tried {verb} the document."
    if accepted:
        text = f"{text} The list did not show the effect of these, which were accepted: {'; '.join(accepted[:NAMED])}."
    return f"{text} Describe the route in {name}, or set it to null."
