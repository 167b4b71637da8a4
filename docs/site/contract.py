"""
Write ``docs/reference/datasets.json``: the datasets with their columns, for programs.

``python -m tests.docs.generated`` writes it from :mod:`airflow_provider_assistant.lake.datasets`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from airflow_provider_assistant import lake

FILE = Path(__file__).parents[1] / "reference" / "datasets.json"


def text_of_contract() -> str:
    """Return the content of the file, with one line for each column."""
    partition = {"name": "date", "type": "date32[day]", "path": "<dataset>/date=YYYY-MM-DD/*.parquet"}
    datasets = ",\n".join(f"{_json(name)}: {_described(dataset)}" for name, dataset in lake.DATASETS.items())
    return f'{{"partition": {_json(partition)},\n"datasets": {{\n{datasets}\n}}}}\n'


def _described(dataset: lake.Dataset) -> str:
    descriptions = dataset.descriptions()
    columns = []
    for field in dataset.schema():
        column = {
            "name": field.name,
            "type": str(field.type),
            "nullable": field.nullable,
            "description": descriptions[field.name],
        }
        columns.append(f"   {_json(column)}")
    head = {"description": dataset.description, "key": dataset.key, "order": dataset.order}
    return f'{_json(head)[:-1]}, "columns": [\n' + ",\n".join(columns) + "\n]}"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
