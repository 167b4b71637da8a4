"""Promises that hold for every try of every load."""

from __future__ import annotations

from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_assistant.exceptions import (
    AssistantAmbiguousError,
    AssistantAPIError,
    AssistantConnectionError,
    AssistantError,
    AssistantIncompleteError,
    AssistantInputError,
    AssistantLedgerError,
    AssistantResponseError,
    AssistantTimeoutError,
)
from airflow_provider_assistant.loading.engine import BREAKER
from tests.adversary.load_faults import DiskFull, End, Kill, LedgerAway
from tests.adversary.load_try import FinishedRequest, Options, Tried, Weather
from tests.adversary.service import SECRET, Killed

# These answers concern every row and stop a load at once: of the service, redirects, and what only gateways send.
SITE_WIDE = {401, 403, 404, 405, 429, *range(300, 400), 407, 421, 431, *range(494, 498), 511}
# Consecutive failures of statements that retries hide, see SQLITE_ATTEMPTS.
UNNOTICED = 3
OF_THE_SERVICE = (
    AssistantAPIError,
    AssistantAmbiguousError,
    AssistantConnectionError,
    AssistantResponseError,
    AssistantTimeoutError,
)


def check_try(tried: Tried, weather: Weather, options: Options, *, rows: int, loadable: bool) -> None:
    """
    Check the promises after a try.

    :param tried: Result of the try.
    :param weather: Faults during the try.
    :param options: Options of its loads.
    :param rows: Number of rows of the source.
    :param loadable: Whether the source as a whole can be loaded.
    """
    _check_secrets(tried)
    if tried.faults.is_killed:
        return
    received = sum(ended.counts.requests for ended in tried.ended)
    assert received == tried.service.received, "the counts are those of the service"
    longest = (options.retries + 1) * (options.timeout + 1.2 * options.max_backoff + 2) + 3 * options.max_backoff + 60
    assert tried.seconds <= max(1, rows) * longest * len(tried.ended), "the time is bounded"
    assert not tried.faults.blocked, "the event loop does not wait for the ledger while requests are under way"
    for ended in tried.ended:
        _check_counts(ended, rows)
        if ended.error is not None:
            check_error(ended.error, options, loadable=loadable)
    if loadable and not stops(weather, options, len(tried.ended)):
        assert all(ended.error is None for ended in tried.ended), repr([ended.error for ended in tried.ended])
    if weather.interruptions and not weather.odd and all(isinstance(one, End) for one in weather.interruptions):
        # Rows that an earlier try has left ambiguous, and that are not sent again, do not count.
        doubtful = [
            finding
            for ended in tried.ended
            for finding in ended.findings
            if finding["kind"] == "ambiguous" and "an earlier attempt" not in str(finding["reason"])
        ]
        assert not doubtful, f"a load that is ended waits for answers that come within two seconds: {doubtful}"
    if not loadable:
        assert tried.service.received == 0, "what cannot be loaded as a whole sends nothing"


def stops(weather: Weather, options: Options, loads: int = 1) -> bool:
    """Return whether the faults of a try may stop its loads."""
    odd = weather.odd
    return (
        weather.then in odd
        or len(odd) >= BREAKER
        or any(answer.status in SITE_WIDE for answer in odd)
        or options.on_ambiguous == "fail"
        or any(
            isinstance(one, Kill | End | DiskFull) or (isinstance(one, LedgerAway) and one.times > UNNOTICED)
            for one in weather.interruptions
        )
        # Together they may exceed the ledger's retries.
        or (sum(isinstance(one, LedgerAway) for one in weather.interruptions) > 1)
        or loads > 1
    )


def check_error(error: BaseException, options: Options, *, loadable: bool) -> None:
    """Check the promises about errors."""
    assert isinstance(error, AssistantError), repr(error)
    text = str(error)
    assert text.strip()
    assert "\n" not in text
    is_permanent = isinstance(error, AirflowFailException)
    if isinstance(error, OF_THE_SERVICE):
        assert "'site'" in text or "row " in text, f"an error of the service names the site or the row: {text}"
    if isinstance(error, AssistantLedgerError):
        assert not is_permanent, "a ledger that is away may be tried again"
        assert "ledger.db" in text, f"an error of the ledger names it: {text}"
    if isinstance(error, AssistantIncompleteError):
        assert not is_permanent, "a load that was ended may be tried again"
    if isinstance(error, AssistantInputError):
        assert not loadable, f"a source that can be loaded is not refused: {text}"
    if isinstance(error, AssistantAPIError):
        assert is_permanent == (400 <= error.status < 500 and error.status != 429)
    if isinstance(error, AssistantAmbiguousError):
        is_sent_again = options.on_ambiguous == "retry"
        assert is_permanent != is_sent_again, "a retry helps only where a row that may exist is sent again"


def _check_counts(ended: FinishedRequest, rows: int) -> None:
    counts = ended.counts
    if not counts.rows:
        assert ended.error is not None or not rows
        assert counts.requests == 0, "nothing is sent before the whole source was looked at"
        return
    assert counts.rows == rows
    assert counts.done == counts.rows, f"the counts add up: {counts}"
    assert min(counts.outcomes.values()) >= 0


def _check_secrets(tried: Tried) -> None:
    said = [*tried.messages, *(repr(ended.findings) for ended in tried.ended)]
    for ended in tried.ended:
        error = ended.error
        while error is not None and not isinstance(error, Killed):
            said.append(str(error))
            error = error.__cause__
    assert not any(SECRET in one for one in said), "the key is nowhere"
