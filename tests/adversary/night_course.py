"""The state of a night: the documents on the service, and the findings so far."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path

import sqlalchemy as sa

from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.ledger import RunRef
from airflow_provider_assistant.ledger.schema import documents
from airflow_provider_assistant.loading.rows import Rows
from tests.adversary.load_faults import Clock, DiskFull, Faults, NightLedger
from tests.adversary.load_promises import check_try
from tests.adversary.load_try import FinishedRequest, Options, Tried, Weather, tried
from tests.adversary.service import SECRET

DAY = 86_400.0
RUN, BESIDE, NEXT_DAY = "run", "beside", "next day"


class Course(ABC):
    """
    Run the tries of one night and check its end.

    :param folder: Folder of the ledger and the findings.
    :param options: Options of the loads.
    :param count: Number of rows or files of a load.
    :param titles: Documents that must exist in the end.
    :param titles_of: Documents by key label.
    :param is_loadable: Whether the source as a whole can be loaded.
    """

    def __init__(
        self,
        folder: Path,
        options: Options,
        *,
        count: int,
        titles: set[str],
        titles_of: Mapping[str, set[str]],
        is_loadable: bool,
    ) -> None:
        self.folder, self.options, self.count = folder, options, count
        self.titles, self._titles_of = titles, titles_of
        self.is_loadable = is_loadable
        self.clock = Clock()
        self.stored: Counter[str] = Counter()
        self.listed: set[str] = set()
        self._ledger = NightLedger(folder / "ledger.db")

    @abstractmethod
    def good(self, number: int, *runs: str) -> Tried:
        """Run the first or second fault-free try."""

    @property
    @abstractmethod
    def bad(self) -> int:
        """Number of rows that are rejected without a request."""

    def through(
        self,
        weather: Weather,
        opened: Callable[[], AbstractContextManager[Rows]],
        *runs: str,
        on_half: Callable[[int], None] = lambda _: None,
    ) -> Tried:
        """Run one try, and check the promises."""
        options = self.options
        # A rate limit costs at most one request per second and row, and a few more at first.
        most = max(1, self.count) * (options.retries + 1 + options.max_backoff + 10) * len(runs)
        result = tried(
            weather,
            [(RunRef("dag", run, "load", -1), opened) for run in runs],
            options,
            ledger=self._ledger,
            clock=self.clock,
            folder=self.folder,
            most=most,
            on_half=on_half,
        )
        check_try(result, weather, options, rows=self.count, loadable=self.is_loadable)
        self.stored += result.service.documents
        if not result.faults.is_killed:
            listed = set[str]().union(*map(self._listed, result.ended))
            self.listed |= listed
            if options.ledger and not any(isinstance(one, DiskFull) for one in weather.interruptions):
                unrecorded = self._in_ledger(documents.c.outcome == "claimed") & set(result.service.documents)
                assert unrecorded <= listed, f"what was created and is not in the ledger is listed: {unrecorded}"
        return result

    def check_end(self, *, is_retried: bool, was_beside: bool) -> None:
        """
        Check that after fault-free tries all documents exist, and that duplicates are in the findings.

        :param is_retried: Whether the last tries retry the task instance; otherwise the next day's run loads.
        :param was_beside: Whether another run loaded the same source concurrently.
        """
        if not self.options.ledger:
            return
        if not is_retried:
            self.clock.advance(DAY)
        runs = ((RUN, BESIDE) if was_beside else (RUN,)) if is_retried else (NEXT_DAY,)
        for run in runs:
            self._check_good(self.good(0, run).ended[0])
        if not is_retried:
            # The findings of a killed try that is not retried may be lost; the ledger is not.
            self.listed |= self._in_ledger(documents.c.ambiguous > 0)
        missing = self.titles - set(self.stored) if self.is_loadable else set()
        if self.options.on_ambiguous == "retry":
            assert not missing, "a retry converges"
        elif self.options.on_ambiguous == "skip":
            assert missing <= self.listed, "what may be missing is listed"
        twice = {title for title, times in self.stored.items() if times > 1}
        assert twice <= self.listed, f"nothing is created twice without being listed: {twice - self.listed}"
        assert set(self.stored) <= self.titles, "a bad row is not sent"
        again = self.good(1, runs[0])
        assert again.service.received == 0, "an unchanged source sends nothing, whatever its types did"
        self.close()
        files = self.folder.glob("ledger.db*")
        assert not any(SECRET.encode() in path.read_bytes() for path in files), "the key is not in the ledger"

    def close(self) -> None:
        """Close the ledger's database."""
        self._ledger.engine.dispose()

    def _check_good(self, good: FinishedRequest) -> None:
        if not self.is_loadable:
            assert isinstance(good.error, AssistantInputError)
        elif self.options.on_ambiguous != "fail":
            assert good.error is None, repr(good.error)
            assert good.counts.rejected == self.bad, "a bad row costs itself"

    def _listed(self, ended: FinishedRequest) -> set[str]:
        """Return the documents that findings list as ambiguous or possibly duplicated."""
        keys = (str(one["key"]) for one in ended.findings if one["kind"] in {"possibly_duplicated", "ambiguous"})
        return set().union(*(self._titles_of.get(key, ()) for key in keys))

    def _in_ledger(self, where: sa.ColumnElement[bool]) -> set[str]:
        """Return the documents whose ledger entries meet a condition."""
        self._ledger.faults = Faults((), self.clock)
        with self._ledger.engine.connect() as connection:
            labels = connection.scalars(sa.select(documents.c.label).where(where)).all()
        return set().union(*(self._titles_of.get(label, ()) for label in labels))
