"""Base class of the operators that load the Parquet datasets into tables."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any

from airflow.providers.common.compat.sdk import ObjectStoragePath

from airflow_provider_assistant import lake
from airflow_provider_assistant.exceptions import NOTHING_CHANGED, AssistantInputError
from airflow_provider_assistant.hooks.task_parameters import check_given
from airflow_provider_assistant.observability.lineage import LineageDataset
from airflow_provider_assistant.operators.base import AssistantBaseOperator
from airflow_provider_assistant.transfers.progress import ONE_DAY, days_between


class FromLakeOperator(AssistantBaseOperator):
    """
    Base of the operators that load the Parquet datasets into tables.

    :param output_path: Folder of the datasets: a local path or an object storage URL.
    :param datasets: Names of the datasets to load. Default: all that were ever exported to
        ``output_path``.
    :param date: To load some days again although they did not change: the last of these days,
        ``YYYY-MM-DD``. Default: None, all days that changed.
    :param days: Number of days to load again, ending with ``date``. Default: 1. Needs ``date``.
    """

    template_fields: Sequence[str] = ("output_path", "datasets", "date")

    # The datasets that this run loaded, for lineage.
    loaded_datasets: Sequence[str] = ()

    def __init__(
        self,
        *,
        output_path: str,
        datasets: Sequence[str] | None = None,
        date: str | None = None,
        days: int = 1,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.output_path = output_path
        self.datasets = datasets
        self.date = date
        self.days = days
        check_given(self)
        if date is None and days != 1:
            raise AssistantInputError(
                f"task {self.task_id!r}: days needs date, the last of the days to load again. "
                "Without date, all days that changed are loaded",
                field="days",
            )

    def days_to_load(self) -> list[datetime.date] | None:
        """Return the days to load again; None for all that changed."""
        if self.date is None:
            return None
        last = datetime.date.fromisoformat(self.date)
        first = last - ONE_DAY * (self.days - 1)
        return days_between(first, last + ONE_DAY)

    def datasets_to_load(self) -> list[str]:
        """
        Return the datasets to load.

        :raises AssistantInputError: The path is wrong, so nothing would be loaded, or a dataset is unknown.
        """
        all_datasets = tuple(lake.DATASETS)
        if self.datasets is None:
            exported = [name for name in all_datasets if lake.exported(self.output_path, name)]
            if not exported:
                raise AssistantInputError(
                    f"{self.output_path!r} has none of the datasets {', '.join(all_datasets)}",
                    safe=NOTHING_CHANGED,
                    todo="Give the output_path of the exports.",
                    field="output_path",
                )
            return exported
        if not self.datasets or not set(self.datasets) <= set(all_datasets):
            names = ", ".join(all_datasets)
            raise AssistantInputError(
                f"datasets must be a list of some of {names}, not {self.datasets!r:.100}",
                field="datasets",
            )
        # Each dataset once, in the given order.
        selected = list(dict.fromkeys(self.datasets))
        missing = [name for name in selected if not lake.exported(self.output_path, name)]
        if missing:
            raise AssistantInputError(
                f"{self.output_path!r} has no {', '.join(missing)}",
                safe=NOTHING_CHANGED,
                todo="Give the output_path of the exports, and run them before this task.",
                field="datasets",
            )
        return selected

    def lineage_inputs(self) -> Sequence[LineageDataset]:
        """Return the datasets that were loaded."""
        root = ObjectStoragePath(self.output_path)
        return [LineageDataset(str(root / dataset)) for dataset in self.loaded_datasets]
