"""Hypothesis strategies for nights."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.adversary.load_faults import ClockJump, DiskFull, End, Kill, LedgerAway
from tests.adversary.load_inputs import Form, Row
from tests.adversary.load_try import Options, Weather
from tests.adversary.nights import Night, Try
from tests.adversary.service import WELL, Answer

# -- the service --

LISTED = (200, 201, 202, 204, 400, 401, 403, 404, 429, 500, 502, 503, 504)
RETRY_AFTER = st.one_of(
    st.none(),
    st.sampled_from(["0", "-1", "0.5", "1", "3", "59", "3600", "99999999999", "soon", "", "\u0663", "1e3", "nan"]),
    st.sampled_from(["Thu, 01 Jan 1970 00:00:00 GMT", "Fri, 31 Dec 9999 23:59:59 GMT"]),
    st.just("Fri, 15 Jan 2027 08:00:10 GMT"),  # ten seconds after the start of the virtual clocks
)
IDENTIFIERS = st.one_of(
    st.none(),
    st.integers(),
    st.text(max_size=20),
    st.sampled_from(["", "\x00", "a\x00b", "\ud800", "../../etc", "x" * 251, "x" * 10_000, "Ω" * 300]),
)
BODIES = st.sampled_from(["id", "id", "id", "empty", "page", "truncated", "list", "number", "deep", "large", "secret"])
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
# Permanently answers 429 without a pause.
NO_PAUSE = st.builds(
    Answer, status=st.just(429), retry_after=st.sampled_from(["0", "0.0", "Thu, 01 Jan 1970 00:00:00 GMT"])
)
SLOW = st.builds(Answer, latency=st.sampled_from([200.0, 300.0, 3000.0]))
OFTEN_WELL = st.one_of(st.just(WELL), ANSWERS, REFUSALS, SLOW)
THEN = st.one_of(st.just(WELL), st.just(WELL), st.just(WELL), ANSWERS, REFUSALS, NO_PAUSE)

# -- interruptions --

REQUESTS = st.integers(0, 20)
# A load of a few rows executes about 40 statements; about 8 consecutive failures exceed its retries.
STATEMENTS = st.one_of(st.integers(0, 60), st.integers(8, 40))
OUTAGES = st.one_of(st.integers(1, 12), st.integers(8, 30), st.just(10**6))
JUMPS = st.sampled_from([1.0, -1.0, 3_500.0, 4_000.0, -4_000.0, 86_400.0, -86_400.0, 2_600_000.0, -2_600_000.0])
INTERRUPTIONS = st.one_of(
    st.builds(Kill, REQUESTS),
    st.builds(End, REQUESTS),
    st.builds(LedgerAway, STATEMENTS, OUTAGES, st.booleans()),
    st.builds(ClockJump, REQUESTS, JUMPS),
    st.builds(DiskFull, st.sampled_from([0, 3, 200, 1_000, 3_000])),
)
WEATHERS = st.builds(
    Weather,
    answers=st.one_of(st.just(()), st.lists(OFTEN_WELL, max_size=12).map(tuple)),
    then=THEN,
    interruptions=st.one_of(st.just(()), st.lists(INTERRUPTIONS, min_size=1, max_size=2).map(tuple)),
)

# -- sources --

ODD_KEYS = (
    *("k", "k2", " k3 ", "7", "007", "-0", "true", "nan", "None", "NULL", "a,b", 'q"', "line\nbreak", "\r", "\t"),
    *("\x00", "a\x00b", "\ud800", "ä", "a\u0308", "\u202e", "../../etc", "x" * 251, "y" * 100_000, "Ω" * 300),
)
BLANK = (None, "", "   ")
FLAWS = st.sampled_from(["", "", "", "", "", "", "", "", "no question"])


def _numbered(rows: list[tuple[int, int | None, str, bool]]) -> tuple[Row, ...]:
    """Return rows with numeric keys; a repeated number is a duplicate."""
    flaws = {number: flaw for number, _, flaw, _ in rows}
    return tuple(
        Row(number + 100 * is_other, number if key is None else None, flaws[number])  # type: ignore[arg-type]
        for number, key, _, is_other in rows
    )


PLAIN_ROWS = st.integers(1, 24).map(lambda count: tuple(Row(number, number) for number in range(count)))
NUMBERED_ROWS = st.lists(
    st.tuples(
        st.integers(0, 15),
        st.sampled_from([None, None, None, None, None, None, 0]),
        FLAWS,
        st.sampled_from([False] * 40 + [True]),
    ),
    max_size=16,
).map(_numbered)
TEXT_ROWS = st.lists(st.sampled_from([*ODD_KEYS, *BLANK]), max_size=8).map(
    lambda keys: tuple(Row([*ODD_KEYS, *BLANK].index(key), key) for key in keys)
)
LARGE_ROWS = st.integers(1, 3).map(
    lambda count: (*(Row(number, number) for number in range(count)), Row(9, 9, "large"))
)
ROWS = st.one_of(*[PLAIN_ROWS] * 6, *[NUMBERED_ROWS] * 5, *[TEXT_ROWS] * 3, LARGE_ROWS)
FORMS = st.builds(
    Form,
    st.sampled_from(["dicts", "generator", "callable", "pandas", "polars", "arrow", "csv", "json lines", "parquet"]),
    st.sampled_from(["int", "float", "str", "Decimal", "Int64"]),
)

# -- nights --

OPTIONS = st.builds(
    Options,
    max_concurrency=st.sampled_from([1, 2, 4, 16]),
    retries=st.integers(0, 4),
    max_backoff=st.sampled_from([0.0, 1.0, 60.0, 300.0]),
    timeout=st.sampled_from([30.0, 3600.0]),
    on_ambiguous=st.sampled_from(["retry", "retry", "skip", "fail"]),
    ledger=st.sampled_from([True] * 9 + [False]),
)
TRIES = st.builds(
    Try,
    weather=WEATHERS,
    form=FORMS,
    later=st.one_of(st.just(0.0), st.just(0.0), JUMPS),
    beside=st.sampled_from([False] * 5 + [True]),
    defers=st.booleans(),
)
NIGHTS = st.builds(
    Night,
    rows=ROWS,
    tries=st.lists(TRIES, min_size=1, max_size=3).map(tuple),
    options=OPTIONS,
    forms=st.tuples(FORMS, FORMS),
    is_retried=st.sampled_from([True, True, True, False]),
    allow_empty=st.booleans(),
)
