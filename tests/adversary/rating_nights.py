"""Nights of many ratings: each is sent once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
from hypothesis import strategies as st

from airflow_provider_assistant.exceptions import AssistantStorageError
from airflow_provider_assistant.feedback.rules import Rating
from airflow_provider_assistant.feedback.sender import BREAKER, FeedbackSender, RatingCounts
from airflow_provider_assistant.hooks.assistant import AssistantHook
from airflow_provider_assistant.ledger import Ledger, RatingScope, RunRef
from airflow_provider_assistant.loading.findings import FindingsFile
from tests.adversary.request_service import TRIES, Service, Try
from tests.adversary.world import FinishedRequest, World

MAX_PAUSE = 60.0
SITE_WIDE = {401, 403, 429}


@dataclass(frozen=True)
class RatingNight:
    """
    One task that rates many answers, with several tries, the last two of which are without faults.

    :param tries: Tries with faults; two fault-free ones follow.
    :param ratings: Number of ratings.
    :param ledger: Whether the task uses a ledger.
    :param retries: Maximum number of retries per request.
    :param max_concurrency: Maximum number of requests in flight.
    """

    tries: tuple[Try, ...]
    ratings: int = 3
    ledger: bool = True
    retries: int = 2
    max_concurrency: int = 4

    @property
    def requests(self) -> float:
        """Maximum number of requests per try."""
        return self.ratings * (self.retries + 1 + MAX_PAUSE + 10)


def check_ratings(night: RatingNight) -> None:
    """Rate many answers."""
    service = Service()
    world = World(service, retries=night.retries, max_concurrency=night.max_concurrency)
    world.most = night.requests
    with world.entered():
        listed: set[str] = set()
        for number, attempt in enumerate(night.tries, 1):
            before = len(service.ratings)
            counts = RatingCounts()
            ended = world.tried(attempt, lambda _, counts=counts: _rate(world, night, counts), number=number)
            listed |= _listed(world)
            _check_try(night, attempt, ended, counts, len(service.ratings) - before, is_first=number == 1)
        good = RatingCounts()
        ended = world.tried(Try(), lambda _: _rate(world, night, good), number=len(night.tries) + 1)
        listed |= _listed(world)
        assert ended.error is None, repr(ended.error)
        assert good.sent + good.already_sent == night.ratings, "a retry converges"
        made = Counter(request_id for _, request_id, _ in service.ratings)
        assert len(made) == night.ratings
        if night.ledger:
            again = world.tried(Try(), lambda _: _rate(world, night, RatingCounts()), number=9)
            assert not again.entries, "what was rated is not rated again"
            twice = {f"k{one[1:]}" for one, times in made.items() if times > 1}
            assert twice <= listed, "nothing is rated twice without being listed"


def _rate(world: World, night: RatingNight, counts: RatingCounts) -> None:
    ratings = [Rating(f"k{number}", f"s{number}", f"r{number}", "good") for number in range(night.ratings)]
    rate(world, ratings, counts, is_recorded=night.ledger)


def rate(world: World, ratings: Sequence[Rating], counts: RatingCounts, *, is_recorded: bool = True) -> None:
    """
    Send ratings as the operator does.

    :param is_recorded: Whether to use the ledger. Default: True.
    """
    hook = AssistantHook()
    with Ledger.open_optional(is_recorded) as ledger, FindingsFile(_findings(world), always=False) as findings:
        site_id, run = hook.resolve_site_id(), RunRef("dag", "run", "task", -1)
        memory = ledger.ratings(scope=RatingScope(hook.site(site_id)), run=run) if ledger else None
        rater = FeedbackSender(hook.settings.client, site_id=site_id, ledger=memory, findings=findings)
        rater.counts = counts
        rater.send(ratings)


def _check_try(
    night: RatingNight, attempt: Try, ended: FinishedRequest, counts: RatingCounts, made: int, *, is_first: bool
) -> None:
    longest = (night.retries + 1) * (30.0 + 1.2 * MAX_PAUSE + 2) + 3 * MAX_PAUSE
    assert ended.seconds <= night.ratings * (longest + 60), "the time is bounded"
    if ended.is_killed or isinstance(ended.error, AssistantStorageError):
        return
    if attempt.ledger_away is None or ended.entries:
        assert counts.sent + counts.already_sent + counts.failed == night.ratings, "the counts add up"
    assert counts.sent == len(
        [entry for entry in ended.entries if 200 <= entry.status < 300 and _is_read(attempt)]
    ) or (not _is_read(attempt))
    assert counts.sent <= made, "the counts are those of the service"
    odd = [answer for answer in (*attempt.answers, attempt.then) if not answer.is_well]
    is_stopped = any(answer.status in SITE_WIDE for answer in odd) or len(odd) >= BREAKER
    if is_first and attempt.is_undisturbed and attempt.then.is_well and not is_stopped:
        assert ended.error is None, f"some failures do not stop it: {ended.error!r}"
        assert counts.failed <= len(odd), "one bad answer costs one rating"


def _is_read(attempt: Try) -> bool:
    """Return whether every successful response has a readable body."""
    return all(answer.body == "good" for answer in (*attempt.answers, attempt.then))


def _listed(world: World) -> set[str]:
    try:
        rows = pq.read_table(_findings(world)).to_pylist()
    except (FileNotFoundError, ValueError):
        return set()
    return {row["key"] for row in rows if row["kind"] in {"possibly_duplicated", "ambiguous"}}


def _findings(world: World) -> Path:
    return world.folder / "findings.parquet"


# -- generation ------------------------------------------------------------------------------------

RATING_NIGHTS = st.builds(
    RatingNight,
    # Full disks are covered by the nights of loads, which write the same findings.
    tries=st.lists(TRIES.map(lambda one: Try(**{**vars(one), "disk_full": None})), min_size=1, max_size=3).map(tuple),
    ratings=st.sampled_from([1, 2, 5, 30]),
    ledger=st.sampled_from([True, True, True, False]),
    retries=st.integers(0, 3),
    max_concurrency=st.sampled_from([1, 4]),
)
