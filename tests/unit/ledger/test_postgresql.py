"""What holds for a ledger on PostgreSQL only: clocks and time zones, transactions, locks and plans."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa

from airflow_provider_assistant.exceptions import AssistantLedgerError
from airflow_provider_assistant.ledger import Claim, ClaimOutcome, DocumentScope, Ledger, RunRef, document_group
from airflow_provider_assistant.ledger.leases import DatabaseNow
from airflow_provider_assistant.ledger.schema import leases
from tests.sites import site_at
from tests.threads import at_once
from tests.unit.ledger.test_leases import created

pytestmark = [
    pytest.mark.parametrize("database", ["postgresql"], indirect=True),
    pytest.mark.system,
    pytest.mark.usefixtures("no_waits"),
]
RUN, OTHER = RunRef("dag", "run", "task", -1), RunRef("dag", "other", "task", -1)
SCOPE = DocumentScope(site_at("https://h/m2m/sites/docs"), "documents/text")


def documents(ledger, run=RUN, **facts):
    return ledger.documents(scope=SCOPE, source="kb", run=run, **facts)


def claims(memory, *keys):
    known = memory.entries(keys)
    return [Claim(key, f"row {key}", known.get(key)) for key in keys]


@pytest.mark.parametrize("zone", ["Asia/Kathmandu", "America/St_Johns"])
@pytest.mark.parametrize("hours", [-30, 30])
def test_only_the_clock_of_the_database_decides_about_a_lease(database, hours, zone):
    """Whatever the clocks of the workers and the time zones of their sessions are."""
    elsewhere = database(options=f"-c timezone={zone}", poolclass=sa.NullPool)
    with Ledger(database()) as ledger:
        skewed = Ledger(elsewhere, now=lambda: datetime.now(UTC) + timedelta(hours=hours))
        with documents(ledger) as one, documents(skewed, OTHER) as other:
            one.commit_and_claim([], claims(one, "a"))
            assert other.entries(["a"])["a"].state == "leased"
            with ledger.engine.begin() as connection:
                expired = datetime.now(UTC) - timedelta(minutes=2)
                assert connection.execute(sa.update(leases).values(heartbeat_at=expired)).rowcount == 1
            (taken,) = claims(other, "a")
            assert taken.entry.state == "ambiguous"
            assert other.commit_and_claim([], [taken]) == {"a"}
            assert one.entries(["a"])["a"].state == "leased"


def test_the_clock_of_the_database_goes_on_during_a_transaction(database):
    with database().begin() as connection:
        first, second = (connection.scalar(sa.select(DatabaseNow())) for _ in range(2))
        assert second > first
        assert abs(datetime.now(UTC) - second) < timedelta(minutes=1)


def test_a_group_is_one_transaction(ledger):
    def transactions():
        with ledger.engine.connect() as connection:
            return connection.exec_driver_sql("SELECT pg_current_xact_id()::text::bigint").scalar_one()

    with documents(ledger) as memory:
        wanted = claims(memory, "b", "a")
        assert memory.commit_and_claim([], wanted) == {"a", "b"}
        before = transactions()
        memory.commit_and_claim(created(wanted), claims(memory, "c"))
        assert transactions() == before + 2


def test_workers_that_claim_the_same_keys_in_any_order_do_not_block_each_other(database):
    keys, winners = [f"{number:04}" for number in range(400)], []
    Ledger(database()).close()
    numbers = iter(range(4))

    def load():
        number = next(numbers)
        with Ledger(database()) as ledger, documents(ledger, RunRef("dag", str(number), "task", -1)) as memory:
            order = keys[number * 100 :] + keys[: number * 100]
            settled = []
            for start in range(0, len(order), 20):
                wanted = claims(memory, *order[start : start + 20])
                won = memory.commit_and_claim(settled, wanted)
                settled = created([claim for claim in wanted if claim.key in won])
                winners.extend(won)
            memory.commit_and_claim(settled, [])

    at_once(4, load)
    # A worker that reads a key after another one has finished it may claim it again.
    assert set(winners) == set(keys)


def test_many_open_a_new_ledger_at_once(database):
    connect = database()
    at_once(6, lambda: Ledger(sa.create_engine(connect.url, connect_args=OPTIONS)).close())
    with Ledger(database()) as ledger, documents(ledger) as memory:
        assert memory.entries(["a"]) == {}


OPTIONS = {"options": "-csearch_path=ledger"}


def test_the_search_for_stale_documents_of_groups_uses_the_index(ledger):
    groups = [document_group(f"page {number}") for number in range(1000)]
    with documents(ledger, has_groups=True) as memory:
        wanted = [Claim(f"{key:04}", "row", None, groups[key % 1000]) for key in range(4000)]
        memory.commit_and_claim([], wanted)
        memory.commit_and_claim([ClaimOutcome(claim, "created", "hash", claim.key) for claim in wanted], [])
        with ledger.engine.begin() as connection:
            connection.execute(sa.text("ANALYZE assistant_documents"))
        texts = []
        sa.event.listen(
            ledger.engine, "before_cursor_execute", lambda _, __, text, values, *___: texts.append((text, values))
        )
        some = sorted(group.key for group in groups[:20])
        assert sum(1 for _ in memory.stale_in_groups(some, lambda _: False)) == 80
    ((text, values),) = [one for one in texts if "group_key IN" in one[0]]
    with ledger.engine.connect() as connection:
        plan = "".join(connection.exec_driver_sql(f"EXPLAIN {text}", values).scalars())
    assert "assistant_documents_by_group" in plan
    assert "Seq Scan" not in plan


def test_a_server_that_cannot_be_reached_is_an_error_of_the_ledger(postgres, database):
    away = sa.create_engine(postgres.url.replace(f":{postgres.port}/", ":1/"))
    with pytest.raises(AssistantLedgerError, match="Nothing was sent"):
        Ledger(away)
