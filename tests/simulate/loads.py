"""Loads of rows and of files, and loads that make the site equal to their source."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from airflow.providers.common.compat.sdk import AirflowFailException, AirflowTaskTimeout
from hypothesis import strategies as st

from airflow_provider_assistant.client.worker_pool import FIRST_FAILURES
from airflow_provider_assistant.exceptions import (
    AssistantAmbiguousError,
    AssistantAPIError,
    AssistantConnectionError,
    AssistantIncompleteError,
    AssistantInputError,
    AssistantLedgerError,
    AssistantResponseError,
    AssistantTimeoutError,
)
from airflow_provider_assistant.loading.counts import LoadCounts
from airflow_provider_assistant.loading.options import MAX_BACKOFF
from airflow_provider_assistant.operators.documents import AssistantLoadQAOperator, AssistantUploadFilesOperator
from airflow_provider_assistant.sandbox.store import Document
from tests.simulate.night import NEXT_DAY, RETRIED, Night, Operation, nights
from tests.simulate.replies import BROKEN, REFUSALS, SLOW, WELL
from tests.simulate.sources import CHANGES, FILES, FORMS, PLAIN_ROWS, ROWS, File, Folder, Form, Row, Rows
from tests.simulate.transport import CREATES, title_of
from tests.simulate.world import BESIDE, DAY, FAULTS, End, Ended, Try, World

# These answers concern every row and stop a load at once: of the service, redirects, and what only gateways send.
SITE_WIDE = {401, 403, 404, 405, 429, *range(300, 400), 407, 421, 431, *range(494, 498), 511}
# Consecutive failures of statements that retries hide.
UNNOTICED = 3
OF_THE_SERVICE = (
    AssistantAPIError,
    AssistantAmbiguousError,
    AssistantConnectionError,
    AssistantResponseError,
    AssistantTimeoutError,
)
OUTCOMES = ("created", "unchanged", "skipped", "rejected", "ambiguous", "failed")

# The latest attempt of a key was claimed, and has no outcome.
UNFINISHED = """state = 'claimed' AND NOT EXISTS (
    SELECT 1 FROM assistant_attempts AS later
    WHERE (later.scope, later.key) = (assistant_attempts.scope, assistant_attempts.key)
    AND later.number > assistant_attempts.number
)"""


@dataclass
class Load(Operation):
    """
    Load everything once.

    :param on_ambiguous: what to do with a row of which nobody knows whether it was created.
    :param deferrable: whether the task defers when the service asks for a long pause.
    :param allow_empty: whether the source may be empty.
    """

    on_ambiguous: Literal["retry", "skip"] = "retry"
    deferrable: bool = False
    max_pause: ClassVar[float] = MAX_BACKOFF
    allow_empty: bool = False
    titles: set[str] = field(default_factory=set, init=False, repr=False)
    titles_of: Mapping[str, set[str]] = field(default_factory=dict, init=False, repr=False)
    bad: int = field(default=0, init=False, repr=False)
    is_loadable: bool = field(default=True, init=False, repr=False)
    listed: set[str] = field(default_factory=set, init=False, repr=False)
    # What killed tries have left, which findings on a full disk may not name.
    left: set[str] = field(default_factory=set, init=False, repr=False)

    def polls(self) -> float:
        """Return requests that are not about one row: limits, and those of deferrals and of the list."""
        return 50 + 20 * self.items * self.deferrable

    def options(self) -> dict[str, Any]:
        """Return arguments of the operator."""
        return {
            "on_ambiguous": self.on_ambiguous,
            "deferrable": self.deferrable,
            "timeout": 600.0,
            "allow_empty": self.allow_empty,
            "max_rejected": max(1, self.items),
        }

    def task(self, world: World, attempt: Try) -> Any:
        """Return the operator."""
        raise NotImplementedError

    def execute(self, world: World, attempt: Try, context: dict[str, Any]) -> Any:
        def make() -> Any:
            task = self.task(world, attempt)
            # The timeout of a deferred load is stored as a time of day: a clock that is set back extends it.
            task.deferrable = task.deferrable and attempt.jump is None
            return task

        return world.run(make, context)

    @property
    def requests(self) -> int:
        """Number of requests without repetitions: the limits are one."""
        return 1 + self.items

    def items_at_end(self, world: World) -> int:
        """Return the number of rows or files after a try."""
        return self.items

    # -- what is there -----------------------------------------------------------------------------

    def stored(self, world: World) -> Counter[str]:
        """Return how often the site has each document."""
        return Counter(title_of(one) for one in world.stored(Document))

    def found(self, world: World, *kinds: str) -> set[str]:
        """Return the documents of which findings say one of these kinds."""
        keys = {str(one["key"]) for one in world.findings() if one["kind"] in kinds}
        return self.titles_with(keys)

    def titles_with(self, labels: set[str]) -> set[str]:
        """Return the documents with these labels of findings and the ledger."""
        return set().union(*(self.titles_of.get(label, set()) for label in labels))

    def in_ledger(self, world: World, where: str) -> set[str]:
        """Return the documents whose entries in the ledger meet a condition."""
        return self.titles_with({row[0] for row in world.query(f"SELECT label FROM assistant_attempts WHERE {where}")})

    # -- promises ----------------------------------------------------------------------------------

    def check_try(self, world: World, attempt: Try, ended: Ended, *, number: int) -> None:
        assert not world.blocked, "the event loop does not wait for the ledger while requests are under way"
        # A task that defers may wait until its timeout, and then send all rows again.
        longest = self.requests * (self.seconds(world) + 60) * (1 + attempt.is_beside + self.deferrable)
        assert ended.seconds <= longest + 2 * 600 * self.deferrable, f"the time is bounded: {ended.seconds}, {longest}"
        # Findings name what earlier tries of the run have left as well.
        new = self.found(world, "ambiguous") - self.listed - self.left
        if not attempt.disk_full:
            self.listed |= self.found(world, "possibly_duplicated", "ambiguous")
        if ended.is_killed:
            self.left |= self.in_ledger(world, "state IN ('ambiguous', 'claimed')")
            return
        if not self.is_loadable:
            assert not ended.to(*CREATES), "a source that cannot be loaded as a whole sends nothing"
        self._check_counts(world, attempt, ended)
        if ended.error is not None:
            self._check_error(attempt, ended.error)
        self._check_losses(attempt, ended, is_first=number == 1)
        if ended.is_terminated and not attempt.odd and not attempt.ledger_away:
            assert not new or attempt.is_beside, f"a load that ends waits for answers that come in two seconds: {new}"
        if not attempt.disk_full and not attempt.is_beside:
            received = {one.item for one in ended.to(*CREATES) if one.is_received}
            sent = {title for item in received for title in self.titles_with({self.names().get(item, "")})}
            unknown = self.in_ledger(world, UNFINISHED) & sent
            is_lost = isinstance(ended.error, AirflowTaskTimeout)
            assert is_lost or unknown <= self.listed, f"what was created and is not in the ledger is listed: {unknown}"

    def counts_of(self, ended: Ended) -> LoadCounts | None:
        """Return the counts of a load, also of one that has failed."""
        load = getattr(ended.task, "_load", None)
        return load.counts if load else None

    def _check_counts(self, world: World, attempt: Try, ended: Ended) -> None:
        counts = self.counts_of(ended)
        if counts is None or isinstance(ended.error, AirflowTaskTimeout):
            return
        if not counts.rows:
            assert ended.error is not None or not self.items
            assert not ended.to(*CREATES), "nothing is sent before the whole source was looked at"
            return
        # A task that defers lists the files again.
        assert counts.rows == self.items or (self.deferrable and counts.rows == self.items_at_end(world))
        assert counts.done == counts.rows, f"the counts add up: {counts}"
        assert min(counts.outcomes.values()) >= 0
        if not self.deferrable and "manage_documents" not in world.connection["extra"]:
            # A task that defers counts the requests after its last pause.
            assert counts.requests == len(ended.to(*CREATES)), "the counts are those of the service"
        if ended.error is None:
            assert not counts.failed, "success means success"
            assert self.on_ambiguous == "skip" or not counts.ambiguous

    def _check_error(self, attempt: Try, error: BaseException) -> None:
        text, is_permanent = str(error), isinstance(error, AirflowFailException)
        assert "\n" not in text
        if isinstance(error, OF_THE_SERVICE):
            assert "'docs'" in text or "row " in text, f"an error of the service names the site or the row: {text}"
        if isinstance(error, AssistantLedgerError):
            assert not is_permanent, "a ledger that is away may be tried again"
            assert "ledger.db" in text, f"an error of the ledger names it: {text}"
        if isinstance(error, AssistantIncompleteError):
            assert not is_permanent, "a load that was ended may be tried again"
        if isinstance(error, AssistantInputError):
            assert not self.is_loadable, f"a source that can be loaded is not refused: {text}"
        if isinstance(error, AssistantAPIError) and not attempt.gateway:
            assert is_permanent == (400 <= error.status < 500 and error.status != 429)
        if isinstance(error, AssistantAmbiguousError) and not attempt.outage:
            assert not is_permanent, "a retry sends the row again, or leaves it and sends the others"

    def _check_losses(self, attempt: Try, ended: Ended, *, is_first: bool) -> None:
        """Check that one bad answer, one bad row and one file that changes cost one row."""
        counts = self.counts_of(ended)
        if not self.is_loadable or counts is None or self.may_stop(attempt):
            return
        lost = counts.failed + counts.ambiguous
        is_complete = ended.error is None or (isinstance(ended.error, AssistantIncompleteError) and lost)
        assert is_complete, f"some failures do not stop a load: {ended.error!r}"
        if is_first:
            changes = attempt.source if isinstance(attempt.source, tuple) else ()
            most = len(attempt.odd) + len(changes) + self.bad
            assert lost + counts.rejected <= most, "one bad answer costs one row"
            assert counts.rejected >= self.bad

    def may_stop(self, attempt: Try) -> bool:
        """Return whether the faults of a try may stop its load."""
        away, odd = attempt.ledger_away, attempt.odd
        statuses = {answer.status for answer in (*attempt.answers, attempt.then)}
        return bool(
            attempt.then in odd
            or len(odd) >= FIRST_FAILURES
            or statuses & SITE_WIDE
            or attempt.end
            or attempt.disk_full
            or attempt.is_beside
            or attempt.outage
            or attempt.gateway
            or (away and away.times > UNNOTICED)
        )

    def check_end(self, world: World, night: Night) -> None:
        was_beside = any(attempt.is_beside for attempt in night.tries)
        if not night.is_retried or was_beside:
            # The leases of what was killed expire.
            world.sleep(DAY + abs(world.jumped))
        if was_beside:
            self._check_good(self.calm(world, run="beside"))
        run = RETRIED if night.is_retried else NEXT_DAY
        self._check_good(self.calm(world, run=run))
        if not night.is_retried:
            # Findings of a try that is not retried may be lost, the ledger is not.
            self.listed |= self.in_ledger(world, "ambiguous > 0")
        stored = self.stored(world)
        missing = self.titles - set(stored) if self.is_loadable else set[str]()
        if self.on_ambiguous == "retry":
            assert not missing, "a retry converges"
        else:
            assert missing <= self.listed, "what may be missing is listed"
        self.check_duplicates({title for title, times in stored.items() if times > 1})
        assert set(stored) <= self.titles, "a bad row is not sent"
        again = self.calm(world, run=run)
        assert not again.to(*CREATES), "an unchanged source sends nothing, whatever its types did"

    def check_duplicates(self, twice: set[str]) -> None:
        """Check that all documents which the site has twice are listed."""
        assert self.on_ambiguous == "retry" or not twice, "only a row that may be sent again exists twice"
        assert twice <= self.listed, f"nothing is created twice without being listed: {twice - self.listed}"

    def _check_good(self, good: Ended) -> None:
        if not self.is_loadable:
            assert isinstance(good.error, AssistantInputError)
        else:
            assert good.error is None, repr(good.error)
            assert good.result["rejected"] == self.bad, "a bad row costs itself"


@dataclass
class LoadRows(Load):
    """Load rows, whose source has another form in every try."""

    rows: tuple[Row, ...] = ()
    forms: tuple[Form, Form] = (Form(), Form())
    _offered: Any = field(default=None, init=False, repr=False)
    _calm: int = field(default=0, init=False, repr=False)

    @property
    def items(self) -> int:
        return len(self.rows)

    def names(self) -> dict[str, str]:
        return {row.title: row.label for row in self.rows}

    def begin(self, world: World) -> None:
        self.source = Rows(self.rows)
        self.titles, self.titles_of, self.bad = self.source.titles, self.source.titles_of, self.source.bad
        self.is_loadable = not self.source.is_contradictory and (bool(self.rows) or self.allow_empty)

    def prepare(self, world: World, attempt: Try) -> None:
        form = attempt.source
        if form is None:
            form, self._calm = self.forms[self._calm % 2], self._calm + 1
        self._offered = self.source.offered(form, world.folder)

    def task(self, world: World, attempt: Try) -> Any:
        return AssistantLoadQAOperator(task_id="task", source=self._offered, key_columns="id", **self.options())


@dataclass
class UploadFiles(Load):
    """Upload a folder, whose files change while they are sent."""

    files: tuple[File, ...] = ()

    @property
    def items(self) -> int:
        return len([file for file in self.files if not file.is_hidden])

    def items_at_end(self, world: World) -> int:
        return self.folder.count()

    def names(self) -> dict[str, str]:
        return {file.name: file.label for file in self.files}

    def begin(self, world: World) -> None:
        self.folder = Folder(world.folder / "files", self.files)
        seen = [file for file in self.files if not file.is_hidden]
        loaded = [file for file in seen if not file.is_bad]
        self.bad = len(seen) - len(loaded)
        self.titles = {file.title for file in loaded}
        self.titles_of = {file.label: {file.title} for file in loaded}
        self.is_loadable = bool(seen) or self.allow_empty

    def prepare(self, world: World, attempt: Try) -> None:
        self.folder.restore()

        def change(request: int) -> None:
            for one in attempt.source or ():
                if one.request == request:
                    self.folder.change(one)

        world.on_half = change
        world.on_request = lambda number: change(-1) if number == 0 else None

    def task(self, world: World, attempt: Try) -> Any:
        return AssistantUploadFilesOperator(task_id="task", files=str(self.folder.path), **self.options())

    def check_end(self, world: World, night: Night) -> None:
        super().check_end(world, night)
        names: dict[str, set[str]] = {}
        for document in world.stored(Document):
            names.setdefault(document.title, set()).add(document.content)
        assert all(len(contents) == 1 for contents in names.values()), "different files have different names"


@dataclass
class LoadSettled(LoadRows):
    """Load rows to a site whose documents can be listed: what was lost is found, and nothing exists twice."""

    def check_duplicates(self, twice: set[str]) -> None:
        assert not twice, f"what the list of the site shows is not created again: {twice}"


@dataclass
class MakeEqual(LoadRows):
    """
    Make the site equal to the rows: replace what has changed, and remove what is gone.

    :param old: the rows of an earlier load.
    :param on_missing: what to do with documents whose row is gone.
    """

    old: tuple[Row, ...] = ()
    on_missing: Literal["delete", "deactivate"] = "delete"
    _earlier: set[str] = field(default_factory=set, init=False, repr=False)

    def options(self) -> dict[str, Any]:
        change = {"on_change": "replace", "on_missing": self.on_missing, "allow_mass_change": True}
        return {**super().options(), **change}

    def polls(self) -> float:
        return super().polls() + 2_000

    @property
    def requests(self) -> int:
        # Two lists; and new documents are activated, old ones removed.
        return 2 + super().requests + self.items + len(self.old)

    def begin(self, world: World) -> None:
        world.teach("Who wrote this by hand?")
        new, self.rows = self.rows, self.old
        super().begin(world)
        first = self.calm(world, run="first")
        assert first.error is None, repr(first.error)
        self._earlier = {one.id for one in world.stored(Document)}
        self.rows = new
        super().begin(world)

    def in_use(self, world: World) -> dict[str, set[str]]:
        """Return the contents of the documents in use, by title."""
        found: dict[str, set[str]] = {}
        for one in world.stored(Document):
            if one.activated_at is not None:
                found.setdefault(one.title, set()).add(one.content.strip())
        return found

    def check_try(self, world: World, attempt: Try, ended: Ended, *, number: int) -> None:
        super().check_try(world, attempt, ended, number=number)
        in_use, contents = self.in_use(world), {row.title: row.answer.strip() for row in self.rows}
        assert "Who wrote this by hand?" in in_use, "what a person has written stays"
        for row in self.old:
            if self._earlier and row.title in contents:
                known = {row.answer.strip(), contents[row.title]}
                assert in_use.get(row.title, set()) & known, f"{row.title} has a document in use, the old or the new"

    def may_stop(self, attempt: Try) -> bool:
        # What could not be removed yet fails a load as well.
        return True

    def check_end(self, world: World, night: Night) -> None:
        for number in range(60, 63):
            good = self.calm(world, number)
            if good.error is None:
                break
        assert good.error is None, repr(good.error)
        in_use = self.in_use(world)
        del in_use["Who wrote this by hand?"]
        wanted = {row.title: {row.answer.strip()} for row in self.rows}
        assert in_use == wanted, f"the site is equal to its source: {in_use}"
        counts = Counter(one.title for one in world.stored(Document) if one.activated_at is not None)
        twice = {title for title, times in counts.items() if times > 1}
        assert twice <= self.listed, f"nothing is in use twice without being listed: {twice}"
        if self.on_missing == "delete":
            # A draft whose acknowledgement was lost may be left.
            left = {one.title for one in world.stored(Document) if one.activated_at is None}
            assert left <= self.listed, f"nothing else is left: {left}"
        again = self.calm(world, 70)
        assert all(one.call.method == "GET" for one in again.sent), "what is equal is not changed"


# -- generation ----------------------------------------------------------------------------------

_OPTIONS: dict[str, st.SearchStrategy[Any]] = {
    "on_ambiguous": st.sampled_from(["retry", "retry", "skip"]),
    "deferrable": st.booleans(),
    "allow_empty": st.booleans(),
}
SETTINGS = {"allow_duplicates": st.sampled_from([True, True, False])}
ROW_NIGHTS = nights(
    st.builds(LoadRows, rows=ROWS, forms=st.tuples(FORMS, FORMS), **_OPTIONS),
    st.builds(Try, **FAULTS, is_beside=BESIDE, source=FORMS),
    settings=SETTINGS,
)
FILE_NIGHTS = nights(
    st.builds(UploadFiles, files=FILES, **_OPTIONS),
    st.builds(Try, **FAULTS, source=CHANGES),
    most=2,
    settings=SETTINGS,
)


@st.composite
def _changed_rows(draw: st.DrawFn) -> MakeEqual:
    """Draw a load of rows some of which have changed, are gone or are new."""
    old = draw(st.integers(1, 12))
    fates = draw(st.lists(st.sampled_from(["kept", "kept", "changed", "gone"]), min_size=old, max_size=old))
    kept = [Row(n, n, version=int(fate == "changed")) for n, fate in enumerate(fates) if fate != "gone"]
    added = [Row(n, n) for n in range(20, 20 + draw(st.integers(1, 3)))]
    on_missing = draw(st.sampled_from(["delete", "deactivate"]))
    return MakeEqual(rows=(*kept, *added), old=tuple(Row(n, n) for n in range(old)), on_missing=on_missing)


_MANAGED: dict[str, st.SearchStrategy[Any]] = {
    "allow_duplicates": st.just(True),
    "document_status": st.sampled_from(["active", "draft"]),
    "document_seconds": st.sampled_from([0.0, 30.0]),
}
# No success with a body of somebody else: what a list or a change says must be true.
_TRUE = st.one_of(st.just(WELL), st.just(WELL), REFUSALS, BROKEN, SLOW)
_TRUE_FAULTS = {**FAULTS, "answers": st.lists(_TRUE, max_size=12).map(tuple), "then": _TRUE}
EQUAL_NIGHTS = nights(
    _changed_rows(),
    st.builds(Try, **_TRUE_FAULTS, source=FORMS),
    most=2,
    settings=_MANAGED,
    manage_documents=st.just(True),
)
_ENDS = st.builds(End, st.integers(0, 20), st.sampled_from(["killed before", "killed", "timed out", "terminated"]))
SETTLED_NIGHTS = nights(
    st.builds(LoadSettled, rows=PLAIN_ROWS, on_ambiguous=st.sampled_from(["retry", "skip"])),
    st.builds(Try, end=_ENDS, source=FORMS),
    settings=_MANAGED,
    manage_documents=st.just(True),
)
