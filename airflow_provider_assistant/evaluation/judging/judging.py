"""Ask the judges about all answers, several at once, and keep every verdict."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from airflow_provider_assistant.api import flow
from airflow_provider_assistant.client.cancellation import GRACE, CancellableRunner
from airflow_provider_assistant.client.worker_pool import CircuitBreaker, for_each
from airflow_provider_assistant.evaluation.agreement import agreement
from airflow_provider_assistant.evaluation.judging.pairs import SCORES, pair_counts
from airflow_provider_assistant.evaluation.judging.prompts import PROMPT_VERSION
from airflow_provider_assistant.evaluation.judging.verdicts import verdicts_table
from airflow_provider_assistant.evaluation.rules import JUDGE, PAIRWISE
from airflow_provider_assistant.evaluation.summary import JudgeSummary, PairCounts
from airflow_provider_assistant.exceptions import (
    AssistantError,
    AssistantIncompleteError,
    AssistantJudgeLimitError,
    AssistantNotFoundError,
    AssistantPermissionError,
    AssistantStorageError,
)
from airflow_provider_assistant.observability import tracing

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_assistant.client.rate_limited import RateLimitedClient
    from airflow_provider_assistant.evaluation.case import Case
    from airflow_provider_assistant.evaluation.judging.labels import Work
    from airflow_provider_assistant.evaluation.judging.requests import JudgeRequest, Verdict
    from airflow_provider_assistant.evaluation.judging.rubrics import JudgeOptions, Rubric
    from airflow_provider_assistant.evaluation.scorers import Scorer

log = logging.getLogger(__name__)

# Consecutive failures after which the model counts as unavailable.
BREAKER = 20
# Number of failed requests in the log. All of them are in the file of scores.
LOGGED = 20
# New verdicts after which the file of verdicts is written; more if it is long, because it is written as a whole.
SAVE_EVERY, SAVE_SHARE = 100, 0.1
CANCELLED = "judging was stopped from outside; a retry judges the answers that have no verdict yet"


class Judging:
    """
    The judges of one evaluation, and their verdicts.

    :param work: What there is to judge.
    :param model: Name of the model.
    :param options: Options of the judges.
    :param known: Verdicts of an earlier attempt by content hash.
    :param save: Function that replaces the file of verdicts. It is called in a thread, one call at a time.
    """

    def __init__(
        self,
        work: Work,
        model: str,
        options: JudgeOptions,
        *,
        known: Mapping[str, Verdict],
        save: Callable[[pa.Table], object],
    ) -> None:
        self._work = work
        self._model = model
        self._options = options
        self._save = save
        self._hashes = [request.content_hash(model) for request in work.requests]
        self._pairs = [(pair, [request.content_hash(model) for request in pair.requests]) for pair in work.pairs]
        needed = set(self._hashes)
        self._known = {content_hash: verdict for content_hash, verdict in known.items() if content_hash in needed}
        self._errors: dict[str, AssistantError] = {}
        self._tokens = sum(verdict.input_tokens + verdict.output_tokens for verdict in self._known.values())
        self._saved = len(self._known)
        self._saving = asyncio.Lock()
        # All requests have the same key and model, so a 403 or a 404 concerns all of them.
        fatal = (AssistantPermissionError, AssistantNotFoundError, AssistantJudgeLimitError)
        self._breaker = CircuitBreaker(max(BREAKER, options.max_concurrency), *fatal)
        self._runner = CancellableRunner(CANCELLED, grace=GRACE, on_cancel=self._breaker.open)

    def run(self, open_client: Callable[[], RateLimitedClient]) -> None:
        """
        Ask for every verdict that is not known yet.

        A request that fails is the error of this one answer. The file of verdicts holds every verdict so far, also
        after an error.

        :param open_client: Function that returns the client of the model's host.
        :raises AssistantJudgeLimitError: The judges have used ``max_judge_tokens``.
        :raises AssistantIncompleteError: The model is not available, or the task was stopped.
        :raises AssistantError: The host refuses the API key, the model or the rate.
        """
        try:
            self._runner.run(self._run(open_client))
        finally:
            self._save(self._table())
        error = self._breaker.error
        if error is None:
            return
        if self._breaker.is_fatal(error) or isinstance(error, AssistantIncompleteError):
            raise error
        raise AssistantIncompleteError(
            f"{self._breaker.failures} answers in a row could not be judged, and the others were not tried. "
            f"The last error: {error.happened}",
            todo="A retry continues with them.",
        )

    def cancel(self) -> None:
        """Stop asking, and make :meth:`run` return within a few seconds. A signal handler may call this."""
        self._runner.cancel()

    def bound(self, scorer: Scorer) -> Scorer:
        """
        Return a scorer that looks up the verdicts, if it is a judge; any other scorer is returned as it is.

        The score of a pair is 1 if the answer is better than that of the baseline, -1 if it is worse, and 0 for a tie.

        :param scorer: The scorer.
        """
        if scorer.name == PAIRWISE:
            return self._comparing(scorer)
        if not scorer.name.startswith(JUDGE):
            return scorer
        hashes = {
            (request.key, request.repetition): content_hash
            for request, content_hash in zip(self._work.requests, self._hashes, strict=True)
            if request.rubric.scorer == scorer.name and not request.is_label
        }

        def score(case: Case) -> float | None:
            content_hash = hashes.get((case.key, case.repetition))
            if content_hash in self._errors:
                raise self._errors[content_hash]
            return None if content_hash is None else self._known[content_hash].score

        return replace(scorer, score=score)

    def summaries(self, rubrics: Sequence[Rubric]) -> dict[str, JudgeSummary]:
        """
        Return model, rubric, tokens and agreement of every judge.

        :param rubrics: The rubrics.
        :return: The summaries by scorer.
        """
        return {rubric.scorer: self._summary(rubric) for rubric in rubrics}

    def reasons(self) -> dict[tuple[str, int, str], str]:
        """Return the reasons of the judges by key of the question, number of its repetition, and scorer."""
        reasons = {
            (request.key, request.repetition, request.rubric.scorer): self._known[content_hash].reason
            for request, content_hash in zip(self._work.requests, self._hashes, strict=True)
            if content_hash in self._known and not request.is_label and request.second is None
        }
        pairs = {
            (pair.key, pair.repetition, PAIRWISE): pair.reason(self._verdicts(hashes)) for pair, hashes in self._pairs
        }
        return reasons | {identity: reason for identity, reason in pairs.items() if reason}

    def _comparing(self, scorer: Scorer) -> Scorer:
        pairs = {(pair.key, pair.repetition): (pair, hashes) for pair, hashes in self._pairs}

        def score(case: Case) -> float | None:
            if (case.key, case.repetition) not in pairs:
                return None
            pair, hashes = pairs[case.key, case.repetition]
            for content_hash in hashes:
                if content_hash in self._errors:
                    raise self._errors[content_hash]
            return SCORES[pair.result(self._verdicts(hashes))]

        return replace(scorer, score=score)

    def _verdicts(self, hashes: Sequence[str]) -> list[Verdict | None]:
        return [self._known.get(content_hash) for content_hash in hashes]

    def _summary(self, rubric: Rubric) -> JudgeSummary:
        hashes = {
            content_hash
            for request, content_hash in zip(self._work.requests, self._hashes, strict=True)
            if request.rubric == rubric and content_hash in self._known
        }
        verdicts = [self._known[content_hash] for content_hash in hashes]
        input_tokens = sum(verdict.input_tokens for verdict in verdicts)
        output_tokens = sum(verdict.output_tokens for verdict in verdicts)
        labels = [label for label in self._work.labels if label.request.rubric == rubric]
        pairs = [
            (label.passes, verdict.verdict == "pass")
            for label in labels
            if (verdict := self._known.get(label.request.content_hash(self._model)))
        ]
        return JudgeSummary(
            model=self._model,
            rubric=rubric.text,
            prompt_version=PROMPT_VERSION,
            input_tokens=input_tokens,
            output_tokens=output_tokens,
            cost=self._options.cost(input_tokens, output_tokens),
            agreement=agreement(pairs) if labels else None,
            pairs=self._pair_counts() if rubric.is_pairwise else None,
        )

    def _pair_counts(self) -> PairCounts:
        return pair_counts([(pair, self._verdicts(hashes)) for pair, hashes in self._pairs])

    async def _run(self, open_client: Callable[[], RateLimitedClient]) -> None:
        # Equal requests have the same hash and are sent only once.
        unique = dict(zip(self._hashes, self._work.requests, strict=True))
        waiting = [item for item in unique.items() if item[0] not in self._known]
        log.info("Asking for %d verdicts; %d are known.", len(waiting), len(self._known))
        if not waiting:
            return
        jitter = random.Random()  # noqa: S311 (jitter is no secret)
        # One span for all requests: a trace with thousands of spans is not readable.
        with tracing.span("judge", requests=len(waiting)):
            async with open_client() as client:
                await client.prepare()

                async def work(item: tuple[str, JudgeRequest]) -> None:
                    self._check_limit(len(unique))
                    call = item[1].call(self._model)
                    verdict = await client.arun(flow.perform(call, client.settings.retry, now=client.now, rng=jitter))
                    self._known[item[0]] = verdict
                    self._tokens += verdict.input_tokens + verdict.output_tokens
                    await self._save_sometimes()

                await for_each(
                    waiting,
                    work,
                    max_concurrency=self._options.max_concurrency,
                    breaker=self._breaker,
                    on_error=self._record_error,
                )

    def _check_limit(self, total: int) -> None:
        limit = self._options.max_judge_tokens
        if limit is None:
            return
        if self._known and not self._tokens:
            raise AssistantJudgeLimitError(
                "judge: the host of the model does not report the number of tokens, so max_judge_tokens cannot hold",
                todo="Remove it.",
            )
        if self._tokens >= limit:
            raise AssistantJudgeLimitError(
                f"The judges have used {self._tokens} tokens, and max_judge_tokens is {limit}",
                safe=f"{len(self._known)} of {total} verdicts are known; a retry does not pay for them again.",
                todo="Raise max_judge_tokens, or evaluate fewer questions.",
            )

    def _record_error(self, item: tuple[str, JudgeRequest], error: AssistantError) -> None:
        self._errors[item[0]] = error
        if len(self._errors) <= LOGGED and not self._breaker.is_fatal(error):
            log.warning("No verdict: %s", error)

    async def _save_sometimes(self) -> None:
        step = max(SAVE_EVERY, int(SAVE_SHARE * self._saved))
        if len(self._known) - self._saved < step or self._saving.locked():
            return
        async with self._saving:
            self._saved = len(self._known)
            try:
                await asyncio.to_thread(lambda: self._save(self._table()))
            except AssistantStorageError as error:
                # The end of the run writes the file once more, and fails if it cannot.
                log.warning("The verdicts so far were not saved: %s", error)

    def _table(self) -> pa.Table:
        return verdicts_table(self._work.requests, self._hashes, self._known)
