"""The operator that rates one answer (``POST …/chat/feedback``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from airflow.providers.common.compat.sdk import Context

from airflow_provider_assistant import parameters
from airflow_provider_assistant.api import endpoints
from airflow_provider_assistant.api.call import Call
from airflow_provider_assistant.api.payloads import Feedback, checked
from airflow_provider_assistant.api.ratings import RatingReply, check_rating
from airflow_provider_assistant.failures import FailureContext, explained
from airflow_provider_assistant.feedback.ratings import (
    REPEATED,
    is_repeated,
    is_sent,
    may_be_sent,
    outcome_of_rating,
    rating_claim,
    rating_key,
)
from airflow_provider_assistant.hooks.task_ledger import open_ledger
from airflow_provider_assistant.hooks.task_parameters import Checks, check_given, check_rendered
from airflow_provider_assistant.ledger import Ledger, Outcome, RunRef, Scope
from airflow_provider_assistant.names import task_name
from airflow_provider_assistant.operators.base import AssistantOperator
from airflow_provider_assistant.sending.decide import Item
from airflow_provider_assistant.sending.once import send_once


class AssistantFeedbackOperator(AssistantOperator):
    """
    Rate the answer to one chat request (``POST …/chat/feedback``).

    The API cannot return feedback, so the operator records in the ledger what it sent. It does not send a rating that
    is already the latest one of its request. It sends a rating again if the last attempt is ambiguous. Use
    :class:`~airflow_provider_assistant.operators.feedback_batch.AssistantRateAnswersOperator` to rate many answers.

    .. seealso::
        For more information on how to use this operator, take a look at the guide:
        :doc:`/evaluate/feedback`

    :param session_id: Session of the chat request.
    :param request_id: The chat request.
    :param feedback: The rating: ``good``, ``bad``, or another word in ``rating_words`` of the connection.
    :param ledger: Whether to use the ledger. Default: True. Without it, a retry sends the rating again.
    :param ledger_conn_id: SQL connection of the ledger. Default: that of the assistant connection, or else of
        Airflow's configuration.

    The other parameters are those of :class:`~airflow_provider_assistant.operators.base.AssistantOperator`.
    """

    template_fields: Sequence[str] = (
        *AssistantOperator.template_fields,
        "session_id",
        "request_id",
        "feedback",
        "ledger_conn_id",
    )

    parameter_checks: ClassVar[Checks] = {
        "session_id": parameters.text,
        "request_id": parameters.text,
        "feedback": parameters.text,
        "ledger": parameters.flag,
        "ledger_conn_id": parameters.text,
    }

    def __init__(
        self,
        *,
        session_id: str,
        request_id: str,
        feedback: str,
        ledger: bool = True,
        ledger_conn_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.session_id = session_id
        self.request_id = request_id
        self.feedback = feedback
        self.ledger = ledger
        self.ledger_conn_id = ledger_conn_id
        check_given(self)

    @explained
    def execute(self, context: Context) -> dict[str, Any]:
        """
        Send the rating unless it was sent before.

        :param context: Airflow's task context.
        :return: ``request_id``, ``session_id``, ``site_id``, ``feedback``; ``sent``, whether this run sent it
            and the service accepted it; and ``repeated``, whether the service did not accept it, because
            the request had been rated before.
        :raises AssistantInputError: The rating is not one of the connection's ``rating_words``, and nothing
            was sent.
        :raises AssistantLedgerError: The ledger cannot be used.
        :raises AssistantError: Any other error, see :func:`airflow_provider_assistant.api.flow.perform`.
        """
        check_rendered(self, context)
        site_id = self.hook.resolve_site_id()
        fields = {
            "session_id": self.session_id,
            "request_id": self.request_id,
            "feedback": self.feedback,
        }
        rating = checked(Feedback, fields)
        check_rating(rating.feedback, self.hook.settings.client.rating_words)
        call = endpoints.send_feedback(site_id, rating)
        with open_ledger(self) as ledger:
            has_sent, was_rated_before = self._send_once(context, ledger, call)
        request_id = self.request_id
        if was_rated_before:
            self.log.warning(
                "The rating %r of request %r on site %r was not accepted: %s.",
                self.feedback,
                request_id,
                site_id,
                REPEATED,
            )
        else:
            rated = "Rated" if has_sent else "An earlier run had already rated"
            self.log.info("%s request %r on site %r: %s.", rated, request_id, site_id, self.feedback)
        return {**fields, "site_id": site_id, "sent": has_sent, "repeated": was_rated_before}

    def _send_once(self, context: Context, ledger: Ledger, call: Call[RatingReply]) -> tuple[bool, bool]:
        """
        Send the rating unless it is the latest one of its request.

        :return: Whether this run sent it and the service accepted it, and whether the request had been
            rated before.
        """
        scope = Scope(self.hook.site(), "rating")
        run = RunRef.of(context)
        key = rating_key(self.session_id, self.request_id)
        with ledger.of(scope, task_name(run.dag_id, run.task_id), run) as ratings:
            attempts = ratings.known([key]).get(key, ())
            if is_sent(attempts, self.feedback):
                return False, False
            may_be_earlier = may_be_sent(attempts, self.feedback)
            if may_be_earlier:
                self.log.warning("An earlier attempt at this rating may have been received. Sending it again.")

            def outcome_of(item: Item, reply: RatingReply) -> Outcome:
                item.is_repeat = may_be_earlier
                return outcome_of_rating(item, reply)

            reply = send_once(
                ratings,
                call,
                lambda known: rating_claim(self.session_id, self.request_id, self.feedback, known),
                key,
                lambda: self.hook.send(call),
                outcome_of,
            )
        was_rated_before = is_repeated(reply, may_be_earlier=may_be_earlier)
        return not was_rated_before, was_rated_before

    def failure_context(self, context: Context) -> FailureContext:  # noqa: ARG002
        """Return the rating and its request, for the log lines of a failure."""
        return FailureContext(f"rating {self.feedback!r} of request {self.request_id!r} on {self.hook.location()}")
