"""``airflow assistant chat``."""

from __future__ import annotations

import argparse
import sys
import uuid
from collections.abc import Iterator
from typing import Any

from airflow_provider_assistant.cli.output import Console
from airflow_provider_assistant.cli.runner import OK, command, failed, open_hook
from airflow_provider_assistant.exceptions import AssistantError, AssistantInputError
from airflow_provider_assistant.hooks.assistant import AssistantHook


@command
def chat(out: Console, args: argparse.Namespace) -> int:
    """Send one message, or each input line, and show the answers."""
    hook = open_hook(out, args)
    site_id, session_id = hook.resolve_site_id(), args.session or f"cli-{uuid.uuid4().hex[:16]}"
    if args.message is not None:
        _print_result(out, _answer(out, hook, session_id, args.message, args))
        return OK
    is_person = sys.stdin.isatty() and out.is_terminal
    if is_person:
        out.note(f"Site {site_id}, session {session_id}. Each line is a message. Ctrl-D ends the chat.")
    for message in _typed(out) if is_person else _piped():
        try:
            _print_result(out, _answer(out, hook, session_id, message, args))
        except AssistantError as error:
            # At a terminal, continue after temporary errors. A script must fail if an answer is missing.
            if not is_person or not error.retryable:
                raise
            failed(out, error)
    if is_person:
        out.note(f"Go on later with --session {session_id}")
    return OK


def _answer(
    out: Console, hook: AssistantHook, session_id: str, message: str, args: argparse.Namespace
) -> dict[str, Any]:
    with out.busy("waiting for the answer"):
        answer = hook.chat(session_id, message, args.email, args.language)
    return {**answer.as_dict(), "session_id": answer.session_id or session_id, "site_id": hook.resolve_site_id()}


def _print_result(out: Console, answer: dict[str, Any]) -> None:
    out.result(answer)
    if answer["text"] is None:
        out.note("The reply has no known answer field. --output json shows the whole reply.")
    else:
        out.line(answer["text"])


def _typed(out: Console) -> Iterator[str]:
    import readline  # noqa: F401 (enables line editing at the prompt)

    while True:
        try:
            message = out.ask("> ")
        except EOFError:
            out.line("")
            return
        if message.strip():
            yield message


def _piped() -> Iterator[str]:
    try:
        yield from (line.strip() for line in sys.stdin if line.strip())
    except UnicodeDecodeError as error:
        raise AssistantInputError(f"standard input is not {error.encoding} text: {error}", field="message") from None
