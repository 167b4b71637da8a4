"""Nights, and the promises that hold in each of them."""

from __future__ import annotations

import contextlib
import random
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pyarrow.parquet as pq
import sqlalchemy as sa
from hypothesis import strategies as st

from airflow_provider_assistant.api import endpoints
from airflow_provider_assistant.api.models import QADocument
from airflow_provider_assistant.exceptions import AssistantError
from airflow_provider_assistant.ledger import Ledger, RunRef
from airflow_provider_assistant.ledger.store import sqlite_engine
from airflow_provider_assistant.loading.limiter import Limiter
from airflow_provider_assistant.loading.loader import BREAKER, Load, LoadOptions
from airflow_provider_assistant.loading.report import Counts, Findings
from airflow_provider_assistant.loading.rows import DataframeRows, mapping_of, wanted_columns
from airflow_provider_assistant.loading.source import open_source
from tests.adversary.service import SECRET, WELL, Answer, Client, Killed, Service
from tests.virtual_time import now, simulated

FIELDS = ("title", "question", "answer", "category")
# These concern every row, and so stop a load at once.
SITE_WIDE = {401, 403, 404, 429}


@dataclass(frozen=True)
class Try:
    """
    One try of a task.

    :param answers: What the service does with its first requests.
    :param then: What it does with all later ones.
    :param killed_at: Number of the request at which the worker is killed, if it is.
    """

    answers: tuple[Answer, ...] = ()
    then: Answer = WELL
    killed_at: int | None = None


@dataclass(frozen=True)
class Night:
    """
    One load, tried again and again until all is well.

    :param rows: How many rows the source has.
    :param tries: The tries; after them comes one in which the service is well, and one more.
    :param max_concurrency: The most requests in flight.
    :param retries: Repetitions of one request.
    :param max_pause: Longest wait for a rate limit, in seconds.
    :param timeout: Seconds after which a client gives up.
    :param on_ambiguous: What to do with rows that may exist.
    """

    rows: int
    tries: tuple[Try, ...]
    max_concurrency: int = 4
    retries: int = 2
    max_pause: float = 60.0
    timeout: float = 30.0
    on_ambiguous: Literal["retry", "skip", "fail"] = "retry"


@dataclass
class Ended:
    """How a try ended."""

    service: Service
    counts: Counts
    error: BaseException | None
    seconds: float
    listed: dict[str, set[str]]


def check(night: Night) -> None:
    """Go through a night, and hold every try and the end against the promises."""
    stored: Counter[str] = Counter()
    listed: set[str] = set()
    with _ledger() as (ledger, folder):
        for number, attempt in enumerate(night.tries):
            ended = _tried(night, attempt, ledger, folder / f"{number}.parquet")
            stored += ended.service.documents
            listed |= ended.listed["possibly_duplicated"] | ended.listed["ambiguous"]
            _check_try(night, attempt, ended, is_first=number == 0)
        good = _tried(night, Try(), ledger, folder / "good.parquet")
        stored += good.service.documents
        listed |= good.listed["possibly_duplicated"] | good.listed["ambiguous"]
        _check_end(night, good, stored, listed)
        again = _tried(night, Try(), ledger, folder / "again.parquet")
        assert again.service.received == 0, "an unchanged source sends nothing"
        assert again.error is None or night.on_ambiguous == "fail"


def _check_try(night: Night, attempt: Try, ended: Ended, *, is_first: bool) -> None:
    counts, error = ended.counts, ended.error
    if isinstance(error, Killed):
        assert attempt.killed_at is not None
        return
    if error is not None:
        assert isinstance(error, AssistantError), repr(error)
        assert str(error)
        assert SECRET not in str(error)
    assert counts.rows == night.rows
    assert counts.done == counts.rows, "the counts add up"
    assert counts.created <= sum(ended.service.documents.values())
    assert counts.requests == ended.service.received, "the counts are those of the service"
    longest = (night.retries + 1) * (night.timeout + 1.2 * night.max_pause + 2) + 3 * night.max_pause + 60
    assert ended.seconds <= night.rows * longest, "the time is bounded"
    odd = [answer for answer in (*attempt.answers, attempt.then) if answer != WELL]
    stops = any(answer.status in SITE_WIDE for answer in odd) or night.on_ambiguous == "fail"
    if attempt.then == WELL and len(odd) < BREAKER and not stops:
        assert error is None, "fewer failures than the breaker counts do not stop a load"
        if is_first:
            lost = counts.rejected + counts.failed + counts.ambiguous
            assert lost <= len(odd), "one bad answer costs one row"


def _check_end(night: Night, good: Ended, stored: Counter[str], listed: set[str]) -> None:
    titles = {_title(number) for number in range(night.rows)}
    missing = titles - set(stored)
    if night.on_ambiguous == "retry":
        assert good.error is None, repr(good.error)
        assert not missing, "a retry converges"
    elif night.on_ambiguous == "skip":
        assert missing <= listed, "what may be missing is listed"
    twice = {title for title, times in stored.items() if times > 1}
    assert twice <= listed, "nothing is created twice without being listed"


def _title(number: int) -> str:
    return f"T{number}"


def _source(night: Night) -> list[dict[str, str]]:
    return [{name: _title(number) for name in FIELDS} for number in range(night.rows)]


def _tried(night: Night, attempt: Try, ledger: Ledger, findings_path: Path) -> Ended:
    service = Service(
        list(attempt.answers),
        attempt.then,
        night.timeout,
        # A rate limit costs a row one request a second at most, and a few more at first.
        most=night.rows * (night.retries + 1 + night.max_pause + 10),
        killed_at=attempt.killed_at,
    )
    kill = _kills(ledger.engine, service)
    counts, error, seconds = Counts(), None, 0.0

    async def main() -> float:
        nonlocal counts, error
        options = LoadOptions(night.max_concurrency, night.max_pause, night.on_ambiguous)
        with contextlib.ExitStack() as stack:
            columns = mapping_of(QADocument, None, None)
            source = stack.enter_context(open_source(_source(night), wanted_columns(QADocument, columns, ["title"])))
            rows = DataframeRows(
                source,
                payload=QADocument,
                columns=columns,
                constants={},
                key_columns=["title"],
                call=lambda document: endpoints.create_qa_document("site", document),
            )
            memory = ledger.documents(scope="s", site_id="site", source="source", run=RunRef("dag", "run", "load", -1))
            stack.enter_context(memory)
            findings = stack.enter_context(Findings(findings_path))
            limiter = Limiter(night.max_concurrency, now=now)
            client: Any = Client(service, night.retries)
            load = Load(client, rows, options, memory=memory, findings=findings, limiter=limiter, rng=random.Random(0))
            counts = load.counts
            try:
                await load.run()
            except (Exception, Killed) as raised:  # noqa: BLE001 (judged by the promises)
                error = raised
        return now()

    try:
        with contextlib.suppress(Killed):
            seconds = simulated(main())
    finally:
        sa.event.remove(ledger.engine, "before_cursor_execute", kill)
    if service.is_killed and not isinstance(error, Killed):
        error = Killed()
    return Ended(service, counts, error, seconds, _listed(findings_path))


def _kills(engine: sa.Engine, service: Service) -> Any:
    """Let nothing reach the ledger once the process is killed."""

    @sa.event.listens_for(engine, "before_cursor_execute")
    def kill(*_: Any) -> None:
        if service.is_killed:
            raise Killed

    return kill


def _listed(path: Path) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {"possibly_duplicated": set(), "ambiguous": set()}
    if path.exists():
        for row in pq.read_table(path).to_pylist():
            found.setdefault(row["kind"], set()).add(row["key"])
    return found


@contextlib.contextmanager
def _ledger() -> Iterator[tuple[Ledger, Path]]:
    folder = Path(tempfile.mkdtemp(prefix="night-"))
    ledger = Ledger(sqlite_engine(folder / "ledger.db"))
    try:
        yield ledger, folder
    finally:
        ledger.close()
        shutil.rmtree(folder, ignore_errors=True)


# -- generation ------------------------------------------------------------------------------------

LISTED = (200, 201, 202, 204, 400, 401, 403, 404, 429, 500, 502, 503, 504)
RETRY_AFTER = st.one_of(
    st.none(),
    st.sampled_from(["0", "-1", "0.5", "1", "3", "59", "3600", "99999999999", "soon", "", "\u0663", "1e3", "nan"]),
    st.sampled_from(["Thu, 01 Jan 1970 00:00:00 GMT", "Fri, 31 Dec 9999 23:59:59 GMT"]),
    st.just("Fri, 15 Jan 2027 08:00:10 GMT"),  # ten seconds after the virtual clocks begin
)
IDENTIFIERS = st.one_of(
    st.none(),
    st.integers(),
    st.text(max_size=20),
    st.sampled_from(["", "\x00", "a\x00b", "\ud800", "../../etc", "x" * 251, "x" * 10_000, "Ω" * 300]),
)
BODIES = st.sampled_from(["id", "id", "id", "empty", "page", "truncated", "list", "number", "deep", "large"])
ANSWERS = st.builds(
    Answer,
    status=st.one_of(st.sampled_from(LISTED), st.integers(200, 599), st.just(0)),
    body=BODIES,
    identifier=IDENTIFIERS,
    retry_after=RETRY_AFTER,
    latency=st.sampled_from([0.0, 0.01, 0.3, 5.0, 29.0, 31.0, 3600.0]),
    stores=st.booleans(),
    refuses=st.booleans(),
)
REFUSALS = st.builds(Answer, status=st.just(429), retry_after=RETRY_AFTER)
# Asks for no pause, again and again.
NO_PAUSE = st.builds(
    Answer, status=st.just(429), retry_after=st.sampled_from(["0", "0.0", "Thu, 01 Jan 1970 00:00:00 GMT"])
)
SLOW = st.builds(Answer, latency=st.sampled_from([200.0, 300.0, 3000.0]))
OFTEN_WELL = st.one_of(st.just(WELL), ANSWERS, REFUSALS, SLOW)
TRIES = st.builds(
    Try,
    answers=st.lists(OFTEN_WELL, max_size=12).map(tuple),
    then=st.one_of(st.just(WELL), st.just(WELL), ANSWERS, REFUSALS, NO_PAUSE),
    killed_at=st.one_of(st.none(), st.integers(0, 20)),
)
NIGHTS = st.builds(
    Night,
    rows=st.integers(1, 24),
    tries=st.lists(TRIES, min_size=1, max_size=3).map(tuple),
    max_concurrency=st.sampled_from([1, 2, 4, 16]),
    retries=st.integers(0, 4),
    max_pause=st.sampled_from([0.0, 1.0, 60.0, 300.0]),
    timeout=st.sampled_from([30.0, 3600.0]),
    on_ambiguous=st.sampled_from(["retry", "retry", "skip", "fail"]),
)
