"""Ask the judges about all answers, several at once, and keep every verdict."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, TypeAlias

from airflow_provider_assistant.api import flow
from airflow_provider_assistant.client.cancellation import GRACE, CancellableRunner
from airflow_provider_assistant.client.worker_pool import CircuitBreaker, for_each
from airflow_provider_assistant.evaluation.agreement import agreement
from airflow_provider_assistant.evaluation.judge_summary import Agreement, JudgeSummary
from airflow_provider_assistant.evaluation.judging.asking import ModelHost
from airflow_provider_assistant.evaluation.judging.host_limits import refuses_all
from airflow_provider_assistant.evaluation.judging.pairs import SCORES, pair_counts
from airflow_provider_assistant.evaluation.judging.prompts import PROMPT_VERSION
from airflow_provider_assistant.evaluation.judging.verdicts import verdicts_table
from airflow_provider_assistant.evaluation.rules import JUDGE, PAIRWISE
from airflow_provider_assistant.exceptions import (
    AssistantBadRequestError,
    AssistantError,
    AssistantIncompleteError,
    AssistantJudgeLimitError,
    AssistantNotFoundError,
    AssistantPermissionError,
    AssistantStorageError,
)
from airflow_provider_assistant.observability import tracing
from airflow_provider_assistant.texts import counted

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_assistant.client.rate_limited import RateLimitedClient
    from airflow_provider_assistant.evaluation.case import Case, Identity
    from airflow_provider_assistant.evaluation.judging.labels import Assignment
    from airflow_provider_assistant.evaluation.judging.pairs import Pair
    from airflow_provider_assistant.evaluation.judging.replies import Completion
    from airflow_provider_assistant.evaluation.judging.requests import JudgeRequest
    from airflow_provider_assistant.evaluation.judging.rubrics import JudgeOptions, Rubric
    from airflow_provider_assistant.evaluation.judging.verdicts import Verdict
    from airflow_provider_assistant.evaluation.scorers import Scorer

log = logging.getLogger(__name__)

# Consecutive failures after which the model counts as unavailable.
BREAKER = 20
# Number of failed requests in the log. All of them are in the file of scores.
LOGGED = 20
# Questions that the host refuses one by one, before the others are asked at the same time.
ALONE = 5
# New verdicts after which the file of verdicts is written; more if it is long, because it is written as a whole.
SAVE_EVERY, SAVE_SHARE = 100, 0.1
CANCELLED = "judging was stopped from outside; a retry judges the answers that have no verdict yet"


# A request after its content hash.
_Hashed: TypeAlias = "tuple[str, JudgeRequest]"


class Judging:
    """
    The judges of one evaluation, and their verdicts.

    :param known: Verdicts of an earlier attempt by content hash.
    :param save: Function that replaces the file of verdicts. It is called in a thread, one call at a time.
    """

    def __init__(
        self,
        assignment: Assignment,
        model: str,
        options: JudgeOptions,
        *,
        known: Mapping[str, Verdict],
        save: Callable[[pa.Table], object],
    ) -> None:
        self._assignment = assignment
        self._model = model
        self._options = options
        self._save = save
        # Equal requests have the same hash.
        self._requests: list[_Hashed] = [(request.content_hash(model), request) for request in assignment.requests]
        self._pairs: dict[Identity, Pair] = {pair.identity: pair for pair in assignment.pairs}
        # The verdicts and the errors so far, by content hash.
        self._known: dict[str, Verdict] = {}
        self._errors: dict[str, AssistantError] = {}
        # Number of tokens that the known verdicts cost, and the replies that were none.
        self._input_tokens = self._output_tokens = 0
        for content_hash in {content_hash for content_hash, _ in self._requests} & known.keys():
            self._known[content_hash] = known[content_hash]
            self._count_tokens(known[content_hash])
        # Number of verdicts in the file.
        self._saved = len(self._known)
        self._saving = asyncio.Lock()
        # All requests have the same key and model, so a 403 or a 404 concerns all of them.
        fatal = (AssistantPermissionError, AssistantNotFoundError, AssistantJudgeLimitError)
        self._breaker = CircuitBreaker(max(BREAKER, options.max_concurrency), *fatal)
        self._host = ModelHost(model, on_completion=self._count_tokens)
        self._runner = CancellableRunner(CANCELLED, grace=GRACE, on_cancel=self._breaker.open)

    def run(self, open_client: Callable[[], RateLimitedClient]) -> None:
        """
        Ask for every verdict that is not known yet.

        A request that fails is the error of this one answer. The file of verdicts holds every verdict so far, also
        after an error.

        :raises AssistantJudgeLimitError: The judges have used ``max_judge_tokens``.
        :raises AssistantIncompleteError: The model is not available, or the task was stopped.
        :raises AssistantError: The host refuses the API key, the model or the rate.
        """
        try:
            self._runner.run(self._run(open_client))
        finally:
            self._save(self._table())
            self._log_cost()
        error = self._breaker.error
        if error is None:
            return
        if self._breaker.is_fatal(error) or isinstance(error, AssistantIncompleteError | AssistantBadRequestError):
            raise error
        raise AssistantIncompleteError(
            f"{counted(self._breaker.failures, 'answer')} in a row could not be judged, and the others were not tried. "
            f"The last error: {error.happened}",
            todo=f"{error.todo or ''} A retry continues with them.".strip(),
        )

    def cancel(self) -> None:
        """Stop asking, and make :meth:`run` return within a few seconds. A signal handler may call this."""
        self._runner.cancel()

    def bound(self, scorer: Scorer) -> Scorer:
        """
        Return a scorer that looks up the verdicts, if it is a judge; any other scorer is returned as it is.

        The score of a pair is 1 if the answer is better than that of the baseline, -1 if it is worse, and 0 for a tie.
        """
        if scorer.name == PAIRWISE:
            return replace(scorer, score=self._preference)
        if not scorer.name.startswith(JUDGE):
            return scorer
        hash_by_case: dict[Identity, str] = {}
        for content_hash, request in self._requests:
            if request.rubric.scorer == scorer.name and not request.is_label:
                hash_by_case[request.key, request.repetition] = content_hash

        def score(case: Case) -> float | None:
            content_hash = hash_by_case.get(case.identity)
            return None if content_hash is None else self._verdict(content_hash).score

        return replace(scorer, score=score)

    def summaries(self, rubrics: Sequence[Rubric]) -> dict[str, JudgeSummary]:
        """Return model, rubric, tokens and agreement of every judge, by scorer."""
        return {rubric.scorer: self._summary(rubric) for rubric in rubrics}

    def reasons(self) -> dict[tuple[str, int, str], str]:
        """Return the reasons of the judges by key of the question, number of its repetition, and scorer."""
        reasons = {}
        for content_hash, request in self._requests:
            verdict = self._known.get(content_hash)
            # The two requests of a pair have one reason together, see below.
            if verdict and request.second is None and not request.is_label:
                reasons[request.key, request.repetition, request.rubric.scorer] = verdict.reason
        for pair in self._pairs.values():
            reason = pair.reason(self._known_verdicts(pair))
            if reason:
                reasons[pair.key, pair.repetition, PAIRWISE] = reason
        return reasons

    def _preference(self, case: Case) -> float | None:
        """Return how much better an answer is than that of the baseline; None if there is no pair."""
        pair = self._pairs.get(case.identity)
        if pair is None:
            return None
        verdicts = [self._verdict(request.content_hash(self._model)) for request in pair.requests]
        return SCORES[pair.result(verdicts)]

    def _verdict(self, content_hash: str) -> Verdict:
        """Return a verdict. Raise the error of a request that failed."""
        if content_hash in self._errors:
            raise self._errors[content_hash]
        return self._known[content_hash]

    def _known_verdicts(self, pair: Pair) -> list[Verdict | None]:
        return [self._known.get(request.content_hash(self._model)) for request in pair.requests]

    def _summary(self, rubric: Rubric) -> JudgeSummary:
        # By content hash: equal requests are sent once, so their tokens count once.
        hashes = {content_hash for content_hash, request in self._requests if request.rubric == rubric}
        verdicts = [self._known[content_hash] for content_hash in hashes & self._known.keys()]
        input_tokens = sum(verdict.input_tokens for verdict in verdicts)
        output_tokens = sum(verdict.output_tokens for verdict in verdicts)
        counts = None
        if rubric.is_pairwise:
            counts = pair_counts([(pair, self._known_verdicts(pair)) for pair in self._assignment.pairs])
        return JudgeSummary(
            model=self._model,
            rubric=rubric.text,
            prompt_version=PROMPT_VERSION,
            input_tokens=input_tokens,
            output_tokens=output_tokens,
            cost=self._options.cost(input_tokens, output_tokens),
            agreement=self._agreement(rubric),
            pairs=counts,
        )

    def _agreement(self, rubric: Rubric) -> Agreement | None:
        """Return the agreement of a judge with people; None without labels."""
        labels = [label for label in self._assignment.labels if label.request.rubric == rubric]
        ties = self._assignment.ties.get(rubric.scorer, 0)
        if not labels and not ties:
            return None
        # Whether the answer passes: by the label, and by the judge.
        passes_of_both: list[tuple[bool, bool]] = []
        for label in labels:
            verdict = self._known.get(label.request.content_hash(self._model))
            if verdict is not None:
                passes_of_both.append((label.passes, verdict.verdict == "pass"))
        return agreement(passes_of_both, ties=ties)

    async def _run(self, open_client: Callable[[], RateLimitedClient]) -> None:
        # Equal requests have the same hash and are sent only once.
        request_by_hash = dict(self._requests)
        waiting = [hashed for hashed in request_by_hash.items() if hashed[0] not in self._known]
        log.info("Asking for %s; %d known.", counted(len(waiting), "verdict"), len(self._known))
        if not waiting:
            return
        # One span for all requests: a trace with thousands of spans is not readable.
        with tracing.span("judge", requests=len(waiting)):
            async with open_client() as client:
                await client.prepare()

                async def ask(hashed: _Hashed) -> None:
                    self._check_limit(len(request_by_hash))
                    content_hash, request = hashed
                    self._known[content_hash] = await self._host.ask(client, request)
                    await self._save_sometimes()

                rest = iter(waiting)
                await self._ask_first(rest, ask)
                await for_each(
                    rest,
                    ask,
                    max_concurrency=self._options.max_concurrency,
                    breaker=self._breaker,
                    on_error=self._record_error,
                )

    async def _ask_first(self, waiting: Iterator[_Hashed], ask: Callable[[_Hashed], Awaitable[None]]) -> None:
        """
        Ask the first question alone: what all requests would get costs one of them.

        A refusal may be about this question only, so the next one is asked, until the host takes one. Two bodies in a
        row that no model's host sends show a wrong address.
        """
        earlier: str | None = None
        strange_bodies = 0
        for question in islice(waiting, ALONE):
            try:
                await ask(question)
            except AssistantBadRequestError as error:
                self._record_error(question, error)
                if refuses_all(error.detail, earlier):
                    happened = f"the host of the model would refuse every request of the judges: {error.happened}"
                    self._breaker.open(replace(error, happened=happened))
                    return
                earlier = error.detail
            except AssistantError as error:
                self._breaker.failed(error)
                self._record_error(question, error)
                if error.todo != flow.CHECK_BASE_URL:
                    return
                strange_bodies += 1
                if strange_bodies == 2:
                    self._breaker.open(error)
                    return
            else:
                return

    def _count_tokens(self, counted: Verdict | Completion) -> None:
        self._input_tokens += counted.input_tokens
        self._output_tokens += counted.output_tokens

    def _log_cost(self) -> None:
        cost = self._options.cost(self._input_tokens, self._output_tokens)
        log.info(
            "The judges have given %s, for %s of prompts and %s of replies%s.",
            counted(len(self._known), "verdict"),
            counted(self._input_tokens, "token"),
            counted(self._output_tokens, "token"),
            "" if cost is None else f", which cost {cost:.4g}",
        )

    def _check_limit(self, total: int) -> None:
        limit = self._options.max_judge_tokens
        if limit is None:
            return
        used = self._input_tokens + self._output_tokens
        # Every verdict costs tokens, so a total of 0 means that the host does not report them.
        if self._known and not used:
            raise AssistantJudgeLimitError(
                "judge: the host of the model does not report the number of tokens, so max_judge_tokens cannot hold",
                todo="Remove it.",
            )
        if used >= limit:
            raise AssistantJudgeLimitError(
                f"The judges have used {counted(used, 'token')}, and max_judge_tokens is {limit:,}",
                safe=f"Known: {len(self._known)} of {counted(total, 'verdict')}. A retry does not pay for these again.",
                todo="Raise max_judge_tokens, or evaluate fewer questions.",
            )

    def _record_error(self, hashed: _Hashed, error: AssistantError) -> None:
        self._errors[hashed[0]] = error
        if len(self._errors) <= LOGGED and not self._breaker.is_fatal(error):
            log.warning("No verdict: %s", error.happened)

    async def _save_sometimes(self) -> None:
        """Save the verdicts if there are enough new ones, and they are not being saved already."""
        unsaved = len(self._known) - self._saved
        enough = max(SAVE_EVERY, int(SAVE_SHARE * self._saved))
        if unsaved < enough or self._saving.locked():
            return
        async with self._saving:
            self._saved = len(self._known)
            try:
                await asyncio.to_thread(lambda: self._save(self._table()))
            except AssistantStorageError as error:
                # The end of the run writes the file once more, and fails if it cannot.
                log.warning("The verdicts so far were not saved: %s", error)

    def _table(self) -> pa.Table:
        return verdicts_table(self._requests, self._known)
