"""What sends many requests: chat batches and ratings by rule; and exports."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import pyarrow as pa
import pyarrow.parquet as pq
from airflow.providers.common.compat.sdk import AirflowFailException, AirflowTaskTimeout
from hypothesis import strategies as st

from airflow_provider_assistant.asking.answers import STATUSES
from airflow_provider_assistant.client.worker_pool import FIRST_FAILURES
from airflow_provider_assistant.exceptions import AssistantIncompleteError, AssistantStorageError
from airflow_provider_assistant.operators.chat_batch import AssistantChatBatchOperator
from airflow_provider_assistant.operators.feedback_batch import AssistantRateAnswersOperator
from airflow_provider_assistant.sandbox.store import Chat
from airflow_provider_assistant.transfers.limits_to_parquet import AssistantLimitsToParquetOperator
from airflow_provider_assistant.transfers.statistics_to_parquet import AssistantStatisticsToParquetOperator
from tests.simulate.night import Night, Operation, nights
from tests.simulate.replies import BLOCKED_WORD
from tests.simulate.transport import CHATS
from tests.simulate.world import CLEARED, FAULTS, TRIES, Ended, Try, World, answer_to

# These errors concern every question, rating or site.
SITE_WIDE = {401, 403, 404, 429}
LONG_WAIT = 1e6
# Outcomes of ratings that were to be sent.
SENT = ("sent", "already_sent", "repeated", "failed")


@dataclass
class ChatBatch(Operation):
    """
    Ask a batch of questions.

    :param questions: number of questions.
    :param deferrable: whether the task defers.
    :param patience: longest total wait for the answers, in seconds.
    :param interval: seconds between two polls of one request.
    :param is_strict: whether one question without an answer fails the task.
    :param blocked: numbers of the questions that a firewall does not let pass.
    """

    questions: int = 3
    mode: Literal["async", "sync"] = "async"
    deferrable: bool = False
    patience: float = 600.0
    interval: float = 20.0
    is_strict: bool = False
    blocked: frozenset[int] = frozenset()
    max_pause: ClassVar[float] = 300.0
    failing: set[str] = field(default_factory=set, init=False, repr=False)
    listed: set[str] = field(default_factory=set, init=False, repr=False)
    received: dict[str, int] = field(default_factory=dict, init=False, repr=False)

    @property
    def items(self) -> int:
        return self.questions

    def polls(self) -> float:
        return self.questions * (3 * self.polls_of_one() + 80) + 1_000 + (1e6 if self.patience == LONG_WAIT else 0)

    def polls_of_one(self) -> float:
        """Return the number of polls of a request; the first ones come sooner than after an interval."""
        return self.patience / self.interval + 6

    def message(self, number: int) -> str:
        """Return a question."""
        return f"Question {number}?{f' {BLOCKED_WORD}' if number in self.blocked else ''}"

    def names(self) -> dict[str, str]:
        return {self.message(number): f"k{number}" for number in range(self.questions)}

    def begin(self, world: World) -> None:
        messages = [self.message(number) for number in range(self.questions)]
        world.teach(*messages)
        pattern = world.service.settings.fail_messages
        self.failing = {messages[0]} if pattern and self.mode == "async" else set()
        if self.mode == "sync":
            world.service.update(fail_messages=None)

    def execute(self, world: World, attempt: Try, context: dict[str, Any]) -> Any:
        source = [{"key": f"k{number}", "message": self.message(number)} for number in range(self.questions)]

        def make() -> Any:
            return AssistantChatBatchOperator(
                task_id="task",
                source=source,
                key_columns="key",
                output_path=str(world.folder / "out" / "answers.parquet"),
                mode=self.mode,
                deferrable=self.deferrable,
                timeout=self.patience,
                poll_interval=self.interval,
                max_failed=0 if self.is_strict else self.questions,
            )

        return world.run(make, context)

    def rows(self, world: World) -> list[dict[str, Any]]:
        """Return the rows of the output."""
        return pq.ParquetFile(world.folder / "out" / "answers.parquet").read().to_pylist()

    def asked(self, world: World) -> Counter[str]:
        """Return how often the service has got each question."""
        return Counter(one.message for one in world.stored(Chat))

    def check_try(self, world: World, attempt: Try, ended: Ended, *, number: int) -> None:
        self._check_bounds(world, attempt, ended)
        self.listed |= self._found(world)
        late = set()
        for sent in ended.to("chat"):
            assert sent.item not in late, "a chat that timed out is not sent again in the same try"
            if sent.is_late:
                late.add(sent.item)
        assert not world.wire.sent_to_closed, "no message is sent to a session that may be closed"
        if not (attempt.end or attempt.disk_full or attempt.ledger_away):
            asked = self.asked(world)
            self.received |= {one.answered: asked[one.answered] for one in ended.sent if one.answered}
        if ended.error is None:
            self._check_result(world, attempt, ended, is_first=number == 1)
            # A request that the service does not know any more is asked again, and the counts say so.
            self.listed |= {row["message"] for row in self.rows(world) if row["status"] == "lost"}

    def _check_bounds(self, world: World, attempt: Try, ended: Ended) -> None:
        # The timeout of a deferred task is stored as a time of day: a clock that is set back extends it.
        is_moved = self.deferrable and attempt.jump
        polls = Counter(one.item for one in ended.to("chat.request"))
        # A request is also polled while the others are submitted.
        most = max(self.polls_of_one(), ended.seconds / self.interval + 6) + 1
        most *= 1 + (attempt.end is not None)
        assert not polls or is_moved or max(polls.values()) <= most, "the polls are bounded"
        longest = 2 * self.questions * self.seconds(world) + self.patience + 3 * world.timeout + 1300
        assert is_moved or attempt.outage or ended.seconds <= longest, "the time is bounded"

    def _check_result(self, world: World, attempt: Try, ended: Ended, *, is_first: bool) -> None:
        result, rows = ended.result, self.rows(world)
        assert result["rows"] == self.questions == sum(result[status] for status in STATUSES), "the counts add up"
        assert Counter(row["status"] for row in rows) == +Counter({one: result[one] for one in STATUSES})
        for row in rows:
            # A question may have got JSON without a text.
            is_answered = row["status"] == "complete" and (self.mode == "async" or row["answer"] is not None)
            has_odd = self.mode == "sync" and any(one.status and not one.answered for one in world.wire.journal)
            assert not is_answered or has_odd or row["answer"] == answer_to(row["message"]), row["answer"]
            assert row["seconds"] is None or row["seconds"] >= 0
        assert result["submitted"] <= len([one for one in ended.to(*CHATS) if 200 <= one.status < 300]), (
            "what was submitted is what the service accepted"
        )
        statuses = {answer.status for answer in attempt.answers}
        is_disturbed = statuses & SITE_WIDE or world.wire.forgotten or attempt.outage or attempt.gateway
        if is_first and attempt.is_undisturbed and attempt.then.is_well and not is_disturbed and self.patience > 100:
            lost = self.questions - result["complete"]
            assert lost <= len(attempt.odd) + len(self.failing), "one bad answer costs one question"

    def check_end(self, world: World, night: Night) -> None:
        self.patience = LONG_WAIT
        wanted = {self.message(number) for number in range(self.questions)} - self.failing
        # The first of these may find that requests were lost.
        for number in range(60, 63):
            ended = self.calm(world, number)
            if ended.error is None and ended.result["complete"] == len(wanted):
                break
        assert ended.error is None or (self.is_strict and self.failing), f"a retry converges: {ended.error!r}"
        complete = {row["message"] for row in self.rows(world) if row["status"] == "complete"}
        assert complete == wanted, f"a retry converges: {complete}"
        asked = self.asked(world)
        for message, times in self.received.items():
            is_kept = asked[message] == times or message in self.failing
            assert is_kept, f"the answer to {message!r} was received and is asked for again"
        if self.failing:
            return
        again = self.calm(world, 70)
        assert not again.to(*CHATS), "all is asked once"
        # A request that the service does not know any more is asked again, and the error of the try says so.
        is_lost = any(one.status == 404 for one in world.wire.journal if one.endpoint == "chat.request")
        for message, times in asked.items():
            is_known = times == 1 or is_lost or message in self.listed
            assert is_known, f"{message!r} was asked {times} times, and is not listed"

    def _found(self, world: World) -> set[str]:
        """Return the questions that findings list because they may have been asked twice."""
        rows = world.findings("out/.*findings.parquet")
        keys = {row["key"].split("=")[-1] for row in rows if row["kind"] in {"possibly_duplicated", "ambiguous"}}
        return {self.message(int(key[1:])) for key in keys}


@dataclass
class RateMany(Operation):
    """Rate answers by rule, each once: the ``good`` ones have a high score."""

    ratings: int = 3
    listed: set[str] = field(default_factory=set, init=False, repr=False)

    @property
    def items(self) -> int:
        return self.ratings

    def begin(self, world: World) -> None:
        rows, scores = [], []
        for number in range(self.ratings):
            ids = {"request_id": f"r{number}", "session_id": f"s{number}"}
            world.service.store.save(
                Chat(f"r{number}", "docs", f"s{number}", "async", "?", None, None, 0.0, ended_at=1.0, answer="!")
            )
            common = {"key": f"k{number}", "status": "complete", "request_id": ids["request_id"]}
            rows.append({**common, **ids, "message": "?", "answer": "!"})
            scores.append({**common, "exact": float(number % 3 > 0)})
        pq.write_table(pa.Table.from_pylist(rows), world.folder / "answers.parquet")
        pq.write_table(pa.Table.from_pylist(scores), world.folder / "scores.parquet")

    def names(self) -> dict[str, str]:
        return {f"r{number}": f"k{number}" for number in range(self.ratings)}

    def rating(self, number: int) -> tuple[str, str]:
        """Return a request and its rating."""
        return f"r{number}", "good" if number % 3 else "bad"

    def execute(self, world: World, attempt: Try, context: dict[str, Any]) -> Any:
        def make() -> Any:
            return AssistantRateAnswersOperator(
                task_id="task",
                answers=str(world.folder / "answers.parquet"),
                scores=str(world.folder / "scores.parquet"),
                rules={"good": "exact >= 0.5", "bad": "exact < 0.5"},
            )

        return world.run(make, context)

    def check_try(self, world: World, attempt: Try, ended: Ended, *, number: int) -> None:
        assert ended.seconds <= self.ratings * (self.seconds(world) + 60) + 60, "the time is bounded"
        self.listed |= {
            one["document_ids"][0]
            for one in world.findings()
            if one["kind"] in {"possibly_duplicated", "ambiguous", "repeated"}
        }
        if ended.is_killed:
            # The ledger has what the findings would have named. The label is the session.
            ambiguous = world.query("SELECT label FROM assistant_attempts WHERE ambiguous > 0")
            self.listed |= {label.replace("s", "r") for (label,) in ambiguous}
        if ended.is_killed or isinstance(ended.error, AssistantStorageError | AirflowTaskTimeout):
            return
        counts = getattr(ended.task, "_counts", None)
        if counts is None:
            return
        outcomes = counts.outcomes
        if attempt.ledger_away is None or ended.sent:
            assert sum(outcomes[name] for name in SENT) == self.ratings, f"the counts add up: {counts}"
        done = {one.item for one in ended.sent if one.is_received}
        assert outcomes["sent"] + outcomes["repeated"] <= len(done), "the counts are those of the service"
        if ended.is_terminated:
            assert isinstance(ended.error, AssistantIncompleteError) or not outcomes["failed"], repr(ended.error)
        odd = attempt.odd
        statuses = {answer.status for answer in odd}
        may_stop = statuses & SITE_WIDE or len(odd) >= FIRST_FAILURES or attempt.outage or attempt.gateway
        if number == 1 and attempt.is_undisturbed and attempt.then.is_well and not may_stop:
            assert outcomes["failed"] <= len(odd), "one bad answer costs one rating"
            assert ended.error is None or outcomes["failed"], f"some failures do not stop it: {ended.error!r}"

    def check_end(self, world: World, night: Night) -> None:
        good = self.calm(world)
        assert good.error is None, repr(good.error)
        done = [good.result[name] for name in ("sent", "already_sent", "repeated")]
        assert sum(done) == self.ratings, "a retry converges"
        stored = {(one.id, one.rating) for one in world.stored(Chat) if one.rating}
        assert stored == {self.rating(number) for number in range(self.ratings)}
        again = self.calm(world, 60)
        # A rating that the service does not take stays one to send.
        assert len(again.sent) == good.result["repeated"], "what was rated is not rated again"
        received = Counter(one.item for one in world.wire.journal if one.is_received)
        twice = {item for item, times in received.items() if times > 1}
        assert twice <= self.listed, f"nothing is rated twice without being listed: {twice - self.listed}"


@dataclass
class Export(Operation):
    """
    Export a day: the statistics of a site, or the limits of the tenant.

    :param kind: The operator.
    """

    kind: Any = AssistantStatisticsToParquetOperator
    _before: dict[str, bytes] = field(default_factory=dict, init=False, repr=False)

    @property
    def items(self) -> int:
        return 1

    def begin(self, world: World) -> None:
        world.allow("site/0")
        # What a failure must leave as it was.
        self.calm(world, 90)

    def execute(self, world: World, attempt: Try, context: dict[str, Any]) -> Any:
        options: dict[str, Any] = {"task_id": "task", "output_path": str(world.folder / "lake"), "date": "2027-01-15"}
        return world.run(lambda: self.kind(site_id="site/0", **options), context)

    def files(self, world: World) -> dict[str, bytes]:
        """Return what readers of the dataset see."""
        paths = (world.folder / "lake").rglob("*.parquet")
        return {str(path): path.read_bytes() for path in paths if not path.name.startswith(".")}

    def check_try(self, world: World, attempt: Try, ended: Ended, *, number: int) -> None:
        assert ended.seconds <= self.seconds(world) + 2_400, "the time is bounded"
        now = self.files(world)
        assert self._before.keys() == now.keys() or not self._before, "what was there before is as it was"
        for path, content in now.items():
            is_whole = content == self._before.get(path) or pq.ParquetFile(path).read() is not None
            assert is_whole, "a reader sees a whole file"
        if ended.error is not None and attempt.is_undisturbed:
            assert now == self._before, "a failed read changes nothing"
        self._before = now
        if ended.is_killed or attempt.end or not attempt.is_undisturbed or attempt.outage or attempt.gateway:
            return
        statuses = {one.status for one in ended.sent}
        if ended.error and not statuses - {400, 403, 404}:
            assert isinstance(ended.error, AirflowFailException), f"a refusal is not retried: {ended.error!r}"

    def check_end(self, world: World, night: Night) -> None:
        good = self.calm(world)
        assert good.error is None, repr(good.error)
        assert good.result["path"] in self.files(world)
        again = self.calm(world)
        assert again.result["rows"] == pq.ParquetFile(again.result["path"]).metadata.num_rows


# -- generation ----------------------------------------------------------------------------------

BATCH_NIGHTS = nights(
    st.builds(
        ChatBatch,
        questions=st.integers(1, 6),
        mode=st.sampled_from(["async", "async", "sync"]),
        deferrable=st.booleans(),
        patience=st.sampled_from([0.0, 60.0, 600.0]),
        interval=st.sampled_from([1.0, 20.0]),
        is_strict=st.booleans(),
    ),
    CLEARED,
    settings={
        "processing_seconds": st.sampled_from([0.0, 5.0, 30.0]),
        "fail_messages": st.sampled_from([None, None, "Question 0"]),
    },
)
RATE_NIGHTS = nights(
    st.builds(RateMany, ratings=st.sampled_from([1, 2, 5, 30])),
    # Full disks belong to the nights of loads, which write the same findings.
    st.builds(Try, **{**FAULTS, "disk_full": st.none()}),
    timeout=st.just(30.0),
)
EXPORT_NIGHTS = nights(
    st.builds(Export, kind=st.sampled_from([AssistantStatisticsToParquetOperator, AssistantLimitsToParquetOperator])),
    TRIES,
    timeout=st.just(30.0),
)
