"""Nights of uploads of files."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from airflow_provider_assistant.keys import short_label
from airflow_provider_assistant.loading.file_rows import FileRows
from airflow_provider_assistant.texts import storable
from tests.adversary.load_faults import night_folder
from tests.adversary.load_promises import stops
from tests.adversary.load_try import Options, Tried, Weather
from tests.adversary.night_course import RUN, Course
from tests.adversary.service import title_of
from tests.adversary.upload_inputs import Change, File, Folder

CALM, USUAL = Weather(), Options()


@dataclass(frozen=True)
class UploadTry:
    """
    One try of a task.

    :param weather: Faults during the try.
    :param changes: Files that change during the try; they are restored before the next one.
    """

    weather: Weather = CALM
    changes: tuple[Change, ...] = ()


@dataclass(frozen=True)
class UploadNight:
    """
    One upload of a folder with several tries, the last two of which are without faults.

    :param files: Files of the folder.
    :param tries: Tries with faults; two fault-free ones follow.
    :param options: Options of the load.
    :param is_retried: Whether the last tries belong to the same task instance; otherwise to the next day's run.
    :param allow_empty: Whether the folder may be empty.
    """

    files: tuple[File, ...]
    tries: tuple[UploadTry, ...]
    options: Options = USUAL
    is_retried: bool = True
    allow_empty: bool = False


class _Files(Course):
    """The state of a night of files."""

    def __init__(self, night: UploadNight, folder: Path) -> None:
        self._night = night
        self._files = Folder(folder / "files", night.files)
        seen = [file for file in night.files if not file.is_hidden]
        loaded = [file for file in seen if file.is_loaded]
        self._bad = len(seen) - len(loaded)
        super().__init__(
            folder,
            night.options,
            count=len(seen),
            titles={title_of(file.octets) for file in loaded},
            titles_of={short_label(storable(file.name)): {title_of(file.octets)} for file in loaded},
            is_loadable=bool(seen) or night.allow_empty,
        )

    @property
    def bad(self) -> int:
        return self._bad

    def good(self, number: int, *runs: str) -> Tried:
        return self._tried(UploadTry(), *runs)

    def tried(self, attempt: UploadTry) -> Tried:
        """Run a try."""
        return self._tried(attempt, RUN)

    def _tried(self, attempt: UploadTry, *runs: str) -> Tried:
        self._files.restore()

        def change(request: int) -> None:
            for one in attempt.changes:
                if one.request == request:
                    self._files.change(one)

        return self.through(attempt.weather, lambda: self._opened(attempt), *runs, on_half=change)

    @contextlib.contextmanager
    def _opened(self, attempt: UploadTry) -> Iterator[FileRows]:
        yield self._files.rows(attempt.changes, allow_empty=self._night.allow_empty)


def check(night: UploadNight) -> None:
    """Run a night, and check the promises after every try and at the end."""
    with night_folder() as folder:
        course = _Files(night, folder)
        with contextlib.closing(course):
            for number, attempt in enumerate(night.tries):
                result = course.tried(attempt)
                if number == 0 and course.is_loadable and not stops(attempt.weather, night.options):
                    counts = result.ended[0].counts
                    lost = counts.rejected + counts.failed + counts.ambiguous
                    most = len(attempt.weather.odd) + len(attempt.changes) + course.bad
                    assert lost <= most, "one bad answer, and one file that changes, costs one file"
            course.check_end(is_retried=night.is_retried, was_beside=False)
