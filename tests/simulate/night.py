"""A night: one task with several tries that go wrong, and what its operation promises."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from hypothesis import strategies as st

from airflow_provider_assistant.sandbox import Settings
from tests.simulate.world import CALM, FAULTS, Ended, Try, World

RETRIED, NEXT_DAY = "run", "next day"


@dataclass
class Operation:
    """
    What the task of a night does, and what it promises.

    The fields that a night generates are those of the class; ``begin`` adds what the operation keeps while it runs.
    """

    # Seconds. The longest pause after a 429 that the operation waits for.
    max_pause: ClassVar[float] = 60.0

    def begin(self, world: World) -> None:
        """Prepare files and the service."""

    def prepare(self, world: World, attempt: Try) -> None:
        """Prepare what a try reads, before anything fails."""

    def execute(self, world: World, attempt: Try, context: dict[str, Any]) -> Any:
        """Execute the task once."""
        raise NotImplementedError

    def check_try(self, world: World, attempt: Try, ended: Ended, *, number: int) -> None:
        """Check the promises after a try, for each process of it."""

    def check_end(self, world: World, night: Night) -> None:
        """Check, after all tries, that tries without faults do what is left."""

    def names(self) -> dict[str, str]:
        """Return what is sent one by one, and what findings call it."""
        return {}

    @property
    def items(self) -> int:
        """Return the number of what is sent one by one."""
        return 1

    def sends(self, world: World) -> float:
        """Return how often one item may be sent in a try: pauses of a second after 429s are the shortest."""
        return world_retries(world) + 1 + self.max_pause + 10

    def seconds(self, world: World) -> float:
        """Return how long one item may take."""
        retries = world_retries(world)
        return (retries + 1) * (world.timeout + 1.2 * self.max_pause + 2) + 3 * self.max_pause

    def polls(self) -> float:
        """Return the number of polls in a try."""
        return 0

    def run(self, world: World, attempt: Try, number: int, *runs: str) -> list[Ended]:
        """Run a try, and check its promises."""

        def execute(context: dict[str, Any]) -> Any:
            return self.execute(world, attempt, context)

        world.most = (max(1, self.items) * self.sends(world) + self.polls()) * max(1, len(runs)) * 4
        self.prepare(world, attempt)
        for path in world.folder.glob("assistant_loads/**/*.parquet"):
            path.unlink()  # those of an earlier try are not what this one says
        ends = world.all_tried(attempt, execute, number=number, runs=runs or (RETRIED,))
        for ended in ends:
            self.check_try(world, attempt, ended, number=number)
        return ends

    def calm(self, world: World, number: int = 50, run: str = RETRIED) -> Ended:
        """Run a try without faults."""
        return self.run(world, CALM, number, run)[0]


def world_retries(world: World) -> int:
    """Return the repetitions of a request."""
    return int(world.connection["extra"].get("retries", 4))


@dataclass(frozen=True)
class Night:
    """
    A night.

    :param operation: what the task does.
    :param tries: its tries with faults; tries without faults follow.
    :param settings: settings of the service that differ from the default.
    :param client: settings of the client, and fields of the connection's extra.
    :param is_retried: whether the last tries retry the task instance; otherwise the next day's run goes on.
    """

    operation: Operation
    tries: tuple[Try, ...]
    settings: Any = ()
    client: Any = ()
    is_retried: bool = True

    def check(self) -> None:
        """Run the night, and check the promises after each try and at the end."""
        world = World(Settings(**{"processing_seconds": 0.0, **dict(self.settings)}), **dict(self.client))
        with world.entered():
            self.operation.begin(world)
            for number, attempt in enumerate(self.tries, 1):
                runs = (RETRIED, "beside") if attempt.is_beside else (RETRIED,)
                self.operation.run(world, attempt, number, *runs)
            self.operation.check_end(world, self)


def nights(
    operation: st.SearchStrategy[Any],
    tries: st.SearchStrategy[Try] | None = None,
    *,
    most: int = 3,
    settings: dict[str, st.SearchStrategy[Any]] | None = None,
    **client: st.SearchStrategy[Any],
) -> st.SearchStrategy[Night]:
    """Return a strategy of nights with one to ``most`` tries."""
    options = {
        "retries": st.integers(0, 4),
        "timeout": st.sampled_from([30.0, 3600.0]),
        "max_concurrency": st.sampled_from([1, 2, 4, 16]),
        **client,
    }
    return st.builds(
        Night,
        operation=operation,
        tries=st.lists(tries or st.builds(Try, **FAULTS), min_size=1, max_size=most).map(tuple),
        settings=st.fixed_dictionaries(settings or {}),
        client=st.fixed_dictionaries(options),
        is_retried=st.sampled_from([True, True, True, False]),
    )
