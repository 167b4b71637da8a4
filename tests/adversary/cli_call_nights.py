"""Nights of single commands: limits, chat and smoke on an odd service, and every command with odd arguments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hypothesis import strategies as st

from tests.adversary.cli_inputs import GOOD
from tests.adversary.cli_world import Terminal
from tests.adversary.request_service import OFTEN_WELL, RETRY_AFTER, TRIES, Answer, Service, Try, answer_to

# The longest pause of a single call after a 429, in seconds.
MAX_PAUSE = 60.0
SMOKE_STEPS = 7
# Longest wait of the smoke test for its async answer, in seconds.
SMOKE_WAIT = 120.0
PERMANENT = {400, 401, 403, 404, 405, 409, 410, 422}


@dataclass(frozen=True)
class CallNight:
    """
    One command that sends requests, with faults and then without.

    :param command: Name of the command; ``lines`` is a chat with several lines of input.
    :param attempt: Faults during the command.
    :param output: Format of the output.
    :param is_verbose: Whether the log is written to standard error.
    :param retries: Maximum number of retries per request.
    """

    command: Literal["limits", "chat", "lines", "smoke"]
    attempt: Try
    output: Literal["text", "json"] = "json"
    is_verbose: bool = False
    retries: int = 2


# Two of these lines are blank.
LINES = "One?\n\n  Zwei und größer?  \n\t\nThree\x00?\nFour?"
MESSAGES = ["One?", "Zwei und größer?", "Three\x00?", "Four?"]


def check_call(night: CallNight) -> None:
    """Run the command with faults, and again without."""
    terminal = Terminal(Service(ends_after=1), retries=night.retries)
    calls = {"limits": 1, "chat": 1, "lines": len(MESSAGES), "smoke": SMOKE_STEPS - 1 + SMOKE_WAIT}[night.command]
    terminal.most = calls * (night.retries + 1 + MAX_PAUSE + 10)
    argv = {"chat": ("chat", "-m", MESSAGES[0]), "lines": ("chat",)}.get(night.command, (night.command,))
    flags = ("-o", night.output, *(["-v"] if night.is_verbose else []))
    with terminal.entered():
        ran = terminal.ran(*argv, *flags, attempt=night.attempt, typed=LINES.encode())
        longest = (night.retries + 1) * (30.0 + 1.2 * MAX_PAUSE + 2) + 3 * MAX_PAUSE
        assert ran.seconds <= calls * longest + SMOKE_WAIT, "the time is bounded"
        statuses = [entry.status for entry in ran.entries]
        # The documented meaning of the exit codes.
        if night.command != "smoke" and ran.code is not None:
            if ran.code == 0:
                assert statuses
                assert 200 <= statuses[-1] < 300, f"success means success: {statuses}"
            elif ran.code == 3:
                assert 300 <= statuses[-1] < 500, f"the service rejected the request: {statuses}"
            else:
                assert ran.code == 4, f"nothing was wrong with the command: {ran.code} {ran.err}"
                assert statuses[-1] not in PERMANENT, f"a refusal cannot be tried again later: {statuses}"
            answered = [entry for entry in ran.entries if entry.answered]
            if night.output == "json" and night.command in {"chat", "lines"}:
                assert len(ran.values) <= len({entry.item for entry in ran.entries})
                assert len(ran.values) >= len(answered), "every answer is shown"
                assert ran.code != 0 or len(ran.values) == (1 if night.command == "chat" else len(MESSAGES))
        if night.command == "smoke" and night.output == "json" and ran.code in {0, 1}:
            steps = ran.value["steps"]
            assert len(steps) == SMOKE_STEPS, "every step has a result"
            assert ran.value["passed"] == (ran.code == 0) == all(step["verdict"] == "ok" for step in steps)
            assert all(step["detail"] for step in steps), "every step says something"
        good = terminal.ran(*argv, "-o", "json", typed=LINES.encode())
        assert good.code == 0, good.err
        if night.command in {"chat", "lines"}:
            texts = [value["text"] for value in good.values]
            answers = [answer_to(message) for message in MESSAGES[: len(texts)]]
            # JSON from outside is read without NUL characters.
            assert texts == [answer.replace("\0", "\ufffd") for answer in answers]


@dataclass(frozen=True)
class ArgumentNight:
    """
    One command with odd arguments.

    :param argv: The arguments; ``FILE`` stands for a file of one row, ``FOLDER`` for a folder.
    :param output: Format of the output.
    :param typed: Standard input.
    """

    argv: tuple[str, ...]
    output: Literal["text", "json"] = "json"
    typed: bytes = b""


def check_arguments(night: ArgumentNight) -> None:
    """Run a command; the promises of all commands are all there is to check."""
    terminal = Terminal(Service())
    terminal.most = 150
    with terminal.entered():
        (terminal.folder / "inner").mkdir()
        (terminal.folder / "faq.csv").write_bytes(GOOD)
        file = str(terminal.folder / "faq.csv")
        folder = str(terminal.folder / "inner")
        argv = tuple(argument.replace("FILE", file).replace("FOLDER", folder) for argument in night.argv)
        terminal.ran("load", file, "--key", "id")
        for _ in range(2):
            ran = terminal.ran(*argv, "-o", night.output, typed=night.typed)
        if ran.code in {2, 3, 5}:
            assert not [entry for entry in ran.entries if entry.status < 300], "what is refused is not sent"


# -- generation ------------------------------------------------------------------------------------

# Arguments of a process are bytes without NUL: what is not UTF-8 arrives as lone surrogates.
TEXTS = st.one_of(
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
NUMBERS = st.sampled_from(
    [*("0", "1", "-1", "0.5", "1e3", "nan", "inf", "-inf", "1e400", "x", ""), "9" * 12, "9" * 25, "2147483648"]
)
NAMED = {
    "limits": ("--tenant", "--conn-id"),
    "chat": ("--site", "--conn-id", "--session", "--message", "--email", "--language"),
    "smoke": ("--site", "--tenant", "--conn-id", "--document", "--question", "--timeout"),
    "load": (
        *("--site", "--conn-id", "--source-name", "--namespace", "--column", "--constant", "--key", "--delimiter"),
        *("--encoding", "--quote", "--max-rejected", "--findings", "--kind", "--on-change", "--on-limit"),
    ),
    "findings": ("--finding",),
    "ledger status": ("--site",),
    "ledger ambiguous": ("--site",),
    "ledger stale": ("--site", "--source-name", "--namespace", "--key", "--column", "--constant", "--encoding"),
    "ledger superseded": ("--site", "--source-name"),
    "ledger forget": ("--site", "--findings"),
    "ledger resolve": ("--site", "--findings", "--id", "--file", "--key"),
    "ledger loads": ("--site", "--limit"),
    "ledger prune": ("--older-than",),
}
# Paths are below the folder of the night, except URLs.
PATHS = st.one_of(
    st.sampled_from(["FILE", "FILE", "nosuch://x", "gs://b/k", ""]), TEXTS.map(lambda text: f"FOLDER/{text}")
)
PATH_OPTIONS = {"--findings", "--document", "--file"}
NUMERIC = {"--timeout", "--max-rejected", "--limit", "--older-than"}
# Commands that need a file.
FILES = {"load", "ledger stale", "findings"}
POSITIONAL = {"ledger forget", "ledger resolve"}


@st.composite
def _argv(draw: st.DrawFn) -> tuple[str, ...]:
    command = draw(st.sampled_from([*NAMED]))
    argv = [*command.split(), *(["-v"] if draw(st.integers(0, 4)) == 4 else ())]
    named = NAMED[command]
    # More than one odd value would often be refused because of the first.
    options = draw(st.lists(st.sampled_from(named), min_size=1, max_size=2, unique=True)) if named else ()
    for option in options:
        value = draw(NUMBERS if option in NUMERIC else PATHS if option in PATH_OPTIONS else TEXTS)
        argv += [f"{option}={value}"]
    if command in FILES:
        argv.append(draw(PATHS))
    elif command in POSITIONAL:
        argv += draw(st.lists(TEXTS, max_size=2))
    return (*argv, *(("--as", "created") if command == "ledger resolve" else ()))


LIMITED = st.builds(Answer, status=st.just(429), retry_after=RETRY_AFTER)
CALL_NIGHTS = st.builds(
    CallNight,
    command=st.sampled_from(["limits", "chat", "lines", "smoke"]),
    attempt=st.one_of(
        TRIES.map(lambda one: Try(**{**vars(one), "killed_at": None})),
        st.builds(Try, st.lists(OFTEN_WELL, min_size=1, max_size=8).map(tuple)),
        st.builds(Try, then=OFTEN_WELL),
    ),
    output=st.sampled_from(["json", "json", "text"]),
    is_verbose=st.sampled_from([False, False, True]),
    retries=st.integers(0, 3),
)
ARGUMENT_NIGHTS = st.builds(
    ArgumentNight,
    _argv(),
    st.sampled_from(["json", "text"]),
    st.sampled_from([b"", b"One?\n", b"\xff\n", b"\x00\n", b"x" * 100_000, b"One?\r\nTwo?\r\n", b"\xed\xa0\x80\n"]),
)
