"""Bases of the operators whose requests are recorded in the ledger: chats and ratings."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Literal, TypeAlias, TypeVar, get_args

from airflow.providers.common.compat.sdk import AirflowSkipException, Context

from airflow_provider_assistant import parameters
from airflow_provider_assistant.api.call import Call
from airflow_provider_assistant.api.payloads import ChatMessage, checked
from airflow_provider_assistant.api.replies import ApiReply
from airflow_provider_assistant.exceptions import (
    AssistantAmbiguousError,
    AssistantError,
    AssistantResponseError,
)
from airflow_provider_assistant.failures import FailureContext
from airflow_provider_assistant.hooks.task_parameters import Checks, check_given
from airflow_provider_assistant.ledger import Claim, Kind, Known, Ledger, RunRef, Scope, ScopeLedger, key_of
from airflow_provider_assistant.names import task_name
from airflow_provider_assistant.operators.base import AssistantOperator
from airflow_provider_assistant.sending.batch import Batch
from airflow_provider_assistant.sending.outcomes import Item
from airflow_provider_assistant.texts import counted

OnAmbiguous: TypeAlias = Literal["retry", "skip", "fail"]
Mode: TypeAlias = Literal["sync", "async"]
T = TypeVar("T", bound=ApiReply)
# States of earlier attempts whose message the service may have, or whose answer was lost.
MAY_HAVE_ARRIVED = frozenset({"claimed", "ambiguous", "created"})


class AssistantLedgerOperator(AssistantOperator):
    """
    Base of the operators that record in the ledger what they send.

    The other parameters are those of :class:`~airflow_provider_assistant.operators.base.AssistantOperator`.
    """

    # What sends the requests of the current try.
    _batch: Batch | None = None

    def on_kill(self) -> None:
        """Stop sending, wait a few seconds for the replies to requests in flight, and record their outcome."""
        if self._batch:
            self._batch.cancel()

    @contextlib.contextmanager
    def _attempts(self, context: Context, kind: Kind) -> Iterator[tuple[Ledger, ScopeLedger]]:
        """Open the ledger, and the attempts of this task in it."""
        run = RunRef.of(context)
        source = task_name(run.dag_id, run.task_id)
        with Ledger.open() as ledger, ledger.of(Scope(self.hook.site(), kind), source, run) as attempts:
            yield ledger, attempts


class AssistantMessageOperator(AssistantLedgerOperator):
    """
    Base of the operators that send one message.

    :param session_id: The session of the message. Messages with the same id are one conversation.
    :param message: The user's message.
    :param user_email: E-mail address of the end user. Default: None, not sent. Airflow's own parameter ``email`` is the
        address for alerts, and is not sent.
    :param response_language: Language code of the reply, such as ``en``. Default: None, the service chooses.
    :param on_ambiguous: What to do if the message may have reached the service although no usable reply came back.
        ``retry`` (default) sends it again after a 5xx status or a broken connection, up to the connection's
        ``retries``. After a ``POST …/chat`` that timed out, the service may still be working on the answer, so the try
        fails, and only a retry of the task sends the message again. ``skip`` skips the task; ``fail`` fails it without
        retries.

    The other parameters are those of :class:`~airflow_provider_assistant.operators.message.AssistantLedgerOperator`.
    """

    template_fields: Sequence[str] = (
        *AssistantLedgerOperator.template_fields,
        "session_id",
        "message",
        "user_email",
        "response_language",
    )
    parameter_checks: ClassVar[Checks] = {"on_ambiguous": parameters.choice(*get_args(OnAmbiguous))}

    def __init__(
        self,
        *,
        session_id: str,
        message: str,
        user_email: str | None = None,
        response_language: str | None = None,
        on_ambiguous: OnAmbiguous = "retry",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.session_id = session_id
        self.message = message
        self.user_email = user_email
        self.response_language = response_language
        self.on_ambiguous = on_ambiguous
        check_given(self)

    def failure_context(self, context: Context) -> FailureContext:  # noqa: ARG002
        """Return the session of the chat, for the log lines of a failure."""
        return FailureContext(f"chat in session {self.session_id!r} on {self.hook.location()}")

    def _chat_message(self) -> ChatMessage:
        fields = {
            "session_id": self.session_id,
            "message": self.message,
            "email": self.user_email,
            "response_language": self.response_language,
        }
        return checked(ChatMessage, fields, names={"email": "user_email"})

    @staticmethod
    def _key(context: Context, call: Call[Any], *, is_new_after_clear: bool) -> str:
        """Return the key of the message in the ledger, which is the same for all tries of a task."""
        run = str(RunRef.of(context))
        if is_new_after_clear:
            # Airflow increases max_tries when a task is cleared.
            run = f"{run}#{context['ti'].max_tries}"
        return key_of(run, *(call.json or {}).values())

    def _ask(
        self, context: Context, ledger: ScopeLedger, call: Call[T], key: str, attempts: Sequence[Known], mode: Mode
    ) -> T:
        """
        Send the message, unless an earlier try may have sent it and ``on_ambiguous`` forbids to repeat it.

        :param attempts: Attempts of earlier tries at the message, earliest first.
        """
        is_repeat = any(attempt.state in MAY_HAVE_ARRIVED for attempt in attempts)
        number = attempts[-1].number + 1 if attempts else 1
        claim = Claim(key, self.session_id, number, key, details={"session_id": self.session_id, "mode": mode})
        may_repeat = self.on_ambiguous == "retry"
        if is_repeat and not may_repeat:
            raise self._given_up(f"An earlier try may have sent this message ({call})")
        if is_repeat:
            self.log.warning("An earlier try may have sent this message. Sending it again.")
        self._batch = Batch(ledger, self.hook.settings.client, may_repeat=may_repeat)
        try:
            reply: T = self._batch.send_one(Item(claim, call, is_repeat=is_repeat))
        except (AssistantAmbiguousError, AssistantResponseError) as error:
            if may_repeat:
                raise
            raise self._given_up(error.happened, error.__cause__) from error.__cause__ or error
        duplicates = is_repeat + reply.call_info.ambiguous
        if duplicates:
            self.log.warning(
                "The service may also have accepted at least %s: session %r may contain the message more than once.",
                counted(duplicates, "earlier attempt"), self.session_id,
            )  # fmt: skip
            context["ti"].xcom_push(key="possibly_duplicated", value=duplicates)
        return reply

    def _given_up(self, happened: str, cause: BaseException | None = None) -> Exception:
        """Return how the task ends whose message may have arrived and is not sent again."""
        todo = f"{cause.todo} " if isinstance(cause, AssistantError) and cause.todo else ""
        final = AssistantAmbiguousError(
            f"{happened}. It is not sent again, because on_ambiguous is {self.on_ambiguous!r}",
            todo=f"{todo}Check at the service whether the message arrived, record it with 'airflow assistant ledger "
            "resolve', then clear the task.",
            retryable=False,
            maybe_done=True,
        )
        return AirflowSkipException(f"Skipped: {final}") if self.on_ambiguous == "skip" else final
