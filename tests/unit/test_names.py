"""Two tasks never have the same name or file, and every reader of datasets reads each file."""

from __future__ import annotations

import datetime
import random

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from airflow_provider_assistant.lake.files import days_of, write
from airflow_provider_assistant.ledger import RunRef
from airflow_provider_assistant.names import file_name, task_name
from airflow_provider_assistant.operators.runs import instance_suffix

DAY = datetime.date(2026, 11, 21)
# Pieces that ids differ in: dots, what readers skip, case, other alphabets, indexes, lengths.
PIECES = (
    *("team", "Team", "sales", "export", "._", "_", ".", "-", "..", "~", "3", ".3", ".loop0", "loop", "user"),
    *("продажи", "売上", "é", "e\u0301", "ß", "ss", "\u0661", "x" * 120, "x" * 121),
)


def ids(random_numbers):
    pieces = random_numbers.choices(PIECES, k=random_numbers.randint(1, 4))
    return "".join(pieces).replace("~", "")[:250] or "_"


def part(dag_id, task_id, map_index=-1, region=None):
    run = RunRef(dag_id, "run", task_id, map_index, region)
    return f"{file_name(task_name(dag_id, task_id))}{instance_suffix(run)}"


def generated_instances():
    random_numbers = random.Random(7)
    known = [
        *(("team.sales", "export", -1, None), ("team", "sales.export", -1, None)),
        *(("team", "export", 3, None), ("team", "export.3", -1, None)),
        *(("team", "export", -1, "0.a"), ("team", "export.loop0.a", -1, None)),
    ]
    instances = set(known)
    while len(instances) < 5000:
        map_index = random_numbers.choice((-1, -1, 0, 3, 4096))
        region = random_numbers.choice((None, None, None, "0", "1.3", "0.é" + "z" * 240))
        instances.add((ids(random_numbers), ids(random_numbers), map_index, region))
    return sorted(instances, key=str)


def test_thousands_of_tasks_have_different_names():
    instances = generated_instances()
    tasks = {(dag_id, task_id) for dag_id, task_id, _, _ in instances}
    assert len({task_name(*task) for task in tasks}) == len(tasks)
    names = [file_name(part(*instance), 200) for instance in instances]
    # Some file systems ignore the case.
    assert len({name.casefold() for name in names}) == len(instances)
    for name in names:
        assert name.isascii()
        assert not name.startswith((".", "_"))
        # The name of a temporary file is longer.
        assert len(f".{name}.{'0' * 32}") <= 255
        assert file_name(name, 200) == name


@pytest.mark.parametrize(
    ("dag_id", "task_id", "name"),
    [("nightly", "export", "nightly.export"), ("my-dag_2", "group.task-1", "my-dag_2.group.task-1")],
)
def test_ordinary_names_stay(dag_id, task_id, name):
    assert part(dag_id, task_id) == name
    assert part(dag_id, task_id, 3) == f"{name}.3"


def test_every_reader_reads_files_of_any_name(tmp_path):
    texts = [*PIECES, "../../outside", "a/b", "CON", "date=2020-01-01", "%41", "tag: nightly", "*", "?", "\ud800", "\0"]
    names = [part(text, text) for text in texts] + texts
    for number, name in enumerate(names):
        write(pa.table({"n": [number]}), str(tmp_path), "numbers", DAY, (name,), {})
    numbers = list(range(len(names)))
    dataset = ds.dataset(tmp_path / "numbers", partitioning="hive").to_table()
    assert sorted(dataset["n"].to_pylist()) == numbers
    assert set(dataset["date"].to_pylist()) == {DAY.isoformat()}
    with duckdb.connect() as database:
        found = database.execute(f"SELECT n FROM '{tmp_path}/numbers/*/*.parquet' ORDER BY n").fetchall()
    assert [number for (number,) in found] == numbers
    (partition,) = days_of(str(tmp_path), "numbers").values()
    assert len(partition.files) == len(names)
