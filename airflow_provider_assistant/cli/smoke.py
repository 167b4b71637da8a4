"""``airflow assistant smoke``: try each route that a production setup needs."""

from __future__ import annotations

import argparse
import io
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from http import HTTPStatus
from typing import Any

from airflow_provider_assistant.api.document_state import needs_attention
from airflow_provider_assistant.api.replies import CreatedDocument
from airflow_provider_assistant.asking.state import Answer
from airflow_provider_assistant.asking.wait import Wait
from airflow_provider_assistant.cli.output import BAD, DIM, GOOD, Console
from airflow_provider_assistant.cli.runner import OK, WRONG, command, open_hook
from airflow_provider_assistant.client.cancellation import run_coroutine
from airflow_provider_assistant.exceptions import (
    AssistantAmbiguousError,
    AssistantAuthenticationError,
    AssistantBadRequestError,
    AssistantConnectionError,
    AssistantError,
    AssistantRequestFailedError,
    AssistantResponseError,
)
from airflow_provider_assistant.hooks.assistant import AssistantHook
from airflow_provider_assistant.storage.uploads import as_upload
from airflow_provider_assistant.texts import counted, shortened
from airflow_provider_assistant.triggers.chat import ended_request, event_of_wait

# Plain text: a service may not accept Markdown.
# The id of the run is in the text and the name: a service that refuses duplicates takes the document of each run.
DOCUMENT = """Smoke test of an integration

This document is uploaded by a smoke test. The smoke test reads limits, uploads this document, chats, rates an answer
and reads statistics. It may be deleted. Run: {run_id}.
"""
FILE_NAME = "assistant-smoke-test-{run_id}.txt"
QUESTION = "What does the smoke test of an integration read?"
POLL_INTERVAL = 1.0
STYLES = {"ok": GOOD, "failed": BAD, "skipped": DIM}
# Why nothing is removed after an error that affects all steps.
STOPPED = "the smoke test was stopped"
# Errors that would stop all other steps as well.
FATAL = (AssistantAuthenticationError, AssistantConnectionError)


@dataclass(frozen=True, slots=True)
class StepResult:
    """
    The result of a step.

    :param verdict: ``ok``, ``failed`` or ``skipped``.
    :param detail: What the service returned, or why the step failed.
    """

    step: str
    verdict: str
    seconds: float
    detail: str


@dataclass(frozen=True, slots=True)
class Remainder:
    """
    Something that the smoke test has created at the service.

    :param kind: ``document``, ``session`` or ``rating``.
    :param id: Its id; for a rating that of the chat request. None if it is not known.
    :param action: ``removed``, ``closed``, or ``left`` as it is.
    :param reason: Why it was not removed; empty if it was.
    """

    kind: str
    id: str | None
    action: str
    reason: str


@command
def smoke(out: Console, args: argparse.Namespace) -> int:
    """Run the steps, remove what can be removed, and write what is left. Exit code 1 if a step did not succeed."""
    hook = open_hook(out, args)
    run = _Smoke(hook, args)
    out.note(run.announcement())
    results = []
    for result in run.results(out):
        results.append(result)
        style = STYLES[result.verdict]
        seconds = f"{result.seconds:.2f} s"
        out.fields((result.verdict, style, 7), (result.step, "", 17), (seconds, DIM, 8), (result.detail, DIM, 0))
    remainders = run.clean_up()
    for remainder in remainders:
        shown_id = remainder.id or "no id"
        style = DIM if remainder.action == "left" else GOOD
        out.fields(
            (remainder.action, style, 7),
            (remainder.kind, "", 17),
            (shown_id, DIM, 0),
            (remainder.reason, DIM, 0),
        )
    passed = all(result.verdict == "ok" for result in results)
    out.result(
        {
            "passed": passed,
            "base_url": hook.settings.client.base_url,
            "steps": [asdict(result) for result in results],
            "cleanup": [asdict(remainder) for remainder in remainders],
        }
    )
    return OK if passed else WRONG


class _Smoke:
    """The steps of the smoke test. Each returns a detail or raises."""

    def __init__(self, hook: AssistantHook, args: argparse.Namespace) -> None:
        self._hook = hook
        self._document = args.document
        self._question = args.question or QUESTION
        self._timeout = args.timeout
        self._run_id = uuid.uuid4().hex[:16]
        self._session_id = f"smoke-{self._run_id}"
        self._request_id = ""
        # What the steps have created, for the clean-up.
        self._created: CreatedDocument | None = None
        self._may_be_created = False
        self._has_session = False
        self._is_rated = False
        self._is_stopped = False

    def results(self, out: Console) -> Iterator[StepResult]:
        """Yield the result of each step. Steps that depend on a failed step are skipped."""
        # Name, function, and names of the steps that it depends on.
        steps: tuple[tuple[str, Callable[[], str], set[str]], ...] = (
            ("read limits", self._limits, set()),
            ("upload document", self._upload, set()),
            ("sync chat", self._sync_chat, set()),
            ("submit async chat", self._submit, set()),
            ("poll async chat", self._poll, {"submit async chat"}),
            ("send feedback", self._rate, {"submit async chat", "poll async chat"}),
            ("read statistics", self._statistics, set()),
        )
        missing: set[str] = set()
        stopped = ""
        for name, attempt, needs in steps:
            if stopped or needs & missing:
                missing.add(name)
                yield StepResult(name, "skipped", 0.0, stopped or f"needs: {', '.join(sorted(needs & missing))}")
                continue
            started = time.perf_counter()
            try:
                with out.busy(name):
                    detail, verdict = attempt(), "ok"
            except AssistantError as error:
                missing.add(name)
                detail, verdict = str(error), "failed"
                if isinstance(error, FATAL):
                    self._is_stopped = True
                    stopped = f"'{name}' failed with an error that affects all steps"
            yield StepResult(name, verdict, round(time.perf_counter() - started, 3), detail)

    def announcement(self) -> str:
        """Return what the steps will create and leave at the service, for a person who may still stop them."""
        routes = self._hook.settings.documents
        is_deleted = not self._document and routes is not None and routes.delete is not None
        document = "which is deleted at the end" if is_deleted else "which stays there"
        return (
            f"This uploads a document to {self._hook.location()}, {document}. It also asks two questions and rates an "
            "answer: these stay in the statistics."
        )

    def _limits(self) -> str:
        raw = self._hook.get_limits().raw
        return (
            f"tenant {self._hook.resolve_tenant_id()}: {', '.join(raw) if isinstance(raw, dict) else 'no fields shown'}"
        )

    def _upload(self) -> str:
        file: Any = self._document
        if file:
            name = as_upload(file).filename
        else:
            file = io.BytesIO(DOCUMENT.format(run_id=self._run_id).encode())
            name = FILE_NAME.format(run_id=self._run_id)
        site = self._hook.resolve_site_id()
        try:
            created = self._hook.upload_document(file, name)
        except AssistantBadRequestError as error:
            if error.status != HTTPStatus.CONFLICT:
                raise
            return f"site {site}: {name} was not uploaded, because such a document is there already (409)"
        except (AssistantAmbiguousError, AssistantResponseError):
            self._may_be_created = True
            raise
        self._created = created
        document = created.document_id or "(no id shown)"
        detail = f"site {site}: {name} is document {document}"
        attention = needs_attention(created.status, created.words)
        if attention:
            return f"{detail}, {attention}; answers cannot come from it"
        if created.status:
            detail += f", status {created.status!r}"
        return detail

    def _sync_chat(self) -> str:
        self._has_session = True
        return _reply(self._hook.chat(self._session_id, self._question).text)

    def _submit(self) -> str:
        self._has_session = True
        self._request_id = self._hook.submit_chat(self._session_id, self._question).request_id
        return f"request {self._request_id}"

    def _poll(self) -> str:
        async def wait() -> dict[str, Any]:
            async with self._hook.async_client() as client:
                now = client.now()
                request = Answer("", request_id=self._request_id, submitted_at=now)
                polls = Wait(interval=POLL_INTERVAL, deadline=now + self._timeout, now=now)
                return await event_of_wait(client, self._hook.resolve_site_id(), polls, request)

        ended = ended_request(run_coroutine(wait()))
        if ended["state"] == "failed":
            raise AssistantRequestFailedError(
                f"request {self._request_id} ended {ended['status']!r}: {ended['error'] or ''}"
            )
        return f"{ended['status']} after {counted(ended['polls'], 'poll')}: {_reply(ended['text'])}"

    def _rate(self) -> str:
        word = "good"
        self._hook.send_feedback(self._session_id, self._request_id, word)
        self._is_rated = True
        return f"{word!r} for request {self._request_id}"

    def _statistics(self) -> str:
        raw = self._hook.get_statistics().raw
        return ", ".join(raw) if isinstance(raw, dict) else "no fields shown"

    def clean_up(self) -> list[Remainder]:
        """Remove what can be removed, and return everything that the steps have created."""
        remainders = []
        if self._created:
            remainders.append(self._clean_up_document(self._created.document_id))
        elif self._may_be_created:
            reason = "the reply to its upload was lost: it may exist"
            remainders.append(Remainder("document", None, "left", reason))
        if self._has_session:
            remainders.append(self._close_session())
        if self._is_rated:
            reason = "a rating cannot be withdrawn; it counts in the statistics"
            remainders.append(Remainder("rating", self._request_id, "left", reason))
        return remainders

    def _clean_up_document(self, document_id: str | None) -> Remainder:
        """Delete the built-in document, if the connection describes the route."""
        routes = self._hook.settings.documents
        if self._document:
            reason = "it is your file"
        elif document_id is None:
            reason = "the service returned no id"
        elif routes is None or routes.delete is None:
            reason = "manage_documents in the connection describes no route to delete it"
        elif self._is_stopped:
            reason = STOPPED
        else:
            try:
                self._hook.delete_documents([document_id])
            except AssistantError as error:
                reason = f"it could not be deleted: {error}"
            else:
                return Remainder("document", document_id, "removed", "")
        return Remainder("document", document_id, "left", reason)

    def _close_session(self) -> Remainder:
        if self._is_stopped:
            return Remainder("session", self._session_id, "left", STOPPED)
        try:
            self._hook.close_session(self._session_id)
        except AssistantError as error:
            reason = f"it could not be closed: {error}"
            return Remainder("session", self._session_id, "left", reason)
        reason = "its questions count in the statistics"
        return Remainder("session", self._session_id, "closed", reason)


def _reply(text: str | None) -> str:
    return "a reply without a known answer field" if text is None else shortened(text, 100)
