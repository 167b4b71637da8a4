"""Nights of the command line, in a simulated terminal."""

from __future__ import annotations

import contextlib
import functools
import io
import itertools
import json
import logging
import re
import sys
import unicodedata
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Literal
from unittest import mock

from hypothesis import strategies as st

from airflow_provider_assistant.__main__ import parser
from airflow_provider_assistant.cli import ledger, load, rows
from airflow_provider_assistant.sandbox import Settings
from airflow_provider_assistant.sandbox.store import Document
from tests.simulate.command_files import ABSENT, GOOD, NAMES, UNUSABLE, FileForm, unusable, written
from tests.simulate.replies import OFTEN_WELL, SECRET
from tests.simulate.sources import LARGE_ROWS, NUMBERED_ROWS, PLAIN_ROWS, TEXT_ROWS, Row, Rows
from tests.simulate.transport import CREATES, Sent
from tests.simulate.world import CALM, DAY, FAULTS, End, Try, World, answer_to

# The documented exit codes.
CODES = {0, 1, 2, 130}
# Longest line of an error, in characters: a few lines of a terminal.
LONGEST = 1_000
OURS = "airflow_provider_assistant"
# What a load that failed has created, and what is recorded of it.
PROGRESS = re.compile(r"This try created \d+ of \d+ rows?\. |Nothing was sent\.$")
LOGGERS = ("", "airflow", OURS, f"{OURS}.loading.progress.rejected", f"{OURS}.source_account")
# The longest pause of a single call after a 429, in seconds, and that of a load.
CALL_PAUSE, LOAD_PAUSE = 60.0, 300.0


@dataclass
class Ran:
    """The end of a command; the code is None if the process was killed."""

    argv: tuple[str, ...]
    code: int | None
    out: str
    err: str
    sent: list[Sent]
    seconds: float

    @property
    def values(self) -> list[Any]:
        """Return the JSON values in the output."""
        return [json.loads(line, parse_constant=_no_constant) for line in self.out.splitlines()]

    @property
    def value(self) -> Any:
        """Return the only JSON value in the output."""
        (value,) = self.values
        return value


class Terminal(World):
    """A world in which commands run."""

    def __init__(self, **options: Any) -> None:
        super().__init__(Settings(processing_seconds=1.0, allow_duplicates=True), **options)
        self._numbers = itertools.count(1)

    def ran(self, *argv: str, attempt: Try = CALM, typed: bytes = b"") -> Ran:
        """Run a command with this standard input, and check what holds for every command."""
        out, err = io.BytesIO(), io.BytesIO()
        streams = {
            "stdin": io.TextIOWrapper(io.BytesIO(typed), "utf-8"),
            "stdout": io.TextIOWrapper(out, "utf-8", newline=""),
            "stderr": io.TextIOWrapper(err, "utf-8", errors="backslashreplace", newline=""),
        }
        number = next(self._numbers)

        def execute(_context: dict[str, Any]) -> Any:
            with mock.patch.object(rows, "getpid", return_value=number), _restored_logging():
                with mock.patch.multiple(sys, **streams):
                    return _exit_code(argv)

        ended = self.tried(attempt, execute, number=number)
        for stream in streams.values():
            stream.flush()
        assert ended.error is None or ended.is_killed, repr(ended.error)
        texts = [stream.getvalue().decode() for stream in (out, err)]
        result = Ran(argv, ended.result, *texts, ended.sent, ended.seconds)
        if result.code is not None:
            _check(result)
        return result

    @contextlib.contextmanager
    def entered(self) -> Iterator[Terminal]:
        """Let the package use this world instead of the real one."""
        clock = SimpleNamespace(now=lambda _zone: self.moment())
        with contextlib.ExitStack() as stack:
            stack.enter_context(super().entered())
            for module in (rows, ledger):
                stack.enter_context(mock.patch.object(module, "datetime", clock))
            # A day of progress bars would take long even on a virtual clock.
            stack.enter_context(mock.patch.object(load, "TICK", 3_600.0))
            yield self


@functools.cache
def _parser() -> ArgumentParser:
    return parser()


def _exit_code(argv: tuple[str, ...]) -> int:
    try:
        args = _parser().parse_args(list(argv))
        args.func(args)
    except SystemExit as end:
        if isinstance(end.code, int):
            return end.code
    raise AssertionError("a command ends with an exit code")


@contextlib.contextmanager
def _restored_logging() -> Iterator[None]:
    """Restore the configuration of logging, which a command changes for its process."""
    loggers = [logging.getLogger(name) for name in LOGGERS]
    states = [(logger, logger.level, logger.propagate, logger.handlers[:]) for logger in loggers]
    try:
        yield
    finally:
        for logger, level, propagate, handlers in states:
            logger.level, logger.propagate, logger.handlers[:] = level, propagate, handlers
        logging.getLogger().manager._clear_cache()  # type: ignore[attr-defined]


def _check(ran: Ran) -> None:
    """Check what holds for every command."""
    shown = f"{ran.argv} ended with {ran.code}: {ran.err[:3_000]}"
    assert ran.code in CODES, f"the exit code is documented: {shown}"
    assert "Traceback" not in ran.err, f"no traceback: {shown}"
    is_verbose, is_json = bool({"-v", "--verbose"} & {*ran.argv}), "json" in ran.argv
    assert "This should not happen" not in ran.err, f"no bug: {shown}"
    lines = ran.err.splitlines()
    errors = [line for line in lines if line.startswith("error: ")]
    if not ran.err.startswith("usage:"):
        if ran.code == 2:
            # Before it, another error may say why what was created is not known.
            assert errors[-1:] == lines[-1:], f"the last line says what is wrong: {shown}"
            assert all(len(error) <= LONGEST for error in errors), f"a message is short: {shown}"
        else:
            # One line says why rows of a load failed that ran to its end.
            may_fail = ran.code == 1 and ran.argv[0] == "load"
            assert len(errors) <= may_fail, f"a command without an error reports none: {shown}"
        if is_json and not is_verbose:
            messages = [line for line in lines if not PROGRESS.match(line)]
            kinds = {message.partition(": ")[0] for message in messages}
            assert kinds <= {"error", "warning"}, f"nothing but messages on standard error: {shown}"
            assert len(lines) - len(messages) <= (ran.code in {2, 130}), shown
    texts = [ran.out, ran.err]
    if is_json:
        texts += [json.dumps(value, ensure_ascii=False) for value in ran.values]
        if ran.code in {0, 1} and ran.argv[0] != "chat":
            assert ran.out, f"a command that ran has a result: {shown}"
    key_is_shown = any(SECRET in text for text in texts)
    assert not key_is_shown, f"no secret in the output of {ran.argv}"
    controls = {char for char in ran.out + ran.err if char not in "\n\t" and unicodedata.category(char) in {"Cc", "Cs"}}
    assert not controls, f"nothing controls the terminal: {controls} in {shown}"


def _no_constant(name: str) -> Any:
    raise AssertionError(f"JSON has no {name}")


# -- loads ---------------------------------------------------------------------------------------

SOURCE = ("--key", "id", "--source-name", "faq")
COUNTED = ("created", "unchanged", "skipped", "rejected", "ambiguous", "failed")
Output = Literal["table", "json"]
PLAIN = FileForm()


@dataclass(frozen=True)
class CommandLoads:
    """
    Loads of one source with faults, whose ambiguous rows a person may resolve, and then loads without faults.

    :param tries: faults of the first loads, the form of their file, and the format of their output.
    :param name: name of the file without its suffix.
    :param form: form of the file of the last loads.
    :param resolves: whether a person resolves ambiguous rows.
    :param inspects: command about the ledger that runs at the end.
    """

    rows: tuple[Row, ...]
    tries: tuple[tuple[Try, FileForm, Output], ...]
    name: str = "faq"
    form: FileForm = PLAIN
    on_ambiguous: Literal["retry", "skip"] = "retry"
    resolves: bool = False
    inspects: str = "list"
    retries: int = 2
    max_concurrency: int = 4

    def check(self) -> None:
        """Run the commands, and check the promises after each of them and at the end."""
        terminal = Terminal(retries=self.retries, max_concurrency=self.max_concurrency)
        terminal.most = max(1, len(self.rows)) * (self.retries + 1 + LOAD_PAUSE + 10)
        with terminal.entered():
            _Course(self, terminal).run()


class _Course:
    """The state of a night."""

    def __init__(self, night: CommandLoads, terminal: Terminal) -> None:
        self._night, self._terminal = night, terminal
        self._rows = Rows(night.rows, are_in_text_file=True)
        self._is_loadable = bool(night.rows) and not self._rows.is_contradictory
        self.listed: set[str] = set()

    def stored(self) -> Counter[str]:
        """Return how often the site has each document."""
        return Counter(one.title for one in self._terminal.stored(Document))

    def run(self) -> None:
        """Run the commands of the night."""
        night, terminal = self._night, self._terminal
        for attempt, form, output in night.tries:
            self._load(form, attempt, output)
        # The claims of a killed command expire.
        terminal.sleep(DAY + abs(terminal.jumped))
        is_resolved = night.resolves and self._resolve()
        # The findings of a killed command are lost, the ledger is not.
        for entry in self._ambiguous():
            self.listed |= self._rows.titles_of.get(entry["key"], set())
        form = FileForm(night.form.suffix, night.form.key_type)
        good = self._load(form)
        stored, titles = self.stored(), self._rows.titles
        if not self._is_loadable:
            assert good.code == 2, f"a file that cannot be loaded is refused: {good.err}"
            assert not stored, "nothing of it is sent"
            return
        assert set(stored) <= titles, "a bad row is not sent"
        if night.on_ambiguous == "retry" or is_resolved:
            assert good.code == (1 if self._rows.bad else 0), good.err
            assert set(stored) == titles, "a repeat converges"
        twice = {title for title, times in stored.items() if times > 1}
        assert twice <= self.listed, f"nothing is created twice without being listed: {twice - self.listed}"
        again = self._load(form)
        assert not again.sent, "an unchanged file sends nothing"
        assert again.code == good.code
        if night.on_ambiguous == "retry" or is_resolved:
            self._inspect()

    def _load(self, form: FileForm, attempt: Try = CALM, output: Output = "json") -> Ran:
        """Run one load, and check its result."""
        night, terminal, before = self._night, self._terminal, self.stored()
        path = written(night.rows, form, night.name, terminal.folder)
        argv = ("load", path, *SOURCE, "--on-ambiguous", night.on_ambiguous, "-o", output)
        ran = terminal.ran(*argv, attempt=attempt)
        self.listed |= self._found()
        if ran.code is None:
            return ran
        longest = (night.retries + 1) * (30.0 + 1.2 * LOAD_PAUSE + 2) + 3 * LOAD_PAUSE + 60
        assert ran.seconds <= max(1, len(night.rows)) * longest, "the time is bounded"
        if night.name.startswith((".", "_")) and form.place != "file":
            assert ran.code == 2, "a folder or glob does not select hidden files"
            assert not ran.sent
        if output == "json" and ran.out:
            self._check_counts(ran, self.stored() - before)
        elif ran.code in {0, 1}:
            noun = "row" if len(night.rows) == 1 else "rows"
            assert f" {len(night.rows)} {noun}: " in ran.out, f"the counts are shown: {ran.out}"
        assert ran.code != 130 or attempt != CALM, ran.err
        return ran

    def _check_counts(self, ran: Ran, made: Counter[str]) -> None:
        """Check the counts of a load against its file and the service."""
        counts = ran.value
        assert sum(counts[name] for name in COUNTED) == counts["rows"] == len(self._night.rows), counts
        assert min(counts[name] for name in COUNTED) >= 0
        creates = [one for one in ran.sent if one.endpoint in CREATES]
        assert len(ran.sent) - len(creates) <= 1, "the limits are read with one request"
        assert counts["requests"] == len(creates), "the counts are those of the service"
        assert counts["created"] <= sum(made.values()), "every created document is at the service"
        assert len(counts["sent"]) == min(20, counts["created"]), "what was created is named"
        assert (counts["error"] is None) == (ran.code == 0), "the error is in the result"
        assert ran.code != 0 or not counts["rejected"] + counts["failed"], "success means success"
        problems = counts["rejected"] + counts["failed"] + counts["ambiguous"]
        assert ran.code != 1 or problems, "a problem is counted"

    def _found(self) -> set[str]:
        kinds = {"possibly_duplicated", "ambiguous"}
        keys = [one["key"] for one in self._terminal.findings() if one["kind"] in kinds]
        return set[str]().union(*(self._rows.titles_of.get(key, ()) for key in keys))

    def _ambiguous(self) -> list[dict[str, Any]]:
        ran = self._terminal.ran("ledger", "list", "--state", "unresolved", "-o", "json")
        entries: list[dict[str, Any]] = ran.value
        assert ran.code == bool(entries)
        return entries

    def _resolve(self) -> bool:
        """Check the site, and record what was found. Return whether each entry could be named."""
        labels = [entry["key"] for entry in self._ambiguous()]
        for label in labels:
            if sum(label in other for other in labels) > 1 or not label.strip():
                return False
            (title,) = self._rows.titles_of[label] or {""}
            times = self.stored()[title]
            argv = ("ledger", "resolve", "--as", "created" if times else "not-created", "--key", label, "-o", "json")
            shown = self._terminal.ran(*argv)
            assert (shown.code, shown.value["entries"]) == (1, 1), shown.err
            done = self._terminal.ran(*argv, "--confirm", shown.value["confirm"])
            assert (done.code, done.value["changed"]) == (0, True), done.err
            if times > 1:
                self.listed.add(title)
        assert not self._ambiguous(), "what was resolved is not ambiguous"
        return True

    def _inspect(self) -> None:
        """Check that a command about the ledger agrees with the service."""
        run, folder = self._terminal.ran, self._terminal.folder
        match self._night.inspects:
            case "ambiguous":
                assert not self._ambiguous(), "after good loads, nothing is ambiguous"
            case "list":
                counts = Counter[str]()
                for one in run("ledger", "list", "-o", "json").value["states"]:
                    counts[one["state"]] += one["entries"]
                assert counts["created"] >= len(self._rows.titles), "the ledger has every document"
                assert run("ledger", "loads", "-o", "json").value, "loads are listed"
            case "stale" | "superseded" as state:
                ran = run("ledger", "list", "--state", state, "-o", "json")
                assert (ran.code, ran.value) == (0, []), "an unchanged file leaves nothing to delete"
            case "findings":
                for path in map(str, folder.glob("assistant_loads/*/*.parquet")):
                    ran = run("findings", path, "-o", "json")
                    assert ran.code == 2 or len(ran.value) > 0, "findings are shown"
            case "removed":
                self._remove(FileForm(self._night.form.suffix, self._night.form.key_type))

    def _remove(self, form: FileForm) -> None:
        """Delete the document of a row that is gone, record it, and load the row again."""
        last = max(self._rows.titles, default="")
        remaining = tuple(row for row in self._night.rows if row.title != last)
        if not remaining or not last:
            return
        before, terminal = self.stored(), self._terminal
        path = written(remaining, form, self._night.name, terminal.folder)
        terminal.ran("load", path, *SOURCE)
        argv = ("ledger", "resolve", "--as", "removed", "--state", "stale", "-o", "json")
        removed = terminal.ran(*argv).value
        if removed["entries"]:
            assert terminal.ran(*argv, "--confirm", removed["confirm"]).code == 0
        again = self._load(form)
        created = sum((self.stored() - before).values())
        assert created == again.value["created"] <= removed["entries"], "what was deleted is created"
        assert created or not removed["entries"]


@dataclass(frozen=True)
class UnusableFile:
    """A file that cannot be loaded, given to every command that reads one."""

    kind: str
    output: Output = "json"

    def check(self) -> None:
        """Check that each command refuses the file, and names it."""
        terminal = Terminal()
        with terminal.entered():
            path = unusable(self.kind, terminal.folder)
            for argv in (
                ("load", path, *SOURCE),
                ("load", path, *SOURCE, "--dry-run"),
                ("load", path, "--kind", "text"),
                ("findings", path),
            ):
                ran = terminal.ran(*argv, "-o", self.output)
                assert ran.code == 2, f"{argv} is refused: {ran.code} {ran.err}"
                assert not ran.sent, "nothing is sent"
                assert not ran.out, "a command that fails prints no result"
                names = {"faq", "no rows", "no column", path, ascii(path)[1:-1]}
                assert any(name in ran.err for name in names), f"the message names the file: {ran.err}"


# -- single calls --------------------------------------------------------------------------------

# Two of these lines are blank.
LINES = "One?\n\n  Zwei und größer?  \n\t\nThree\x00?\nFour?"
MESSAGES = ["One?", "Zwei und größer?", "Three\x00?", "Four?"]
# The longest wait of the smoke test for its answer, in seconds.
SMOKE_STEPS, SMOKE_WAIT = 7, 120.0


@dataclass(frozen=True)
class CommandCall:
    """
    One command that sends requests, with faults and then without.

    :param command: its name; ``lines`` is a chat with several lines of input.
    """

    command: Literal["read", "chat", "lines", "smoke"]
    attempt: Try
    output: Output = "json"
    is_verbose: bool = False
    retries: int = 2

    def check(self) -> None:
        """Run the command with faults, and again without."""
        terminal = Terminal(retries=self.retries)
        terminal.teach(*(message.replace("\0", "\ufffd") for message in MESSAGES))
        calls = {"read": 1, "chat": 1, "lines": len(MESSAGES), "smoke": SMOKE_STEPS - 1 + SMOKE_WAIT}[self.command]
        terminal.most = calls * (self.retries + 1 + CALL_PAUSE + 10)
        argv = {"chat": ("chat", "-m", MESSAGES[0]), "lines": ("chat",), "read": ("read", "limits")}.get(
            self.command, (self.command,)
        )
        flags = ("-o", self.output, *(["-v"] if self.is_verbose else []))
        with terminal.entered():
            ran = terminal.ran(*argv, *flags, attempt=self.attempt, typed=LINES.encode())
            longest = (self.retries + 1) * (30.0 + 1.2 * CALL_PAUSE + 2) + 3 * CALL_PAUSE
            assert ran.seconds <= calls * longest + SMOKE_WAIT, "the time is bounded"
            if self.command == "smoke":
                self._check_smoke(ran)
            elif ran.code != 130:
                self._check_code(ran)
            good = terminal.ran(*argv, "-o", "json", typed=LINES.encode())
            assert good.code == 0, good.err
            if self.command in {"chat", "lines"}:
                texts = [value["text"] for value in good.values]
                # JSON from outside is read without NUL characters.
                assert texts == [answer_to(one).replace("\0", "\ufffd") for one in MESSAGES[: len(texts)]]

    def _check_code(self, ran: Ran) -> None:
        """Check the documented meaning of the exit codes."""
        statuses = [one.status for one in ran.sent]
        if ran.code == 0:
            assert statuses
            assert 200 <= statuses[-1] < 300, f"success means success: {statuses}"
        else:
            assert ran.code == 2, f"nothing was wrong with the command: {ran.code} {ran.err}"
            # A reply with the status of a success may say that the request failed.
            is_failure = not 200 <= statuses[-1] < 300 or self.attempt.odd
            assert is_failure, f"an answer is no failure: {statuses}"
        if self.output == "json" and self.command in {"chat", "lines"}:
            assert len(ran.values) <= len({one.item for one in ran.sent})
            assert len(ran.values) >= len([one for one in ran.sent if one.answered]), "every answer is shown"
            assert ran.code != 0 or len(ran.values) == (1 if self.command == "chat" else len(MESSAGES))

    def _check_smoke(self, ran: Ran) -> None:
        if self.output == "json" and ran.code in {0, 1}:
            steps = ran.value["steps"]
            assert len(steps) == SMOKE_STEPS, "every step has a result"
            assert ran.value["passed"] == (ran.code == 0) == all(step["verdict"] == "ok" for step in steps)
            assert all(step["detail"] for step in steps), "every step says something"


@dataclass(frozen=True)
class OddArguments:
    """One command with odd arguments: ``FILE`` stands for a file of one row, ``FOLDER`` for a folder."""

    argv: tuple[str, ...]
    output: Output = "json"
    typed: bytes = b""

    def check(self) -> None:
        """Run the command; what holds for every command is all there is to check."""
        terminal = Terminal()
        terminal.most = 150
        with terminal.entered():
            inner, file = terminal.folder / "inner", terminal.folder / "faq.csv"
            inner.mkdir()
            file.write_bytes(GOOD)
            argv = [one.replace("FILE", str(file)).replace("FOLDER", str(inner)) for one in self.argv]
            terminal.ran("load", str(file), "--key", "id")
            for _ in range(2):
                ran = terminal.ran(*argv, "-o", self.output, typed=self.typed)
            if ran.code == 2:
                assert not [one for one in ran.sent if one.status < 300], "what is refused is not sent"


# -- generation ----------------------------------------------------------------------------------

_FORMS = st.builds(
    FileForm,
    st.sampled_from(["csv", "csv", "jsonl", "parquet"]),
    st.sampled_from(["int", "float", "str"]),
    st.sampled_from(["file", "file", "folder", "glob"]),
)
_HOW = st.sampled_from(["killed", "killed before", "interrupted"])
_FAULTS = {**FAULTS, "later": st.just(0.0)}
_LOAD_TRIES = st.builds(Try, **{**_FAULTS, "end": st.one_of(st.none(), st.builds(End, st.integers(0, 8), _HOW))})
_CALL_TRIES = st.builds(Try, **{**_FAULTS, "end": st.none()})
COMMAND_LOADS = st.builds(
    CommandLoads,
    rows=st.one_of(*[PLAIN_ROWS] * 8, *[NUMBERED_ROWS] * 7, *[TEXT_ROWS] * 4, LARGE_ROWS),
    tries=st.lists(
        st.tuples(_LOAD_TRIES, _FORMS, st.sampled_from(["json", "json", "table"])), min_size=1, max_size=2
    ).map(tuple),
    name=st.sampled_from(NAMES),
    form=_FORMS,
    on_ambiguous=st.sampled_from(["retry", "retry", "skip"]),
    resolves=st.booleans(),
    inspects=st.sampled_from(["ambiguous", "list", "stale", "superseded", "findings", "removed", "removed"]),
    retries=st.integers(0, 3),
    max_concurrency=st.sampled_from([1, 4, 16]),
)
UNUSABLE_FILES = st.builds(
    UnusableFile, st.sampled_from([*UNUSABLE, *ABSENT]), st.sampled_from(["json", "json", "table"])
)
COMMAND_CALLS = st.builds(
    CommandCall,
    command=st.sampled_from(["read", "chat", "lines", "smoke"]),
    attempt=st.one_of(
        _CALL_TRIES,
        st.builds(Try, st.lists(OFTEN_WELL, min_size=1, max_size=8).map(tuple)),
        st.builds(Try, then=OFTEN_WELL),
    ),
    output=st.sampled_from(["json", "json", "table"]),
    is_verbose=st.sampled_from([False, False, True]),
    retries=st.integers(0, 3),
)
# Arguments of a process are bytes without NUL: what is not UTF-8 arrives as lone surrogates.
_TEXTS = st.one_of(
    st.sampled_from(
        [
            *("", " ", "-", "x", "docs", "acme", ".", "..", "../../etc", "a/b?c#d", "%", "100%", "=", "a=b", "a="),
            *("ä", "Ω" * 300, "x" * 251, "x" * 10_000, "\udcff", "a\udc80b", "\u202e", "\x1b[31m", "a\nb", "\r", "\t"),
            *("{{ x }}", "*", "?", "[", "'", '"', "0", "-1", "nan", "inf", "1e400", "9" * 25, "\u0663", "None", "null"),
            *("nosuch://x", "gs://b/k", "id", "title", "1", "T1", "assistant_default"),
        ]
    ),
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12),
)
_NUMBERS = st.sampled_from(
    [*("0", "1", "-1", "0.5", "1e3", "nan", "inf", "-inf", "1e400", "x", ""), "9" * 12, "9" * 25, "2147483648"]
)
# Paths are below the folder of the night, except URLs.
_PATHS = st.one_of(
    st.sampled_from(["FILE", "FILE", "nosuch://x", "gs://b/k", ""]), _TEXTS.map(lambda text: f"FOLDER/{text}")
)
_VALUES = {
    **dict.fromkeys(("--findings", "--document"), _PATHS),
    **dict.fromkeys(("--timeout", "--max-rejected", "--limit", "--older-than"), _NUMBERS),
}
_OPTIONS = {
    "read limits": "--tenant --conn-id",
    "chat": "--site --conn-id --session --message --email --language",
    "smoke": "--site --tenant --conn-id --document --question --timeout",
    "load": "--site --conn-id --source-name --namespace --column --constant --key --csv-option --encoding"
    " --max-rejected --findings --kind --on-change",
    "findings": "--finding",
    "ledger list": "--site --state --source --key --kind",
    "ledger resolve": "--site --id --source --key --confirm",
    "ledger loads": "--site --limit --source",
    "ledger prune": "--older-than",
}


@st.composite
def _argv(draw: st.DrawFn) -> tuple[str, ...]:
    command = draw(st.sampled_from([*_OPTIONS]))
    argv = [*command.split(), *(["-v"] if draw(st.integers(0, 4)) == 4 else ())]
    # More than one odd value would often be refused because of the first.
    options = st.lists(st.sampled_from(_OPTIONS[command].split()), min_size=1, max_size=2, unique=True)
    argv += [f"{option}={draw(_VALUES.get(option, _TEXTS))}" for option in draw(options)]
    if command in {"load", "findings"}:
        argv.append(draw(_PATHS))
    return (*argv, *(("--as", "created") if command == "ledger resolve" else ()))


_TYPED = [b"", b"One?\n", b"\xff\n", b"\x00\n", b"x" * 100_000, b"One?\r\nTwo?\r\n", b"\xed\xa0\x80\n"]
ODD_ARGUMENTS = st.builds(OddArguments, _argv(), st.sampled_from(["json", "table"]), st.sampled_from(_TYPED))
