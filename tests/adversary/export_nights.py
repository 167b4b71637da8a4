"""Nights of exports: statistics of many sites and limits of the tenant, in files that are replaced atomically."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from airflow.providers.common.compat.sdk import AirflowFailException
from hypothesis import strategies as st

from airflow_provider_assistant.client.fan_out import BREAKER
from airflow_provider_assistant.transfers.limits_to_parquet import AssistantLimitsToParquetOperator
from airflow_provider_assistant.transfers.statistics_to_parquet import AssistantStatisticsToParquetOperator
from tests.adversary.request_service import TRIES, Service, Try
from tests.adversary.world import FinishedRequest, World

MAX_PAUSE = 60.0
# These errors concern every site and stop an export.
STOPPING = {401, 429}
PERMANENT = {400, 403, 404}


@dataclass(frozen=True)
class ExportNight:
    """
    One task that exports a day, with several tries, the last of which is without faults.

    :param tries: Tries with faults; a fault-free one follows.
    :param sites: Number of sites; 0 exports the tenant's limits instead.
    :param max_failed: Number of sites that may fail.
    :param retries: Maximum number of retries per request.
    :param max_concurrency: Maximum number of requests in flight.
    """

    tries: tuple[Try, ...]
    sites: int = 3
    max_failed: float = 0
    retries: int = 2
    max_concurrency: int = 4

    @property
    def names(self) -> list[str]:
        """The sites."""
        return [f"site/{number}" for number in range(self.sites)]


def check_export(night: ExportNight) -> None:
    """Export a day."""
    world = World(Service(), retries=night.retries, max_concurrency=night.max_concurrency)
    world.most = max(1, night.sites) * (night.retries + 1 + MAX_PAUSE + 10)
    with world.entered():
        before: dict[str, bytes] = {}
        for number, attempt in enumerate(night.tries, 1):
            ended = world.tried(attempt, _exporting(world, night), number=number)
            _check_try(night, attempt, ended, world, before)
            before = _files(world)
        good = world.tried(Try(), _exporting(world, night), number=len(night.tries) + 1)
        assert good.error is None, repr(good.error)
        if night.sites:
            assert (good.result["sites"], good.result["failed"]) == (night.sites, 0)
            assert _sites(good.result["path"]) == _sites(good.result["raw_path"]) == set(night.names)
        assert not [path for path in world.folder.rglob(".*") if path.is_file()], "nothing is left behind"


def _exporting(world: World, night: ExportNight) -> Callable[[dict[str, Any]], Any]:
    def export(context: dict[str, Any]) -> Any:
        options = {"task_id": "task", "output_path": str(world.folder / "lake"), "date": "2027-01-15"}
        if not night.sites:
            return AssistantLimitsToParquetOperator(**options).execute(context)
        task = AssistantStatisticsToParquetOperator(site_ids=night.names, max_failed_sites=night.max_failed, **options)
        return task.execute(context)

    return export


def _check_try(
    night: ExportNight, attempt: Try, ended: FinishedRequest, world: World, before: dict[str, bytes]
) -> None:
    longest = (night.retries + 1) * (30.0 + 1.2 * MAX_PAUSE + 2) + 3 * MAX_PAUSE
    assert ended.seconds <= max(1, night.sites) * longest + MAX_PAUSE * 40, "the time is bounded"
    for path, content in _files(world).items():
        assert content == before.get(path) or pq.read_table(path) is not None, "a reader sees a whole file"
    if ended.is_killed or not night.sites:
        return
    error, odd = ended.error, attempt.odd
    statuses = {entry.status for entry in ended.entries}
    if error is None:
        failed = ended.result["failed"]
        assert ended.result["sites"] == night.sites
        assert len(ended.result["failed_sites"]) == failed <= night.max_failed
        assert _sites(ended.result["raw_path"]) == set(night.names) - _failed(ended), "the counts are those of the file"
        if attempt.then.is_well:
            assert failed <= len(odd), "one bad answer costs one site"
    elif attempt.is_undisturbed:
        is_for_good = isinstance(error, AirflowFailException)
        if not statuses - PERMANENT:
            assert is_for_good, f"what every site is refused is not retried: {error!r}"
        if is_for_good:
            assert statuses & {*range(400, 500)}, f"what may pass is retried: {error!r}"
        if not statuses & STOPPING and len(odd) < BREAKER and attempt.then.is_well:
            assert len(odd) > night.max_failed, f"so many sites may fail: {error!r}"


def _failed(ended: FinishedRequest) -> set[str]:
    return {failed["site_id"] for failed in ended.result["failed_sites"]}


def _sites(path: str) -> set[str]:
    return set(pq.read_table(path)["site_id"].to_pylist())


def _files(world: World) -> dict[str, bytes]:
    lake: Path = world.folder / "lake"
    return {str(path): path.read_bytes() for path in lake.rglob("*.parquet") if not path.name.startswith(".")}


# -- generation ------------------------------------------------------------------------------------

EXPORT_NIGHTS = st.builds(
    ExportNight,
    tries=st.lists(TRIES, min_size=1, max_size=3).map(tuple),
    sites=st.sampled_from([0, 1, 2, 5, 14]),
    max_failed=st.sampled_from([0, 1, 3]),
    retries=st.integers(0, 3),
    max_concurrency=st.sampled_from([1, 4]),
)
