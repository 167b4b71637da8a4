"""Nights of the load and ledger commands: loads of odd files, whose ambiguous rows are then resolved by hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow.parquet as pq
from hypothesis import strategies as st

from tests.adversary.cli_inputs import ABSENT, NAMES, UNUSABLE, Form, unusable, written
from tests.adversary.cli_world import CALM, Ran, Terminal
from tests.adversary.load_inputs import Row, Rows
from tests.adversary.night_generation import LARGE_ROWS, NUMBERED_ROWS, PLAIN_ROWS, TEXT_ROWS
from tests.adversary.request_service import TRIES, Service, Try

# The longest pause after a 429, in seconds; the command line has no option for it.
MAX_PAUSE = 300.0
DAY = 86_400.0
PLAIN = Form()
SOURCE = ("--key", "id", "--source-name", "faq")
COUNTED = ("created", "unchanged", "skipped", "rejected", "ambiguous", "failed")


@dataclass(frozen=True)
class CliTry:
    """
    One load.

    :param attempt: Faults during the command.
    :param form: How the file is written.
    :param output: Format of the output.
    :param interrupted_at: Number of the request, from 0, at which the user types Ctrl-C, or None.
    """

    attempt: Try = CALM
    form: Form = PLAIN
    output: Literal["text", "json"] = "json"
    interrupted_at: int | None = None


@dataclass(frozen=True)
class CliLoadNight:
    """
    Loads of one source with faults, its inspection, and loads without faults.

    :param rows: Rows of the source.
    :param tries: Loads with faults.
    :param name: Name of the file, without its suffix.
    :param form: How the file of the last loads is written.
    :param on_ambiguous: What to do with ambiguous rows.
    :param resolves: Whether a person resolves ambiguous rows after the faults.
    :param inspects: Command about the ledger that runs after the last load.
    :param retries: Maximum number of retries per request.
    :param max_concurrency: Maximum number of requests in flight.
    """

    rows: tuple[Row, ...]
    tries: tuple[CliTry, ...]
    name: str = "faq"
    form: Form = PLAIN
    on_ambiguous: Literal["retry", "skip", "fail"] = "retry"
    resolves: bool = False
    inspects: Literal["ambiguous", "status", "stale", "superseded", "findings", "forget"] = "status"
    retries: int = 2
    max_concurrency: int = 4


def check_cli_load(night: CliLoadNight) -> None:
    """Load a file, and check the promises after every command and at the end."""
    terminal = Terminal(Service(), retries=night.retries, max_concurrency=night.max_concurrency)
    terminal.most = max(1, len(night.rows)) * (night.retries + 1 + MAX_PAUSE + 10)
    with terminal.entered():
        _Course(night, terminal).run()


class _Course:
    """The state of a night."""

    def __init__(self, night: CliLoadNight, terminal: Terminal) -> None:
        self._night, self._terminal, self._service = night, terminal, terminal.service
        self._rows = Rows(night.rows)
        is_hidden = night.name.startswith((".", "_"))
        self._is_hidden: Callable[[Form], bool] = lambda form: is_hidden and form.place != "file"
        self._is_loadable = bool(night.rows) and not self._rows.is_contradictory
        self.listed: set[str] = set()

    def run(self) -> None:
        """Run the commands of the night."""
        night, terminal = self._night, self._terminal
        for one in night.tries:
            self._load(one.form, one)
        # The claims of a killed command expire.
        terminal.sleep(DAY)
        if night.resolves:
            self._resolve()
        self._listed_in_ledger()
        form = Form(night.form.suffix, night.form.key_type)
        good = self._load(form, CliTry())
        if not self._is_loadable:
            assert good.code == 2, f"a file that cannot be loaded is refused: {good.err}"
            assert not self._service.documents, "nothing of it is sent"
            return
        titles, stored = self._rows.titles, self._service.documents
        assert set(stored) <= titles, "a bad row is not sent"
        if night.on_ambiguous == "retry" or night.resolves:
            assert good.code == (1 if self._rows.bad else 0), good.err
            assert set(stored) == titles, "a repeat converges"
        twice = {title for title, times in stored.items() if times > 1}
        assert twice <= self.listed, f"nothing is created twice without being listed: {twice - self.listed}"
        again = self._load(form, CliTry())
        # With "fail", an ambiguous row may stop a load that has read the limits for its other rows.
        created = [entry for entry in again.entries if entry.endpoint != "limits"]
        assert not created, "an unchanged file sends nothing"
        assert again.code == good.code
        if night.on_ambiguous == "retry" or night.resolves:
            self._inspect()

    def _load(self, form: Form, one: CliTry, rows: tuple[Row, ...] | None = None) -> Ran:
        """Run one load, and check its result."""
        rows = self._night.rows if rows is None else rows
        terminal, before = self._terminal, self._service.documents.copy()
        path = written(rows, form, self._night.name, terminal.folder)
        argv = ("load", path, *SOURCE, "--on-ambiguous", self._night.on_ambiguous, "-o", one.output)
        ran = terminal.ran(*argv, attempt=one.attempt, interrupted_at=one.interrupted_at)
        self.listed |= self._found()
        if ran.code is None:
            return ran
        longest = (self._night.retries + 1) * (30.0 + 1.2 * MAX_PAUSE + 2) + 3 * MAX_PAUSE + 60
        assert ran.seconds <= max(1, len(rows)) * longest, "the time is bounded"
        made = self._service.documents - before
        if self._is_hidden(form):
            assert ran.code == 2, "a folder or glob does not select hidden files"
            assert not ran.entries
        if one.output == "json" and ran.out:
            _check_counts(ran, rows, made)
        elif ran.code in {0, 1}:
            noun = "row" if len(rows) == 1 else "rows"
            assert f" {len(rows)} {noun}: " in ran.out, f"the counts are shown: {ran.out}"
        is_calm = one.attempt == CALM and one.interrupted_at is None
        assert ran.code not in {3, 4, 5, 130} or not is_calm or self._night.on_ambiguous == "fail", ran.err
        return ran

    def _found(self) -> set[str]:
        """Return the documents that findings list as ambiguous or possibly duplicated."""
        found: set[str] = set()
        for path in self._terminal.folder.glob("assistant_loads/*/*.parquet"):
            try:
                rows = pq.read_table(path).to_pylist()
            except ValueError:
                continue  # of a killed command
            keys = [row["key"] for row in rows if row["kind"] in {"possibly_duplicated", "ambiguous"}]
            found |= set[str]().union(*(self._rows.titles_of.get(key, ()) for key in keys))
        return found

    def _ambiguous(self) -> list[dict[str, Any]]:
        ran = self._terminal.ran("ledger", "ambiguous", "-o", "json")
        entries: list[dict[str, Any]] = ran.value
        assert ran.code == bool(entries)
        return entries

    def _listed_in_ledger(self) -> None:
        """Add what the ledger lists: the findings of a killed command are lost, the ledger is not."""
        for entry in self._ambiguous():
            self.listed |= self._rows.titles_of.get(entry["label"], set())

    def _resolve(self) -> None:
        """Check the site, and record what was found."""
        path = written(self._night.rows, PLAIN, "faq", self._terminal.folder)
        for entry in self._ambiguous():
            (title,) = self._rows.titles_of[entry["label"]] or {""}
            times = self._service.documents[title]
            known = ("--as", "created", "--file", path, "--key", "id") if times else ("--as", "not-created")
            ran = self._terminal.ran("ledger", "resolve", entry["key"], *known, "-o", "json")
            assert ran.code == 0, ran.err
            if times > 1:
                self.listed.add(title)
        assert not self._ambiguous(), "what was resolved is not ambiguous"

    def _inspect(self) -> None:
        """Check that a command about the ledger agrees with the service."""
        run = self._terminal.ran
        match self._night.inspects:
            case "ambiguous":
                assert not self._ambiguous(), "after good loads, nothing is ambiguous"
            case "status":
                counts = Counter[str]()
                for one in run("ledger", "status", "-o", "json").value["counts"]:
                    counts[f"{one['kind']} {one['outcome']}"] += one["entries"]
                assert counts["document created"] == len(self._rows.titles), "the ledger has every document"
                loads = sum(times for name, times in counts.items() if name.startswith("load "))
                assert len(run("ledger", "loads", "-o", "json").value) == min(20, loads), "every load is listed"
            case "stale" | "superseded" as command:
                path = written(self._night.rows, self._night.form, "faq", self._terminal.folder)
                ran = run("ledger", command, *((path, *SOURCE) if command == "stale" else ()), "-o", "json")
                assert (ran.code, ran.value) == (0, []), "an unchanged file leaves nothing to delete"
            case "findings":
                for path in self._terminal.folder.glob("assistant_loads/*/*.parquet"):
                    ran = run("findings", str(path), "-o", "json")
                    assert ran.code == 2 or len(ran.value) > 0, "findings are shown"
            case "forget":
                self._forget(Form(self._night.form.suffix, self._night.form.key_type))

    def _forget(self, form: Form) -> None:
        """Delete a document of a row that is gone, record it, and load the row again."""
        remaining = tuple(row for row in self._night.rows if row.title != max(self._rows.titles, default=""))
        if not remaining or not self._rows.titles:
            return
        stored = self._service.documents.copy()
        findings = str(self._terminal.folder / "stale.parquet")
        path = written(remaining, form, self._night.name, self._terminal.folder)
        self._terminal.ran("load", path, *SOURCE, "--findings", findings)
        ran = self._terminal.ran("ledger", "forget", "--findings", findings, "-o", "json")
        assert ran.code == 0 or "matches" in ran.err, ran.err
        again = self._load(form, CliTry())
        created = self._service.documents - stored
        assert sum(created.values()) == (ran.value["documents"] if ran.code == 0 else 0), "what was deleted is created"
        assert again.value["created"] == sum(created.values())


def _check_counts(ran: Ran, rows: tuple[Row, ...], made: Counter[str]) -> None:
    """Check the counts of a load against its file and the service."""
    counts = ran.value
    assert sum(counts[name] for name in COUNTED) == counts["rows"] == len(rows), f"the counts add up: {counts}"
    assert min(counts[name] for name in COUNTED) >= 0
    sent = [entry for entry in ran.entries if entry.endpoint != "limits"]
    assert len(ran.entries) - len(sent) <= 1, "the limits are read with one request"
    assert counts["requests"] == len(sent), "the counts are those of the service"
    assert counts["created"] <= sum(made.values()), "every created document is at the service"
    assert counts["created"] <= len([entry for entry in sent if 200 <= entry.status < 300])
    assert len(counts["sent"]) == min(20, counts["created"]), "what was created is named"
    assert (counts["error"] is None) == (ran.code in {0, 1}) or ran.code == 130, "the error is in the result"
    if ran.code == 0:
        assert not counts["rejected"] + counts["failed"], "success means success"
    if ran.code == 1:
        assert counts["rejected"] + counts["failed"] + counts["ambiguous"], "a problem is counted"


@dataclass(frozen=True)
class UnusableNight:
    """
    Commands on a file that cannot be loaded.

    :param kind: Why it cannot be loaded.
    :param output: Format of the output.
    """

    kind: str
    output: Literal["text", "json"] = "json"


def check_unusable(night: UnusableNight) -> None:
    """Give a file that cannot be loaded to every command that reads one."""
    terminal = Terminal(Service())
    with terminal.entered():
        path = unusable(night.kind, terminal.folder)
        for argv in (
            ("load", path, *SOURCE),
            ("load", path, *SOURCE, "--dry-run"),
            ("load", path, "--kind", "text"),
            ("ledger", "stale", path, *SOURCE),
            ("findings", path),
            ("ledger", "forget", "--findings", path),
            ("ledger", "resolve", "--as", "not-created", "--findings", path),
        ):
            ran = terminal.ran(*argv, "-o", night.output)
            assert ran.code == 2, f"{argv} is refused: {ran.code} {ran.err}"
            assert not ran.entries, "nothing is sent"
            assert not ran.out, "there is no result"
            names = {"faq", "no rows", "no column", path, ascii(path)[1:-1]}
            assert any(name in ran.err for name in names), f"the message names the file: {ran.err}"


# -- generation ------------------------------------------------------------------------------------

FORMS = st.builds(
    Form,
    st.sampled_from(["csv", "csv", "jsonl", "parquet"]),
    st.sampled_from(["int", "float", "str"]),
    st.sampled_from(["file", "file", "folder", "glob"]),
)
CLI_TRIES = st.builds(
    CliTry,
    attempt=TRIES,
    form=FORMS,
    output=st.sampled_from(["json", "json", "text"]),
    interrupted_at=st.one_of(st.none(), st.none(), st.none(), st.integers(0, 8)),
)
CLI_LOAD_NIGHTS = st.builds(
    CliLoadNight,
    rows=st.one_of(*[PLAIN_ROWS] * 8, *[NUMBERED_ROWS] * 7, *[TEXT_ROWS] * 4, LARGE_ROWS),
    tries=st.lists(CLI_TRIES, min_size=1, max_size=2).map(tuple),
    name=st.sampled_from(NAMES),
    form=FORMS,
    on_ambiguous=st.sampled_from(["retry", "retry", "skip", "fail"]),
    resolves=st.booleans(),
    inspects=st.sampled_from(["ambiguous", "status", "stale", "superseded", "findings", "forget", "forget"]),
    retries=st.integers(0, 3),
    max_concurrency=st.sampled_from([1, 4, 16]),
)
UNUSABLE_NIGHTS = st.builds(
    UnusableNight, st.sampled_from([*UNUSABLE, *ABSENT]), st.sampled_from(["json", "json", "text"])
)
