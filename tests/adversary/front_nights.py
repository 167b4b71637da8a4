"""Nights with outages and gateways: every operation against what stands between it and the service."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import pyarrow.parquet as pq
from airflow.providers.common.compat.sdk import AirflowFailException
from hypothesis import strategies as st

from airflow_provider_assistant.api.call import Response, TransportFailure
from airflow_provider_assistant.client.worker_pool import UNANSWERED
from airflow_provider_assistant.exceptions import AssistantError, AssistantIncompleteError
from airflow_provider_assistant.feedback.rules import Rating
from airflow_provider_assistant.feedback.sender import RatingCounts
from airflow_provider_assistant.hooks.assistant import AssistantHook
from airflow_provider_assistant.operators.chat import AssistantChatOperator
from airflow_provider_assistant.operators.chat_batch import AssistantChatBatchOperator
from airflow_provider_assistant.operators.documents import AssistantLoadQAOperator, AssistantUploadFilesOperator
from airflow_provider_assistant.operators.submit_chat import AssistantSubmitChatOperator
from airflow_provider_assistant.transfers.statistics_to_parquet import AssistantStatisticsToParquetOperator
from tests.adversary.front import (
    BLOCKED_WORD,
    LOGIN,
    OUTAGES,
    REFUSING,
    STOPPING,
    Front,
    Gateway,
    Outage,
    Page,
    Sent,
)
from tests.adversary.rating_nights import rate
from tests.adversary.request_service import HOST, Answer, Service, Try, answer_to
from tests.adversary.world import FinishedRequest, World

Operation = Literal["rows", "files", "batch", "sync batch", "ratings", "sites", "chat", "wait", "upload"]
MANY: tuple[Operation, ...] = ("rows", "files", "batch", "sync batch", "ratings", "sites")
LOADS = {"rows", "files"}
# Operations with a ``timeout``.
WAITS = {"batch", "sync batch", "wait"}
# Seconds. An outage of up to LASTING is survived; a task gives a longer one up within GIVES_UP after its beginning.
LASTING, GIVES_UP = 60.0, 180.0
RESPONSE_TIMEOUT = 30.0
FOREVER = 1e6


@dataclass(frozen=True)
class FrontNight:
    """
    One task behind a front, then one without it.

    :param operation: What the task does.
    :param items: Number of rows, files, questions, ratings or sites.
    :param outage: When the service is away, or None.
    :param gateway: The gateway, or None.
    :param blocked: Numbers of the items with the blocked word.
    :param latency: Seconds that the service takes for a reply.
    :param on_ambiguous: What to do with ambiguous rows of a load.
    :param max_concurrency: Maximum number of requests in flight.
    :param deferrable: Whether a batch or a wait defers.
    :param patience: ``timeout`` of a batch or a wait, in seconds.
    """

    operation: Operation
    items: int = 20
    outage: Outage | None = None
    gateway: Gateway | None = None
    blocked: frozenset[int] = frozenset()
    latency: float = 0.3
    on_ambiguous: Literal["retry", "skip", "fail"] = "retry"
    max_concurrency: int = 4
    deferrable: bool = False
    patience: float = 3600.0

    @property
    def names(self) -> list[str]:
        """What identifies each item at the service."""
        count = self.items if self.operation in MANY else 1
        return [f"item-{number}" for number in range(count)]

    def text(self, number: int) -> str:
        """Return the content of an item."""
        return f"{BLOCKED_WORD} {number}" if number in self.blocked else f"text {number}"


@dataclass(frozen=True)
class MovedNight:
    """
    Loads of one source at two addresses of one service.

    :param operation: ``rows`` or ``files``.
    :param items: Number of rows or files.
    :param address: The second base URL.
    """

    operation: Literal["rows", "files"]
    items: int
    address: str


def check_front(night: FrontNight) -> None:
    """Run the task behind its front, and check the promises; then run it again without a front."""
    ran = _run(night, is_repeated=night.on_ambiguous != "fail")
    ran.check_record()
    if night.outage:
        _check_outage(ran, night.outage)
    if night.gateway:
        _check_gateway(ran, night.gateway)
    if ran.good:
        ran.check_end(ran.good)


def check_moved(night: MovedNight) -> None:
    """Load at one address, then the same source at another one, and then with the name of the service."""
    service = Service()
    world = World(service, retries=None)
    front_night = FrontNight(night.operation, night.items)
    with world.entered():
        execute = _OPERATIONS[night.operation](world, front_night)
        first = world.tried(Try(), execute, number=1)
        assert first.error is None, repr(first.error)
        world.move(night.address)
        moved = world.tried(Try(), execute, number=2)
        assert not moved.entries, "the same source at another address sends nothing"
        if moved.error is not None:
            text = str(moved.error)
            assert urlsplit(night.address).netloc in text, f"the new address is named: {text}"
            assert HOST in text, f"the old address is named: {text}"
        world.move(night.address, service_name=HOST)
        named = world.tried(Try(), execute, number=3)
        assert named.error is None, repr(named.error)
        assert not named.entries, "what one name stands for was loaded already"


def _run(night: FrontNight, *, is_repeated: bool = False) -> _Ran:
    front = Front(tuple(filter(None, [night.outage])), night.gateway)
    service = Service(ends_after=2)
    world = World(service, timeout=RESPONSE_TIMEOUT, retries=None, max_concurrency=night.max_concurrency, front=front)
    world.most = 100_000
    with world.entered():
        execute = _OPERATIONS[night.operation](world, night)
        attempt = Try(then=Answer(latency=night.latency))
        ran = _Ran(night, front, world, world.tried(attempt, execute, number=1))
        if is_repeated:
            world.front = None
            ran.repeat(world.tried(attempt, execute, number=2))
    return ran


class _Ran:
    """The task behind its front: what it did, and what the front saw."""

    def __init__(self, night: FrontNight, front: Front, world: World, ended: FinishedRequest) -> None:
        self.night, self.front, self.world, self.ended = night, front, world, ended
        self.findings = _findings(world)
        self.by_item: dict[str, list[Sent]] = defaultdict(list)
        for sent in front.sent:
            self.by_item[_item(sent)].append(sent)
        self.error = ended.error
        self.made = Counter(self._made())
        # The try without a front, and what the service has and findings list after it.
        self.good: FinishedRequest | None = None
        self.made_later: Counter[str] = Counter()

    def repeat(self, good: FinishedRequest) -> None:
        """Take the try without a front."""
        self.good, self.made_later = good, Counter(self._made())
        self.later_findings = [*self.findings, *_findings(self.world)]

    def kinds(self, item: str) -> set[str]:
        """Return the kinds of the findings about an item."""
        return {str(one["kind"]) for one in self.findings if _is_about(one, item)}

    def reason(self, item: str) -> str:
        """Return the reasons of the findings about an item."""
        return " ".join(str(one["reason"]) for one in self.findings if _is_about(one, item))

    def check_record(self) -> None:
        """Check what the task says of each item against what the front saw."""
        if self.night.operation not in {*LOADS, "ratings"}:
            return
        for item in self.night.names:
            attempts, kinds = self.by_item[item], self.kinds(item)
            is_doubtful = any(_is_doubtful(one.outcome) for one in attempts)
            assert is_doubtful or not kinds & {"ambiguous", "possibly_duplicated"}, (
                f"{item} was never sent, and is {kinds}: {self.reason(item)}"
            )
            is_acknowledged = any(_is_success(one.outcome) for one in attempts)
            if any(one.is_received for one in attempts) and not is_acknowledged:
                assert kinds == {"ambiguous"}, f"{item} was received, and is {kinds}: {self.reason(item)}"
                assert not self.reason(item).startswith("not sent"), f"{item} was received: {self.reason(item)}"
            assert is_acknowledged or attempts or not kinds & {"rejected"}, "nothing is rejected unsent"

    def check_survived(self) -> None:
        """Check that the task has done everything."""
        night, result = self.night, self.ended.result
        assert self.error is None, f"an outage of {LASTING:g} s is survived: {self.error!r}"
        stored = self.made
        doubled = {name for name, times in stored.items() if times > 1}
        if night.operation in {*LOADS, "ratings"}:
            listed = {name for name in night.names if "possibly_duplicated" in self.kinds(name)}
            assert doubled <= listed, f"what was created twice is listed: {doubled - listed}"
        if night.operation in LOADS:
            left = {name for name in night.names if "ambiguous" in self.kinds(name)}
            assert night.on_ambiguous == "skip" or not left
            assert result["created"] == night.items - len(left), f"the counts are exact: {result}"
            assert set(stored) | left == set(night.names)
            assert len(left) <= night.max_concurrency + self.in_outage(), "only what was in flight is ambiguous"
        elif night.operation == "ratings":
            assert set(stored) == set(night.names)
        elif night.operation == "sites":
            assert (result["sites"], result["failed"]) == (night.items, 0)
        elif night.operation in {"batch", "sync batch"}:
            assert result["complete"] == night.items, f"every question is answered: {result}"
        elif night.operation in {"chat", "wait"}:
            assert result["text"] == answer_to("item-0")

    def in_outage(self) -> int:
        """Return the number of requests that were sent while the service was away."""
        outage = self.night.outage
        return len([one for one in self.front.sent if outage and outage.start <= one.at < outage.end])

    def _made(self) -> list[str]:
        """Return what the service has stored, once for each time."""
        service, night = self.world.service, self.night
        match night.operation:
            case "rows":
                return list(service.documents.elements())
            case "files" | "upload":
                return [Path(name).stem for name, _ in service.files]
            case "ratings":
                return [request_id for _, request_id, _ in service.ratings]
            case "chat" | "sync batch":
                return [message for (_, message), times in service.chats.items() for _ in range(times)]
            case "batch" | "wait":
                return [message for (_, message), times in service.submitted.items() for _ in range(times)]
            case "sites":
                return []

    def check_end(self, good: FinishedRequest) -> None:
        """Check the try without a front."""
        night = self.night
        if night.operation in WAITS and night.patience < 600:
            return
        if isinstance(self.error, AirflowFailException) and night.operation not in MANY:
            return
        assert good.error is None, f"a retry converges: {good.error!r}"
        if night.operation in {*LOADS, "ratings"}:
            assert night.on_ambiguous == "skip" or set(self.made_later) == set(night.names), "a retry converges"
            doubled = {name for name, times in self.made_later.items() if times > 1}
            self.findings = self.later_findings
            listed = {name for name in night.names if self.kinds(name) & {"ambiguous", "possibly_duplicated"}}
            assert doubled <= listed, f"nothing is made twice without being listed: {doubled - listed}"


def _check_outage(ran: _Ran, outage: Outage) -> None:
    night, sent = ran.night, ran.front.sent
    is_reached = any(one.until > outage.start for one in sent)
    if outage.seconds <= LASTING:
        is_stopped = night.on_ambiguous == "fail" and any(_is_doubtful(one.outcome) for one in sent)
        # A sync chat that timed out is not sent again: the service may still be answering it.
        is_stopped = is_stopped or any(one.call.endpoint == "chat" and _is_late(one.outcome) for one in sent)
        is_short = night.operation in WAITS and night.patience < 600
        if not is_stopped and not is_short:
            ran.check_survived()
    elif is_reached and outage.seconds >= FOREVER and night.operation in MANY:
        assert ran.ended.seconds <= outage.start + GIVES_UP or night.operation == "batch", (
            f"a long outage is given up: after {ran.ended.seconds:.0f} s"
        )
    if night.operation in {"batch", "wait"}:
        # Submits, and the closing of sessions, wait for the service as everything else does.
        most = night.patience + RESPONSE_TIMEOUT + GIVES_UP
        assert ran.ended.seconds <= most, f"{night.patience:g} s end after {ran.ended.seconds:.0f} s"
    _check_probes(ran, outage)


def _check_probes(ran: _Ran, outage: Outage) -> None:
    """Check that requests go one at a time, and seldom, once the outage is known."""
    away = [one for one in ran.front.sent if outage.start <= one.at < outage.end]
    known = min((one.until for one in away), default=outage.end)
    # The first request of a task goes alone.
    probes = [one for one in away if one.at > known or outage.start == 0]
    for before, probe in pairwise(probes):
        assert probe.at >= before.until, (
            f"one request at a time during an outage: {before.at:.2f}-{before.until:.2f}, {probe.at:.2f}"
        )
    seconds = probes[-1].until - known if probes else 0.0
    assert len(probes) <= 8 + seconds / 2, f"few requests during an outage: {len(probes)} in {seconds:.0f} s"


def _check_gateway(ran: _Ran, gateway: Gateway) -> None:
    night = ran.night
    stopped = _stopped(ran)
    if gateway.scope == "rate":
        ran.check_survived()
        as_429 = replace(night, gateway=replace(gateway, page=replace(gateway.page, status=429)))
        refused = len(_stopped(_run(as_429)))
        assert len(stopped) <= 2 * refused + 5, f"it slows down as for a 429: {len(stopped)} and {refused} refused"
        return
    if gateway.scope == "word":
        _check_blocked(ran, gateway)
        return
    if not stopped:
        assert ran.error is None
        return
    error = ran.error
    assert isinstance(error, AssistantError), repr(error)
    text = str(error)
    if gateway.page in REFUSING and night.operation in MANY:
        # A single row does not show whether the page concerns all of them.
        text += " ".join(str(one["reason"]) for one in ran.findings)
    if "no poll was answered since" not in text:
        # Polls go on until the timeout, also if a gateway answers them.
        assert _is_named(gateway.page, text), f"who answered: {text}"
    # A load reads the limits as well. The first request of a task goes alone; two more after a page about one row.
    most = 1 + (night.operation in LOADS) + (night.max_concurrency - 1) * bool(gateway.first)
    if gateway.page in REFUSING:
        most += UNANSWERED if gateway.first else 2
        if night.operation in {"sites", "ratings"}:
            # Those that wait for their turn are still sent, one at a time.
            most += night.max_concurrency
    stopped = [one for one in stopped if one.call.endpoint != "chat.request"]
    assert len(stopped) <= most, f"it stops soon: {len(stopped)} requests got the page of {gateway.page.status}"
    # Rows passed before the last one or two, which it may refuse alone.
    is_beside = gateway.page in REFUSING and gateway.first and len(stopped) < 3
    rejected = [one for one in ran.findings if one["kind"] == "rejected"]
    assert is_beside or not rejected, "a gateway judges no row"
    if night.operation in LOADS and gateway.page.status < 500 and gateway.page.status not in {200, 302}:
        assert not [one for one in ran.findings if one["kind"] == "ambiguous"], "what did not pass is not ambiguous"


def _stopped(ran: _Ran) -> list[Sent]:
    """Return the requests that got the gateway's page."""
    page = ran.night.gateway.page.response if ran.night.gateway else None
    # A session that is not closed is only a warning.
    return [one for one in ran.front.sent if one.outcome == page and one.call.endpoint != "session.close"]


def _check_blocked(ran: _Ran, gateway: Gateway) -> None:
    night, result = ran.night, ran.ended.result
    blocked = {f"item-{number}" for number in night.blocked if number < night.items}
    assert ran.error is None, f"one row does not stop the others: {ran.error!r}"
    if night.operation in LOADS:
        assert set(ran.made) == set(night.names) - blocked
        assert (result["rejected"], result["failed"], result["ambiguous"]) == (len(blocked), 0, 0), result
        for item in blocked:
            assert ran.kinds(item) == {"rejected"}
            reason = ran.reason(item)
            assert _is_named(gateway.page, reason), reason
    else:
        assert result["complete"] == night.items - len(blocked), result


def _is_named(page: Page, text: str) -> bool:
    name = page.name.partition("/")[0]
    return bool(name and name in text) or "gateway" in text


def _is_doubtful(outcome: Any) -> bool:
    """Return whether the client cannot know if the service has carried the request out."""
    if isinstance(outcome, TransportFailure):
        return outcome.sent
    return (
        isinstance(outcome, Response)
        and (outcome.status >= 500 or outcome.status in {200, 302})
        and (not _is_success(outcome))
    )


def _is_late(outcome: Any) -> bool:
    return isinstance(outcome, TransportFailure) and outcome.kind == "timeout"


def _is_success(outcome: Any) -> bool:
    return isinstance(outcome, Response) and 200 <= outcome.status < 300 and outcome.body[:1] == b"{"


def _item(sent: Sent) -> str:
    call = sent.call
    if call.upload:
        return Path(call.upload.filename).stem
    found = call.json or {}
    return str(found.get("title") or found.get("message") or found.get("request_id") or call.path)


def _is_about(finding: Mapping[str, Any], item: str) -> bool:
    return item in str(finding["key"]).replace(".txt", "").split("=")


def _findings(world: World) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for path in world.folder.rglob("*findings*.parquet"):
        rows += pq.read_table(path).to_pylist()
    return rows


# -- operations ------------------------------------------------------------------------------------

Execute = Callable[[dict[str, Any]], Any]


def _load_rows(world: World, night: FrontNight) -> Execute:
    source = [
        {"id": name, "title": name, "question": "Q?", "answer": night.text(number)}
        for number, name in enumerate(night.names)
    ]
    return lambda context: AssistantLoadQAOperator(
        task_id="task", source=source, key_columns="id", on_ambiguous=night.on_ambiguous,
        max_rejected=night.items, findings_path=str(world.folder / "findings.parquet"),
    ).execute(context)  # fmt: skip


def _load_files(world: World, night: FrontNight) -> Execute:
    folder = world.folder / "files"
    folder.mkdir()
    for number, name in enumerate(night.names):
        (folder / f"{name}.txt").write_text(night.text(number))
    return lambda context: AssistantUploadFilesOperator(
        task_id="task", files=str(folder), on_ambiguous=night.on_ambiguous,
        max_rejected=night.items, findings_path=str(world.folder / "findings.parquet"),
    ).execute(context)  # fmt: skip


def _ask(mode: Literal["async", "sync"], world: World, night: FrontNight) -> Execute:
    source = [
        {"key": name, "message": f"{name} {night.text(number)}" if night.blocked else name}
        for number, name in enumerate(night.names)
    ]

    def make() -> AssistantChatBatchOperator:
        return AssistantChatBatchOperator(
            task_id="task", source=source, key_columns="key", output_path=str(world.folder / "out" / "answers.parquet"),
            mode=mode, deferrable=night.deferrable, timeout=night.patience, poll_interval=5.0,
            max_failed=len(night.blocked),
        )  # fmt: skip

    return lambda context: world.executed(make, context)


def _send_ratings(world: World, night: FrontNight) -> Execute:
    ratings = [Rating(name, "s", name, "good") for name in night.names]

    def execute(_: dict[str, Any]) -> None:
        counts = RatingCounts()
        rate(world, ratings, counts)
        if counts.failed:
            raise AssistantIncompleteError(f"{counts.failed} ratings of 'docs' could not be sent")

    return execute


def _export(world: World, night: FrontNight) -> Execute:
    return lambda context: AssistantStatisticsToParquetOperator(
        task_id="task", output_path=str(world.folder / "lake"), date="2027-01-15", site_ids=night.names
    ).execute(context)


def _chat(_: World, night: FrontNight) -> Execute:
    return lambda context: AssistantChatOperator(task_id="task", session_id="s", message=night.names[0]).execute(
        context
    )


def _wait(world: World, night: FrontNight) -> Execute:
    def make() -> AssistantSubmitChatOperator:
        return AssistantSubmitChatOperator(
            task_id="task", session_id="s", message=night.names[0], wait_for_completion=True, poll_interval=5.0,
            deferrable=night.deferrable, timeout=night.patience,
        )  # fmt: skip

    return lambda context: world.executed(make, context)


def _upload(world: World, _: FrontNight) -> Execute:
    path = world.folder / "item-0.txt"
    path.write_text("text")
    return lambda _: AssistantHook().upload_document(path).as_dict()


_OPERATIONS: dict[Operation, Callable[[World, FrontNight], Execute]] = {
    "rows": _load_rows, "files": _load_files, "batch": partial(_ask, "async"), "sync batch": partial(_ask, "sync"),
    "ratings": _send_ratings, "sites": _export, "chat": _chat, "wait": _wait, "upload": _upload,
}  # fmt: skip

# -- generation ------------------------------------------------------------------------------------

COMMON: dict[str, st.SearchStrategy[Any]] = {
    "items": st.sampled_from([1, 3, 20, 60]),
    "latency": st.sampled_from([0.01, 0.3, 5.0]),
    "on_ambiguous": st.sampled_from(["retry", "retry", "skip", "fail"]),
    "max_concurrency": st.sampled_from([1, 4, 32]),
    "deferrable": st.booleans(),
}
OPERATIONS: st.SearchStrategy[Operation] = st.sampled_from(["rows", "rows", "rows", *_OPERATIONS])
LONG_OUTAGES = st.builds(
    Outage, st.sampled_from([0.0, 2.0, 8.0]), st.sampled_from([200.0, FOREVER]),
    st.sampled_from(["refused", "no name", "no route", "silent", 502]),
)  # fmt: skip
OUTAGE_NIGHTS = st.builds(
    FrontNight,
    operation=OPERATIONS,
    outage=st.one_of(OUTAGES, OUTAGES, OUTAGES, LONG_OUTAGES),
    patience=st.sampled_from([20.0, 600.0, 3600.0]),
    **COMMON,
).map(lambda night: replace(night, latency=min(night.latency, 0.3)) if night.operation in WAITS else night)
PAGES: st.SearchStrategy[Page] = st.sampled_from([*STOPPING, *STOPPING, *REFUSING, *LOGIN])
EVERYTHING = st.builds(
    FrontNight,
    operation=OPERATIONS,
    gateway=st.builds(Gateway, PAGES, first=st.sampled_from([0, 0, 1, 7, 30])),
    patience=st.just(600.0),
    **{**COMMON, "latency": st.sampled_from([0.01, 0.3])},
)
SINGLE_ROWS = st.builds(
    FrontNight,
    operation=st.sampled_from(["rows", "rows", "files", "batch", "sync batch"]),
    gateway=st.builds(Gateway, st.sampled_from(REFUSING[:6]), st.just("word")),
    blocked=st.sampled_from([{0}, {1}, {5}, {19}, {0, 19}, {3, 9}, {2, 8, 14}, {17}]).map(frozenset),
    **{**COMMON, "items": st.just(20)},
)
SLOWED = st.builds(
    FrontNight,
    operation=st.sampled_from(["rows", "ratings", "batch", "sites"]),
    gateway=st.builds(
        Gateway, st.just(Page(503, "nginx", "503 Service Temporarily Unavailable")), st.just("rate"),
        per_second=st.sampled_from([2, 5, 20]),
    ),
    **{**COMMON, "on_ambiguous": st.just("retry")},
)  # fmt: skip
GATEWAY_NIGHTS = st.one_of(EVERYTHING, EVERYTHING, SINGLE_ROWS, SLOWED)
MOVED_NIGHTS = st.builds(
    MovedNight,
    operation=st.sampled_from(["rows", "rows", "files"]),
    items=st.sampled_from([1, 3, 60]),
    address=st.sampled_from(
        [
            *(
                "http://other.test/api/v1",
                "https://gateway.example.com/assistant/api/v1",
                "http://127.0.0.1:8080/api/v1",
            ),
            *(
                f"https://{HOST}/api/v1",
                f"http://{HOST}:8443/api/v1",
                f"http://eu.{HOST}/api/v1",
                "http://[::1]/api/v1",
            ),
        ]
    ),
)
