"""The operator that rates one answer (``POST …/chat/feedback``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow.providers.common.compat.sdk import Context

from airflow_provider_assistant.api.payloads import Feedback, checked
from airflow_provider_assistant.api.ratings import check_rating
from airflow_provider_assistant.failures import FailureContext, explained
from airflow_provider_assistant.feedback.ratings import REPEATED, Rating, is_repeated, outcome_of_rating
from airflow_provider_assistant.hooks.task_parameters import check_given, check_rendered
from airflow_provider_assistant.operators.message import AssistantLedgerOperator
from airflow_provider_assistant.sending.batch import Batch


class AssistantFeedbackOperator(AssistantLedgerOperator):
    """
    Rate the answer to one chat request (``POST …/chat/feedback``).

    The API cannot return feedback, so the operator records in the ledger what it sent. It does not send a rating that
    is already the latest one of its request. It sends a rating again if the last attempt is ambiguous. Use
    :class:`~airflow_provider_assistant.operators.feedback_batch.AssistantRateAnswersOperator` to rate many answers.

    .. seealso::
        For more information on how to use this operator, take a look at the guide:
        :doc:`/evaluate/feedback`

    :param session_id: The session of the rated answer.
    :param request_id: The chat request.
    :param feedback: The rating: ``good`` or ``bad``.

    The other parameters are those of :class:`~airflow_provider_assistant.operators.message.AssistantLedgerOperator`.
    """

    template_fields: Sequence[str] = (*AssistantLedgerOperator.template_fields, "session_id", "request_id", "feedback")

    def __init__(self, *, session_id: str, request_id: str, feedback: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.session_id = session_id
        self.request_id = request_id
        self.feedback = feedback
        check_given(self)

    @explained
    def execute(self, context: Context) -> dict[str, Any]:
        """
        Send the rating unless it was sent before.

        :return: ``request_id``, ``session_id``, ``site_id``, ``feedback``; ``sent``, whether this run sent it
            and the service accepted it; and ``repeated``, whether the service did not accept it, because
            the request had been rated before.
        :raises AssistantInputError: The rating is another word, and nothing was sent.
        :raises AssistantLedgerError: The ledger cannot be used.
        :raises AssistantError: Any other error.
        """
        check_rendered(self, context)
        site_id = self.hook.resolve_site_id()
        fields = {"session_id": self.session_id, "request_id": self.request_id, "feedback": self.feedback}
        checked(Feedback, fields)
        check_rating(self.feedback)
        result = {**fields, "site_id": site_id, "sent": False, "repeated": False}
        rating = Rating(self.session_id, self.request_id, self.feedback)
        with self._attempts(context, "rating") as (_, ledger):
            item = rating.item(site_id, ledger.known([rating.ledger_key]).get(rating.ledger_key, ()))
            if item is None:
                self.log.info("Request %r of site %r has this rating already.", self.request_id, site_id)
                return result
            if item.is_repeat:
                self.log.warning("An earlier attempt at this rating may have been received. Sending it again.")
            self._batch = Batch(ledger, self.hook.settings.client, outcome_of=outcome_of_rating)
            reply = self._batch.send_one(item)
        result["repeated"] = is_repeated(item, reply)
        result["sent"] = not result["repeated"]
        if result["repeated"]:
            self.log.warning("The service did not accept the rating %r: %s.", self.feedback, REPEATED)
        else:
            self.log.info("Rated request %r of site %r: %s.", self.request_id, site_id, self.feedback)
        return result

    def failure_context(self, context: Context) -> FailureContext:  # noqa: ARG002
        """Return the rating and its request, for the log lines of a failure."""
        return FailureContext(f"rating {self.feedback!r} of request {self.request_id!r} on {self.hook.location()}")
