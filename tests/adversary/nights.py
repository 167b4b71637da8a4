"""Nights of loads of rows."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from airflow_provider_assistant.api import endpoints
from airflow_provider_assistant.api.payloads import QADocument
from airflow_provider_assistant.exceptions import AssistantError, AssistantRateLimitError
from airflow_provider_assistant.loading.field_columns import mapping_of, wanted_columns
from airflow_provider_assistant.loading.rows import DataframeRows
from airflow_provider_assistant.loading.sources import open_source
from tests.adversary.load_faults import night_folder
from tests.adversary.load_inputs import Form, Row, Rows
from tests.adversary.load_promises import stops
from tests.adversary.load_try import Options, Tried, Weather
from tests.adversary.night_course import BESIDE, RUN, Course

# Maximum total deferral of one try, and its shortest deferral, in seconds.
DEFERRED, SHORTEST = 600.0, 60.0
CALM, DICTS, USUAL = Weather(), Form(), Options()


@dataclass(frozen=True)
class Try:
    """
    One try of a task.

    :param weather: Faults during the try.
    :param form: Type of the source.
    :param later: Seconds by which the clock jumps before the try; negative to set it back.
    :param beside: Whether another run loads the same source concurrently.
    :param defers: Whether the task defers when the service asks for a long pause.
    """

    weather: Weather = CALM
    form: Form = DICTS
    later: float = 0.0
    beside: bool = False
    defers: bool = False


@dataclass(frozen=True)
class Night:
    """
    One load of rows with several tries, the last two of which are without faults.

    :param rows: Rows of the source.
    :param tries: Tries with faults; two fault-free ones follow.
    :param options: Options of the load.
    :param forms: Types of the source in the last two tries.
    :param is_retried: Whether the last tries belong to the same task instance; otherwise to the next day's run.
    :param allow_empty: Whether the source may be empty.
    """

    rows: tuple[Row, ...]
    tries: tuple[Try, ...]
    options: Options = USUAL
    forms: tuple[Form, Form] = (DICTS, DICTS)
    is_retried: bool = True
    allow_empty: bool = False


class _Rows(Course):
    """The state of a night of rows."""

    def __init__(self, night: Night, folder: Path) -> None:
        self._rows = Rows(night.rows)
        self._night = night
        super().__init__(
            folder,
            night.options,
            count=len(night.rows),
            titles=self._rows.titles,
            titles_of=self._rows.titles_of,
            is_loadable=not self._rows.is_contradictory and (bool(night.rows) or night.allow_empty),
        )

    @property
    def bad(self) -> int:
        return self._rows.bad

    def good(self, number: int, *runs: str) -> Tried:
        return self.through(CALM, lambda: self._opened(self._night.forms[number]), *runs)

    def tried(self, attempt: Try) -> Tried:
        """Run a try with its deferrals."""
        self.clock.advance(attempt.later)
        runs = (RUN, BESIDE) if attempt.beside else (RUN,)
        result = self.through(attempt.weather, lambda: self._opened(attempt.form), *runs)
        until = self.clock.now() + DEFERRED
        deferrals = 0
        while attempt.defers and (pause := _asked_pause(result)) and self.clock.now() + pause <= until:
            deferrals += 1
            assert deferrals <= DEFERRED / SHORTEST, "the number of deferrals is bounded"
            self.clock.advance(pause)
            result = self.through(Weather(then=attempt.weather.then), lambda: self._opened(attempt.form), RUN)
        return result

    @contextlib.contextmanager
    def _opened(self, form: Form) -> Iterator[DataframeRows]:
        columns = mapping_of(QADocument, None, None)
        offered = self._rows.offered(form, self.folder)
        with open_source(offered, wanted_columns(QADocument, columns, ["id"])) as source:
            yield DataframeRows(
                source,
                payload=QADocument,
                columns=columns,
                constants={},
                key_columns=["id"],
                call=lambda document: endpoints.create_qa_document("site", document),
                allow_empty=self._night.allow_empty,
            )


def check(night: Night) -> None:
    """Run a night, and check the promises after every try and at the end."""
    with night_folder() as folder:
        course = _Rows(night, folder)
        with contextlib.closing(course):
            for number, attempt in enumerate(night.tries):
                result = course.tried(attempt)
                if number == 0 and not attempt.beside:
                    _check_losses(course, attempt, result)
            was_beside = any(attempt.beside for attempt in night.tries)
            course.check_end(is_retried=night.is_retried, was_beside=was_beside)


def _asked_pause(result: Tried) -> float | None:
    """Return the duration of a task's deferral, or None."""
    error = result.ended[0].error
    cause = error.__cause__ if isinstance(error, AssistantError) and error.__cause__ else error
    if isinstance(cause, AssistantRateLimitError):
        return max(SHORTEST, cause.retry_after or 0.0)
    return None


def _check_losses(course: Course, attempt: Try, result: Tried) -> None:
    """Check that one faulty response, or one bad row, affects only one row."""
    counts = result.ended[0].counts
    if not course.is_loadable or stops(attempt.weather, course.options):
        return
    lost = counts.rejected + counts.failed + counts.ambiguous
    assert lost <= len(attempt.weather.odd) + course.bad, "one bad answer costs one row"
    assert counts.rejected >= course.bad
