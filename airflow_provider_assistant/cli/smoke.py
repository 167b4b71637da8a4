"""``airflow assistant smoke``: try each route that a production setup needs."""

from __future__ import annotations

import argparse
import io
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from airflow_provider_assistant.api import endpoints, flow
from airflow_provider_assistant.cli.output import BAD, DIM, GOOD, Console
from airflow_provider_assistant.cli.runner import OK, WRONG, command, open_hook
from airflow_provider_assistant.exceptions import (
    AssistantAuthenticationError,
    AssistantConnectionError,
    AssistantError,
    AssistantRequestFailedError,
)
from airflow_provider_assistant.hooks.assistant import AssistantHook
from airflow_provider_assistant.storage.uploads import as_upload
from airflow_provider_assistant.texts import counted, shortened

DOCUMENT = """# Smoke test of an integration

This document is uploaded by a smoke test. The smoke test reads limits, uploads this document, chats, rates an answer
and reads statistics. It may be deleted.
"""
QUESTION = "What does the smoke test of an integration read?"
POLL_INTERVAL = 1.0
STYLES = {"ok": GOOD, "failed": BAD, "skipped": DIM}
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


@command
def smoke(out: Console, args: argparse.Namespace) -> int:
    """Run the steps and write the result of each. Exit code 1 if a step did not succeed."""
    hook = open_hook(out, args)
    results = []
    for result in _Smoke(hook, args).results(out):
        results.append(result)
        style = STYLES[result.verdict]
        seconds = f"{result.seconds:.2f} s"
        out.fields((result.verdict, style, 7), (result.step, "", 17), (seconds, DIM, 8), (result.detail, DIM, 0))
    passed = all(result.verdict == "ok" for result in results)
    out.result(
        {"passed": passed, "base_url": hook.settings.client.base_url, "steps": [asdict(result) for result in results]}
    )
    return OK if passed else WRONG


class _Smoke:
    """The steps of the smoke test. Each returns a detail or raises."""

    def __init__(self, hook: AssistantHook, args: argparse.Namespace) -> None:
        self._hook = hook
        self._document = args.document
        self._question = args.question or QUESTION
        self._timeout = args.timeout
        self._session_id = f"smoke-{uuid.uuid4().hex[:16]}"
        self._request_id = ""

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
                    stopped = f"'{name}' failed with an error that affects all steps"
            yield StepResult(name, verdict, round(time.perf_counter() - started, 3), detail)

    def _limits(self) -> str:
        raw = self._hook.get_limits().raw
        return (
            f"tenant {self._hook.resolve_tenant_id()}: {', '.join(raw) if isinstance(raw, dict) else 'no fields shown'}"
        )

    def _upload(self) -> str:
        file: Any = self._document or io.BytesIO(DOCUMENT.encode())
        name = None if self._document else "assistant-smoke-test.md"
        upload = as_upload(file, name)
        created = self._hook.send(endpoints.upload_document(self._hook.resolve_site_id(), upload))
        document = created.created_id or "(no id shown)"
        return f"site {self._hook.resolve_site_id()}: {upload.filename} is document {document}"

    def _sync_chat(self) -> str:
        return _reply(self._hook.chat(self._session_id, self._question).text)

    def _submit(self) -> str:
        self._request_id = self._hook.submit_chat(self._session_id, self._question).request_id
        return f"request {self._request_id}"

    def _poll(self) -> str:
        client = self._hook.client
        call = endpoints.get_chat_request(self._hook.resolve_site_id(), self._request_id, client.settings.words)
        since = client.now()
        waiting = flow.wait_for(
            call, since=since, deadline=since + self._timeout, interval=POLL_INTERVAL, now=client.now
        )
        request, polls = client.run(waiting)
        if request.state == "failed":
            raise AssistantRequestFailedError(
                f"request {self._request_id} ended {request.status!r}: {request.error or ''}"
            )
        return f"{request.status} after {counted(polls, 'poll')}: {_reply(request.text)}"

    def _rate(self) -> str:
        self._hook.send_feedback(self._session_id, self._request_id, "good")
        return f"'good' for request {self._request_id}"

    def _statistics(self) -> str:
        raw = self._hook.get_statistics().raw
        return ", ".join(raw) if isinstance(raw, dict) else "no fields shown"


def _reply(text: str | None) -> str:
    return "a reply without a known answer field" if text is None else shortened(text, 100)
