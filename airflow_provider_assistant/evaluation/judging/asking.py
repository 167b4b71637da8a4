"""Ask a model's host for verdicts, and leave out what it does not support."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from airflow_provider_assistant.api import errors, flow
from airflow_provider_assistant.api.call import Response
from airflow_provider_assistant.evaluation.judging.host_limits import unsupported
from airflow_provider_assistant.exceptions import (
    AssistantAPIError,
    AssistantAuthenticationError,
    AssistantBadRequestError,
    AssistantNotFoundError,
    AssistantPermissionError,
    AssistantRateLimitError,
)

if TYPE_CHECKING:
    from airflow_provider_assistant.client.rate_limited import RateLimitedClient
    from airflow_provider_assistant.evaluation.judging.replies import Completion
    from airflow_provider_assistant.evaluation.judging.requests import JudgeRequest
    from airflow_provider_assistant.evaluation.judging.verdicts import Verdict

log = logging.getLogger(__name__)

SAVED = "The verdicts so far are saved; a retry asks only for the others."
_TODO: dict[type[AssistantAPIError], str] = {
    AssistantAuthenticationError: "Fix the API key in the password of the judge's Airflow connection.",
    AssistantPermissionError: "Check what the API key of the judge's Airflow connection may use.",
    AssistantNotFoundError: "Check the name of the model, and the host in the judge's Airflow connection.",
    AssistantRateLimitError: "Wait, lower max_concurrency of the judge, or raise the limit at the host of the model.",
    AssistantBadRequestError: "Check the name of the model and what its host says, or use another model.",
}


class ModelHost:
    """
    The host of a model.

    :param model: Name of the model.
    :param on_completion: Called with every completion, also with one that is not a verdict.
    """

    def __init__(self, model: str, on_completion: Callable[[Completion], None]) -> None:
        self._model = model
        self._on_completion = on_completion
        # What the host does not support.
        self._left_out: set[str] = set()
        self._rng = random.Random()  # noqa: S311 (jitter is no secret)

    async def ask(self, client: RateLimitedClient, request: JudgeRequest) -> Verdict:
        """
        Return the verdict for a request.

        :raises AssistantError: The host refuses the request or is not available, or its reply is not a verdict.
        """
        try:
            return await client.arun(self._flow(request, client))
        except AssistantAPIError as error:
            raise _error_of_host(error, request) from None

    def _flow(self, request: JudgeRequest, client: RateLimitedClient) -> flow.Flow[Verdict]:
        """Send a request, and send it again without what a refusal names."""
        while True:
            left_out = frozenset(self._left_out)
            call = request.call(self._model, without=left_out, on_completion=self._on_completion)
            attempts = flow.perform(call, client.settings.retry, now=client.now, rng=self._rng, outage=client.outage)
            refused: set[str] = set()
            try:
                step = next(attempts)
                while not refused:
                    outcome = yield step
                    if isinstance(outcome, Response):
                        refused = unsupported(outcome, request.texts) - left_out
                    if not refused:
                        step = attempts.send(outcome)
            except StopIteration as end:
                verdict: Verdict = end.value
                return verdict
            # Other requests in flight may have found it as well.
            for name in sorted(refused - self._left_out):
                log.warning("The model %s does not support %s: the judges ask without it.", self._model, name)
            self._left_out |= refused


def _error_of_host(error: AssistantAPIError, request: JudgeRequest) -> AssistantAPIError:
    """Return the error in words about a model: those of the service are about documents and sites."""
    happened = f"{errors.short_reason(error)} from the host of the model ({request.subject})"
    if error.detail:
        happened += f". It said: {error.detail!r}"
    return replace(error, happened=happened, safe=SAVED, todo=_TODO.get(type(error), error.todo))
