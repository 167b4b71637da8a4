"""Nights with an outage of the network or a gateway between the client and the service, and at another address."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any
from urllib.parse import urlsplit

from airflow.providers.common.compat.sdk import AirflowSensorTimeout
from hypothesis import strategies as st

from airflow_provider_assistant.client.worker_pool import FIRST_FAILURES
from airflow_provider_assistant.exceptions import AssistantError, AssistantIncompleteError
from airflow_provider_assistant.sandbox import Settings
from airflow_provider_assistant.sending.sender import BREAKER
from tests.simulate.batches import ChatBatch, Export, RateMany
from tests.simulate.chats import Submit, SyncChat, UploadOne, WaitForRequest
from tests.simulate.loads import Load, LoadRows, UploadFiles
from tests.simulate.night import Night, Operation
from tests.simulate.replies import HOST, LOGIN, OUTAGES, REFUSING, STOPPING, Answer, Gateway, Outage, Page
from tests.simulate.sources import File, Row
from tests.simulate.transport import Sent
from tests.simulate.world import CALM, Ended, Try, World, answer_to

# Operations of many requests.
MANY = (Load, ChatBatch, RateMany, Export)
# Seconds. An outage of up to LASTING is survived; a task gives a longer one up within GIVES_UP after its beginning.
LASTING, GIVES_UP, FOREVER = 60.0, 180.0, 1e6
TIMEOUT = 30.0


@dataclass(frozen=True)
class FrontNight(Night):
    """One try through an outage or a gateway, and then tries without it."""

    def check(self) -> None:
        world = World(Settings(processing_seconds=6.0, allow_duplicates=True), **dict(self.client))
        (attempt,) = self.tries
        with world.entered():
            self.operation.begin(world)
            (ended,) = self.operation.run(world, attempt, 1)
            front = _Front(self.operation, world, attempt, ended)
            front.check_record()
            if attempt.outage:
                front.check_outage(attempt.outage)
            if attempt.gateway:
                self._check_gateway(front, attempt.gateway)
            if self.operation.patience >= 600 if isinstance(self.operation, ChatBatch | WaitForRequest) else True:
                self.operation.check_end(world, self)

    def _check_gateway(self, front: _Front, gateway: Gateway) -> None:
        if gateway.scope == "word":
            front.check_blocked(gateway.page)
        elif gateway.scope == "rate":
            front.check_survived()
            (attempt,) = self.tries
            refusing = replace(gateway, page=replace(gateway.page, status=429))
            world = World(Settings(processing_seconds=6.0, allow_duplicates=True), **dict(self.client))
            with world.entered():
                operation = replace(self.operation)
                operation.begin(world)
                (ended,) = operation.run(world, replace(attempt, gateway=refusing), 1)
            refused = len(_Front(operation, world, replace(attempt, gateway=refusing), ended).stopped)
            most = 2 * refused + 5
            assert len(front.stopped) <= most, f"it slows down as for a 429: {len(front.stopped)}, {refused}"
        else:
            front.check_stopped(gateway)


class _Front:
    """What the task did behind a front, and what the front saw."""

    def __init__(self, operation: Operation, world: World, attempt: Try, ended: Ended) -> None:
        self.operation, self.world, self.attempt, self.ended = operation, world, attempt, ended
        self.error = ended.error
        self.sent = ended.sent
        self.names = operation.names()
        self.by_item: dict[str, list[Sent]] = defaultdict(list)
        for sent in self.sent:
            self.by_item[sent.item].append(sent)
        self.findings = [*world.findings(), *world.findings("out/.*findings.parquet")]
        page = attempt.gateway.page.response if attempt.gateway else None
        # A session that is not closed is only a warning.
        self.stopped = [one for one in self.sent if one.outcome == page and one.endpoint != "session.close"]

    def about(self, item: str) -> list[dict[str, Any]]:
        """Return the findings about an item."""
        return [one for one in self.findings if self.names[item] in str(one["key"]).split("=")]

    def kinds(self, item: str) -> set[str]:
        """Return the kinds of the findings about an item."""
        return {str(one["kind"]) for one in self.about(item)}

    def reason(self, item: str) -> str:
        """Return the reasons of the findings about an item."""
        return " ".join(str(one["reason"]) for one in self.about(item))

    def check_record(self) -> None:
        """Check what the task says of each item against what the front saw."""
        if not isinstance(self.operation, Load | RateMany):
            return
        for item in self.names:
            attempts, kinds, reason = self.by_item[item], self.kinds(item), self.reason(item)
            is_doubtful = any(one.is_doubtful for one in attempts)
            is_sent = is_doubtful or not kinds & {"ambiguous", "possibly_duplicated"}
            assert is_sent, f"{item} was never sent, and is {kinds}: {reason}"
            is_acknowledged = any(one.is_acknowledged for one in attempts)
            if any(one.is_received for one in attempts) and not is_acknowledged:
                assert kinds == {"ambiguous"}, f"{item} was received, and is {kinds}: {reason}"
                assert not reason.startswith("not sent"), f"{item} was received: {reason}"
            assert is_acknowledged or attempts or "rejected" not in kinds, "nothing is rejected unsent"

    def check_survived(self) -> None:
        """Check that the task has done everything."""
        operation, result = self.operation, self.ended.result
        assert self.error is None, f"an outage of {LASTING:g} s is survived: {self.error!r}"
        if isinstance(operation, Load):
            left = {item for item in self.names if "ambiguous" in self.kinds(item)}
            assert operation.on_ambiguous == "skip" or not left
            assert result["created"] == operation.items - len(left), f"the counts are exact: {result}"
            stored = operation.stored(self.world)
            assert len(stored) + len(left) >= operation.items
            concurrency = self.world.connection["extra"]["max_concurrency"]
            assert len(left) <= concurrency + len(self._away()), "only what was in flight is ambiguous"
            operation.check_duplicates({title for title, times in stored.items() if times > 1})
        elif isinstance(operation, RateMany):
            assert result["sent"] + result["repeated"] == operation.ratings
        elif isinstance(operation, Export):
            assert result["rows"] > 0
        elif isinstance(operation, ChatBatch):
            assert result["complete"] == operation.questions, f"every question is answered: {result}"
        elif isinstance(operation, SyncChat):
            assert result["text"] == answer_to(next(iter(self.by_item)))

    def _away(self) -> list[Sent]:
        """Return the requests that were sent while the service was away."""
        outage, began = self.attempt.outage, self.world.began
        return [one for one in self.sent if outage and outage.start <= one.at - began < outage.end]

    def check_outage(self, outage: Outage) -> None:
        """Check that a short outage is survived, a long one is given up, and both are probed seldom."""
        operation = self.operation
        patience = operation.patience if isinstance(operation, ChatBatch | WaitForRequest) else FOREVER
        if outage.seconds <= LASTING:
            is_stopped = getattr(operation, "on_ambiguous", "") == "fail" and any(one.is_doubtful for one in self.sent)
            # A sync chat that timed out is not sent again: the service may still be answering it.
            is_stopped = is_stopped or any(one.endpoint == "chat" and one.is_late for one in self.sent)
            if not is_stopped and patience >= 600:
                self.check_survived()
        elif outage.seconds >= FOREVER and isinstance(operation, MANY) and any(self._away()):
            is_polling = isinstance(operation, ChatBatch) and operation.mode == "async"
            is_short = self.ended.seconds <= outage.start + GIVES_UP
            assert is_short or is_polling, f"a long outage is given up: after {self.ended.seconds:.0f} s"
        # Submits, and the closing of sessions, wait for the service as everything else does.
        most = patience + TIMEOUT + GIVES_UP
        assert self.ended.seconds <= most, f"{patience:g} s end after {self.ended.seconds:.0f} s"
        self._check_probes(outage)

    def _check_probes(self, outage: Outage) -> None:
        """Check that requests go one at a time, and seldom, once the outage is known."""
        away = self._away()
        known = min((one.until for one in away), default=outage.end)
        # The first request of a task goes alone, a chat for a second.
        probes = [one for one in away if one.at > known or (outage.start == 0 and one.endpoint != "chat")]
        for before, probe in pairwise(probes):
            is_over = probe.at >= before.until or not before.is_read
            assert is_over, f"one request at a time during an outage: {before.at}, {probe.at}"
        seconds = probes[-1].until - known if probes else 0.0
        assert len(probes) <= 8 + seconds / 2, f"few requests during an outage: {len(probes)} in {seconds:.0f} s"

    def check_stopped(self, gateway: Gateway) -> None:
        """Check that a gateway that answers all requests stops the task soon, and is named."""
        operation, page = self.operation, gateway.page
        if not self.stopped:
            assert self.error is None
            return
        assert isinstance(self.error, AssistantError | AirflowSensorTimeout), repr(self.error)
        text = str(self.error)
        is_many, is_load = isinstance(operation, MANY), isinstance(operation, Load)
        if page in REFUSING and is_many:
            # A single row does not show whether the page concerns all of them.
            text += " ".join(str(one["reason"]) for one in self.findings)
        # Polls go on until the timeout, also if a gateway answers them.
        assert "no poll was answered since" in text or is_named(page, text), f"who answered: {text}"
        # A load reads the limits as well. The first request of a task goes alone, and each after a page.
        concurrency = self.world.connection["extra"]["max_concurrency"]
        most = is_load + concurrency + (max(BREAKER, concurrency) if gateway.first else FIRST_FAILURES)
        stopped = [one for one in self.stopped if one.endpoint != "chat.request"]
        assert len(stopped) <= most, f"it stops soon: {len(stopped)} requests got the page of {page.status}"
        kinds = {one["kind"] for one in self.findings}
        assert "rejected" not in kinds, "a gateway judges no row"
        if is_load and page.status < 500 and page.status not in {200, 302}:
            assert "ambiguous" not in kinds, "what did not pass is not ambiguous"

    def check_blocked(self, page: Page) -> None:
        """Check that a gateway that blocks some items costs only those, and that they are left to a retry."""
        blocked = {item for item in self.names if any(one.outcome == page.response for one in self.by_item[item])}
        if isinstance(self.operation, Load):
            assert isinstance(self.error, AssistantIncompleteError) == bool(blocked), repr(self.error)
            assert len(self.operation.stored(self.world)) == self.operation.items - len(blocked)
            for item in blocked:
                assert self.kinds(item) == {"failed"}
                assert is_named(page, self.reason(item)), self.reason(item)
        else:
            # The batch may leave questions without an answer.
            result = self.ended.result
            assert result["complete"] == self.operation.items - len(blocked), result


def is_named(page: Page, text: str) -> bool:
    """Return whether a text names the gateway."""
    name = page.name.partition("/")[0]
    return bool(name and name in text) or "gateway" in text


@dataclass(frozen=True)
class MovedNight(Night):
    """Load a source at one address of a service, at another one, and then with the name of the service."""

    address: str = ""

    def check(self) -> None:
        world = World(retries=None)
        with world.entered():
            self.operation.begin(world)
            first = self.operation.calm(world, 1)
            assert first.error is None, repr(first.error)
            world.move(self.address)
            moved = self._tried(world, 2)
            assert not moved.sent, "the same source at another address sends nothing"
            if moved.error is not None:
                text = str(moved.error)
                assert urlsplit(self.address).netloc in text, f"the new address is named: {text}"
                assert HOST in text, f"the old address is named: {text}"
            world.move(self.address, service_name=HOST)
            named = self._tried(world, 3)
            assert named.error is None, repr(named.error)
            assert not named.sent, "what one name stands for was loaded already"

    def _tried(self, world: World, number: int) -> Ended:
        return world.tried(CALM, lambda context: self.operation.execute(world, CALM, context), number=number)


# -- generation ----------------------------------------------------------------------------------


def rows_of(count: int, blocked: frozenset[int] = frozenset()) -> tuple[Row, ...]:
    """Return plain rows, some of which a firewall does not let pass."""
    return tuple(Row(n, n, "blocked" if n in blocked else "") for n in range(count))


def files_of(count: int, blocked: frozenset[int] = frozenset()) -> tuple[File, ...]:
    """Return plain files, some of which a firewall does not let pass."""
    return tuple(File(f"f{n}.txt", n + 1, n in blocked) for n in range(count))


@st.composite
def operations(draw: st.DrawFn, patience: tuple[float, ...] = (600.0,)) -> Operation:
    """Draw an operation; loads of rows are the most frequent."""
    items = draw(st.sampled_from([1, 3, 20, 60]))
    waits: dict[str, Any] = {"patience": draw(st.sampled_from(patience)), "interval": 5.0}
    waits["deferrable"] = draw(st.booleans())
    on_ambiguous = draw(st.sampled_from(["retry", "retry", "skip"]))
    kinds: list[Any] = [
        *[lambda: LoadRows(on_ambiguous=on_ambiguous, rows=rows_of(items))] * 4,
        lambda: UploadFiles(on_ambiguous=on_ambiguous, files=files_of(items)),
        lambda: ChatBatch(questions=items, is_strict=True, **waits),
        lambda: ChatBatch(questions=items, mode="sync", is_strict=True, **waits),
        lambda: RateMany(ratings=items),
        Export,
        SyncChat,
        Submit,
        lambda: WaitForRequest(**waits),
        UploadOne,
    ]
    operation: Operation = draw(st.sampled_from(kinds))()
    return operation


def _nights(operation: st.SearchStrategy[Operation], latencies: list[float], **front: Any) -> st.SearchStrategy[Any]:
    attempt = st.builds(Try, then=st.builds(Answer, latency=st.sampled_from(latencies)), **front)
    client = {"retries": st.none(), "max_concurrency": st.sampled_from([1, 4, 32]), "timeout": st.just(TIMEOUT)}
    return st.builds(FrontNight, operation, st.tuples(attempt), client=st.fixed_dictionaries(client))


_LONG = st.builds(
    Outage,
    st.sampled_from([0.0, 2.0, 8.0]),
    st.sampled_from([200.0, FOREVER]),
    st.sampled_from(["refused", "no name", "no route", "silent", 502]),
)
OUTAGE_NIGHTS = _nights(
    operations((20.0, 600.0, 3600.0)), [0.01, 0.3], outage=st.one_of(OUTAGES, OUTAGES, OUTAGES, _LONG)
)
_PAGES = st.sampled_from([*STOPPING, *STOPPING, *REFUSING, *LOGIN])
_BLOCKED = st.sampled_from([{0}, {1}, {5}, {19}, {0, 19}, {3, 9}, {2, 8, 14}, {17}]).map(frozenset)
_SOME_BLOCKED = st.builds(
    lambda blocked, kind: kind(blocked),
    _BLOCKED,
    st.sampled_from(
        [
            lambda blocked: LoadRows(rows=rows_of(20, blocked)),
            lambda blocked: UploadFiles(files=files_of(20, blocked)),
            lambda blocked: ChatBatch(questions=20, blocked=blocked),
            lambda blocked: ChatBatch(questions=20, blocked=blocked, mode="sync"),
        ]
    ),
)
_SLOWED = st.sampled_from(
    [
        lambda: LoadRows(rows=rows_of(20)),
        lambda: RateMany(ratings=60),
        lambda: ChatBatch(questions=20),
        Export,
    ]
).map(lambda make: make())
_BUSY = Page(503, "nginx", "503 Service Temporarily Unavailable")
_EVERYTHING = _nights(
    operations(), [0.01, 0.3], gateway=st.builds(Gateway, _PAGES, first=st.sampled_from([0, 0, 1, 7, 30]))
)
GATEWAY_NIGHTS = st.one_of(
    _EVERYTHING,
    _EVERYTHING,
    _nights(
        _SOME_BLOCKED, [0.01, 0.3, 5.0], gateway=st.builds(Gateway, st.sampled_from(REFUSING[:6]), st.just("word"))
    ),
    _nights(
        _SLOWED,
        [0.01, 0.3],
        gateway=st.builds(Gateway, st.just(_BUSY), st.just("rate"), per_second=st.sampled_from([2, 5, 20])),
    ),
)
_ADDRESSES = (
    *("http://other.test/api/v1", "https://gateway.example.com/assistant/api/v1", "http://127.0.0.1:8080/api/v1"),
    *(f"https://{HOST}/api/v1", f"http://{HOST}:8443/api/v1", f"http://eu.{HOST}/api/v1", "http://[::1]/api/v1"),
)
MOVED_NIGHTS = st.builds(
    MovedNight,
    st.sampled_from([1, 3, 60])
    .flatmap(
        lambda count: st.sampled_from(
            [lambda: LoadRows(rows=rows_of(count)), lambda: UploadFiles(files=files_of(count))]
        )
    )
    .map(lambda make: make()),
    st.just(()),
    address=st.sampled_from(_ADDRESSES),
)
