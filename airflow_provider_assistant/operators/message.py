"""Base class of the operators that send one message."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal, TypeAlias, TypeVar, get_args

from airflow.providers.common.compat.sdk import AirflowSkipException, Context

from airflow_provider_assistant import lake, parameters
from airflow_provider_assistant.api.call import Call
from airflow_provider_assistant.api.payloads import ChatMessage, checked
from airflow_provider_assistant.exceptions import AssistantAmbiguousPermanentError
from airflow_provider_assistant.failures import FailureContext
from airflow_provider_assistant.hooks.task_parameters import Checks, check_given
from airflow_provider_assistant.operators.base import AssistantOperator
from airflow_provider_assistant.operators.datasets import publish_run
from airflow_provider_assistant.texts import counted

T = TypeVar("T")
OnAmbiguous: TypeAlias = Literal["retry", "skip", "fail"]
# Columns of the dataset of answers that depend on the reply.
ANSWER_COLUMNS = ("asked_at", "status", "error", "seconds", "confidence_level", "confidence_score", "request_id")


class AssistantMessageOperator(AssistantOperator):
    """
    Base of the operators that send one message.

    :param session_id: The session. Reuse it to continue a conversation.
    :param message: The user's message.
    :param user_email: E-mail address of the end user. Default: None, not sent. Airflow's own parameter ``email`` is the
        address for alerts, and is not sent.
    :param response_language: Language code of the reply, such as ``en``. Default: None, the service chooses.
    :param on_ambiguous: What to do if the message may have reached the service although no usable reply came back.
        ``retry`` (default) sends it again after a 5xx status or a broken connection, up to the connection's
        ``retries``. After a ``POST …/chat`` that timed out, the service may still be working on the answer, so the try
        fails, and only a retry of the task sends the message again. ``skip`` skips the task; ``fail`` fails it without
        retries.
    :param lake_path: Folder of the datasets. If set, the operator also writes the answer to the dataset ``answers``.
        Default: None.

    The other parameters are those of :class:`~airflow_provider_assistant.operators.base.AssistantOperator`.
    """

    template_fields: Sequence[str] = (
        *AssistantOperator.template_fields,
        "session_id",
        "message",
        "user_email",
        "response_language",
        "lake_path",
    )
    parameter_checks: ClassVar[Checks] = {
        "session_id": parameters.text,
        "message": parameters.prose,
        "user_email": parameters.prose,
        "response_language": parameters.prose,
        "on_ambiguous": parameters.choice(*get_args(OnAmbiguous)),
        "lake_path": parameters.folder,
    }

    def __init__(
        self,
        *,
        session_id: str,
        message: str,
        user_email: str | None = None,
        response_language: str | None = None,
        on_ambiguous: OnAmbiguous = "retry",
        lake_path: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.session_id = session_id
        self.message = message
        self.user_email = user_email
        self.response_language = response_language
        self.on_ambiguous = on_ambiguous
        self.lake_path = lake_path
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

    def _send(self, call: Call[T]) -> T:
        return self.hook.send(call, "retry" if self.on_ambiguous == "retry" else "fail")

    @contextlib.contextmanager
    def _skipping(self) -> Iterator[None]:
        """
        Skip the task if the outcome of its message is ambiguous and ``on_ambiguous`` is ``skip``.

        :raises AirflowSkipException: Replaces AssistantAmbiguousPermanentError if ``on_ambiguous`` is ``skip``.
        """
        try:
            yield
        except AssistantAmbiguousPermanentError as error:
            if self.on_ambiguous == "skip":
                raise AirflowSkipException(f"Skipped: {error}") from error
            raise

    def _publish_answer(self, context: Context, answer: Mapping[str, Any]) -> None:
        """
        Write the answer to the dataset ``answers``, if the task has the folder of the datasets.

        :param answer: ``text``, and some of the columns ``ANSWER_COLUMNS``.
        """
        if self.lake_path is None:
            return
        row = {
            **self.hook.site().columns(),
            "kind": "chat",
            "name": self.task_id,
            "repetition": 1,
            "question": self.message,
            "session_id": self.session_id,
            "answer": answer["text"],
            **{name: answer.get(name) for name in ANSWER_COLUMNS},
        }
        publish_run(self, context, [row], self.lake_path, lake.ANSWERS)

    def _note_duplicates(self, context: Context, count: int) -> None:
        """Log the number of earlier attempts that the service may also have accepted, and push it to XCom."""
        if count:
            self.log.warning(
                "The service may also have accepted at least %s: session %r may contain the message more than once.",
                counted(count, "earlier attempt"), self.session_id,
            )  # fmt: skip
            context["ti"].xcom_push(key="possibly_duplicated", value=count)
