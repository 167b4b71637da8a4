"""``airflow assistant smoke``: try each route that a production setup needs."""

from __future__ import annotations

import argparse
import io
import time
import uuid
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from airflow_provider_assistant.api.document_state import needs_attention
from airflow_provider_assistant.asking.state import Answer
from airflow_provider_assistant.asking.wait import Wait
from airflow_provider_assistant.cli.output import BAD, GOOD, Console
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
# Errors that would stop all other steps as well.
FATAL = (AssistantAuthenticationError, AssistantConnectionError)
STOPPED = "an earlier step failed with an error that affects all"


@command
def smoke(out: Console, args: argparse.Namespace) -> int:
    """Run the steps, remove what can be removed, and write what is left. Exit code 1 if a step did not succeed."""
    run = _Smoke(open_hook(out, args), args)
    out.note(run.announcement())
    steps = []
    try:
        for name, step, needs in run.steps():
            with out.busy(name):
                steps.append(run.ran(name, step, needs))
    finally:
        # Also after Ctrl-C.
        cleanup = run.clean_up()
        passed = len(steps) == len(run.steps()) and all(step["verdict"] == "ok" for step in steps)
        result = {"passed": passed, "base_url": run.base_url, "steps": steps, "cleanup": cleanup}
        text = "All steps work." if passed else "A step does not work."
        out.result(result, steps, cleanup, text=text, style=GOOD if passed else BAD)
    return OK if passed else WRONG


class _Smoke:
    """The steps of the smoke test. Each returns a detail or raises."""

    def __init__(self, hook: AssistantHook, args: argparse.Namespace) -> None:
        self._hook = hook
        self.base_url = hook.settings.client.base_url
        self._file = args.document
        self._question = args.question or QUESTION
        self._timeout = args.timeout
        run_id = uuid.uuid4().hex[:16]
        self._text, self._file_name = DOCUMENT.format(run_id=run_id), FILE_NAME.format(run_id=run_id)
        self._session_id = f"smoke-{run_id}"
        self._request_id = ""
        self._failed: set[str] = set()
        self._is_stopped = False
        # What the steps have created: its kind, its id, and why it stays.
        self._left: dict[str, tuple[str | None, str]] = {}

    def steps(self) -> list[tuple[str, Callable[[], str], set[str]]]:
        """Return the name and the function of each step, and the names of those that it needs."""
        return [
            ("read limits", self._limits, set()),
            ("upload document", self._upload, set()),
            ("sync chat", self._sync_chat, set()),
            ("submit async chat", self._submit, set()),
            ("poll async chat", self._poll, {"submit async chat"}),
            ("send feedback", self._rate, {"poll async chat"}),
            ("read statistics", self._statistics, set()),
        ]

    def ran(self, name: str, step: Callable[[], str], needs: set[str]) -> dict[str, Any]:
        """Run a step, unless it depends on one that failed, and return its result."""
        missing = needs & self._failed
        started = time.perf_counter()
        verdict = "ok"
        if self._is_stopped or missing:
            verdict, detail = "skipped", STOPPED if self._is_stopped else f"needs: {', '.join(missing)}"
        else:
            try:
                detail = step()
            except AssistantError as error:
                verdict, detail = "failed", str(error)
                self._is_stopped = isinstance(error, FATAL)
        if verdict != "ok":
            self._failed.add(name)
        seconds = round(time.perf_counter() - started, 3)
        return {"step": name, "verdict": verdict, "seconds": seconds, "detail": detail}

    @property
    def _is_removable(self) -> bool:
        routes = self._hook.settings.documents
        return not self._file and routes is not None and routes.delete is not None

    def announcement(self) -> str:
        """Return what the steps will create and leave at the service, for a person who may still stop them."""
        document = "which is deleted at the end" if self._is_removable else "which stays there"
        return (
            f"This uploads a document to {self._hook.location()}, {document}. It also asks two questions and rates an "
            "answer: these stay in the statistics."
        )

    def _limits(self) -> str:
        return f"tenant {self._hook.resolve_tenant_id()}: {_fields(self._hook.get_limits().raw)}"

    def _upload(self) -> str:
        name = as_upload(self._file).filename if self._file else self._file_name
        file: Any = self._file or io.BytesIO(self._text.encode())
        site = self._hook.resolve_site_id()
        try:
            created = self._hook.upload_document(file, name)
        except AssistantBadRequestError as error:
            if error.status != HTTPStatus.CONFLICT:
                raise
            return f"site {site}: {name} was not uploaded, because such a document is there already (409)"
        except (AssistantAmbiguousError, AssistantResponseError):
            self._left["document"] = None, "the reply to its upload was lost: it may exist"
            raise
        reason = "manage_documents in the connection describes no route to delete it"
        if self._file:
            reason = "it is your file"
        elif created.document_id is None:
            reason = "the service returned no id"
        self._left["document"] = created.document_id, reason
        detail = f"site {site}: {name} is document {created.document_id or '(no id shown)'}"
        attention = needs_attention(created.status, created.words)
        if attention:
            return f"{detail}, {attention}; answers cannot come from it"
        return f"{detail}, status {created.status!r}" if created.status else detail

    def _sync_chat(self) -> str:
        self._left["session"] = self._session_id, "its questions count in the statistics"
        return _reply(self._hook.chat(self._session_id, self._question).text)

    def _submit(self) -> str:
        self._left["session"] = self._session_id, "its questions count in the statistics"
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
        self._left["rating"] = self._request_id, "a rating cannot be withdrawn; it counts in the statistics"
        return f"{word!r} for request {self._request_id}"

    def _statistics(self) -> str:
        return _fields(self._hook.get_statistics().raw)

    def clean_up(self) -> list[dict[str, Any]]:
        """Remove what can be removed, and return everything that the steps have created."""
        return [
            {"kind": kind, "id": created_id, **self._cleaned(kind, created_id, reason)}
            for kind, (created_id, reason) in self._left.items()
        ]

    def _cleaned(self, kind: str, created_id: str | None, reason: str) -> dict[str, str]:
        if kind == "rating":
            return {"action": "left", "reason": reason}
        if self._is_stopped:
            return {"action": "left", "reason": STOPPED}
        try:
            if kind == "session":
                self._hook.close_session(self._session_id)
                return {"action": "closed", "reason": reason}
            if created_id and self._is_removable:
                self._hook.delete_documents([created_id])
                return {"action": "removed", "reason": ""}
        except AssistantError as error:
            reason = f"it could not be removed or closed: {error}"
        return {"action": "left", "reason": reason}


def _reply(text: str | None) -> str:
    return "a reply without a known answer field" if text is None else shortened(text, 100)


def _fields(raw: Any) -> str:
    return ", ".join(raw) if isinstance(raw, dict) else "no fields shown"
