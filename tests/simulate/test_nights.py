"""
Generated nights. A failure prints the smallest night with the same failure: paste it into a test, with ``.check()``.

``ASSISTANT_TEST_NIGHTS`` is the number of nights of all operations together; ``make simulate NIGHTS=10000`` sets it.
"""

from __future__ import annotations

import gc
import math
import os
from typing import Any

import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from tests.simulate import batches, chats, commands, gateways, loads

COUNT = int(os.environ.get("ASSISTANT_TEST_NIGHTS", "100"))
# Hypothesis keeps what it has generated, up to 1 MB a night, until a part ends.
PART = 100


def held(generated: st.SearchStrategy[Any], count: int, part: int) -> None:
    """Check generated nights: the same ones every time."""

    @seed(part)
    @settings(
        max_examples=count, deadline=None, database=None, suppress_health_check=list(HealthCheck), print_blob=False
    )
    @given(generated)
    def hold(night: Any) -> None:
        night.check()

    hold()
    # A part makes millions of objects, and the suite lets Python look for garbage too rarely for that.
    gc.collect()


def share(percentage: float) -> Any:
    """Return the decorator of a test that has a share of all nights, in parts."""
    count = max(1, round(COUNT * percentage / 100))
    sizes = [min(PART, count - part * PART) for part in range(math.ceil(count / PART))]
    parts = [pytest.param(size, part, id=f"part {part}") for part, size in enumerate(sizes)]
    return pytest.mark.parametrize(("count", "part"), parts)


@pytest.mark.promise(
    "loads",
    "Whatever fails in the service, the ledger, the disk or the process, a retry of a load creates every row, and "
    "lists each row that may exist twice.",
)
@share(25)
def test_rows_are_loaded(count: int, part: int) -> None:
    held(loads.ROW_NIGHTS, count, part)


@pytest.mark.promise("loads", "A file that changes while it is uploaded costs only itself, and is not half uploaded.")
@share(8)
def test_files_are_uploaded(count: int, part: int) -> None:
    held(loads.FILE_NIGHTS, count, part)


@pytest.mark.promise("loads", "A load that was killed creates nothing twice at a site whose documents can be listed.")
@share(3)
def test_a_site_that_lists_its_documents_gets_none_twice(count: int, part: int) -> None:
    held(loads.SETTLED_NIGHTS, count, part)


@pytest.mark.promise(
    "documents of a site",
    "A load that is interrupted while it replaces and removes documents leaves each row the old or the new one, and a "
    "retry makes the site equal to the source.",
)
@share(5)
def test_the_site_becomes_equal_to_its_source(count: int, part: int) -> None:
    held(loads.EQUAL_NIGHTS, count, part)


@pytest.mark.promise(
    "replies and errors", "A network outage of up to a minute is survived, and few requests are sent while it lasts."
)
@share(7)
def test_outages_are_survived(count: int, part: int) -> None:
    held(gateways.OUTAGE_NIGHTS, count, part)


@pytest.mark.promise(
    "replies and errors",
    "If a gateway answers for the service, the task stops soon, its error says so, and no row is judged.",
)
@share(5)
def test_gateways_are_named(count: int, part: int) -> None:
    held(gateways.GATEWAY_NIGHTS, count, part)


@pytest.mark.promise(
    "ledger", "The same source at another address of the service sends nothing before somebody decides."
)
@share(1)
def test_another_address_sends_nothing(count: int, part: int) -> None:
    held(gateways.MOVED_NIGHTS, count, part)


@pytest.mark.promise(
    "chat", "A chat that may have arrived is sent again only if on_ambiguous allows it, and is counted."
)
@share(9)
def test_a_chat_is_answered(count: int, part: int) -> None:
    held(chats.CHAT_NIGHTS, count, part)


@pytest.mark.promise("chat", "A chat that was submitted is not submitted again by a retry.")
@share(4)
def test_a_chat_is_submitted(count: int, part: int) -> None:
    held(chats.SUBMIT_NIGHTS, count, part)


@pytest.mark.promise("chat", "A sensor polls a chat request until its timeout, whatever the polls meet.")
@share(6)
def test_a_sensor_waits_for_a_chat_request(count: int, part: int) -> None:
    held(chats.SENSOR_NIGHTS, count, part)


@pytest.mark.promise(
    "chat", "A chat batch keeps the answers that it has got, and asks nothing twice without listing it."
)
@share(8)
def test_a_chat_batch_is_answered(count: int, part: int) -> None:
    held(batches.BATCH_NIGHTS, count, part)


@pytest.mark.promise("ratings", "A rating that was acknowledged is not sent again.")
@share(3)
def test_an_answer_is_rated(count: int, part: int) -> None:
    held(chats.RATING_NIGHTS, count, part)


@pytest.mark.promise("ratings", "Ratings by rule are all sent by a retry, and none twice without being listed.")
@share(4)
def test_answers_are_rated_by_rule(count: int, part: int) -> None:
    held(batches.RATE_NIGHTS, count, part)


@share(2)
def test_a_session_is_closed(count: int, part: int) -> None:
    held(chats.CLOSE_NIGHTS, count, part)


@share(2)
def test_a_file_is_uploaded_by_the_hook(count: int, part: int) -> None:
    held(chats.UPLOAD_NIGHTS, count, part)


@pytest.mark.promise(
    "lake and warehouse", "Readers of an exported day see the old file or the new one, also in a fault."
)
@share(4)
def test_a_day_is_exported(count: int, part: int) -> None:
    held(batches.EXPORT_NIGHTS, count, part)


@pytest.mark.promise("command line", "A load by command is repeated until all rows are there; its counts are true.")
@share(2)
def test_the_load_command_keeps_the_promises_of_a_load(count: int, part: int) -> None:
    held(commands.COMMAND_LOADS, count, part)


@pytest.mark.promise(
    "command line", "Exit codes, output and messages of each command are as documented, in all faults."
)
@share(1)
def test_commands_that_call(count: int, part: int) -> None:
    held(commands.COMMAND_CALLS, count, part)


@share(1)
def test_commands_with_odd_arguments(count: int, part: int) -> None:
    held(commands.ODD_ARGUMENTS, count, part)


@share(1)
def test_commands_with_files_that_cannot_be_loaded(count: int, part: int) -> None:
    held(commands.UNUSABLE_FILES, count, part)
