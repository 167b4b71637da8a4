"""In place of OpenLineage's classes, where its provider is not installed."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from types import ModuleType
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.openlineage import facet

if TYPE_CHECKING:
    import pytest


@dataclass
class SchemaDatasetFacetFields:
    name: str
    type: str


@dataclass
class SchemaDatasetFacet:
    fields: list[SchemaDatasetFacetFields]


@dataclass
class OutputStatisticsOutputDatasetFacet:
    rowCount: int | None = None
    size: int | None = None


@dataclass
class Dataset:
    namespace: str
    name: str
    facets: dict[str, Any] = field(default_factory=dict)


@dataclass
class InputDataset(Dataset):
    inputFacets: dict[str, Any] = field(default_factory=dict)


@dataclass
class OutputDataset(Dataset):
    outputFacets: dict[str, Any] = field(default_factory=dict)


@dataclass
class OperatorLineage:
    inputs: list[InputDataset] = field(default_factory=list)
    outputs: list[OutputDataset] = field(default_factory=list)


STANDINS = (
    *(SchemaDatasetFacetFields, SchemaDatasetFacet, OutputStatisticsOutputDatasetFacet),
    *(Dataset, InputDataset, OutputDataset),
)


def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the classes of this module where operators look for those of OpenLineage."""
    for kind in STANDINS:
        monkeypatch.setattr(facet, kind.__name__, kind)
    extractors = ModuleType("airflow.providers.openlineage.extractors")
    extractors.OperatorLineage = OperatorLineage  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "airflow.providers.openlineage", ModuleType("airflow.providers.openlineage"))
    monkeypatch.setitem(sys.modules, extractors.__name__, extractors)
