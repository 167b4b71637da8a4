"""Base classes of the operators that read rows from a source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_assistant.loading.untemplated import without_templating
from airflow_provider_assistant.observability.lineage import LineageDataset
from airflow_provider_assistant.operators.base import AssistantBaseOperator, AssistantConcurrentOperator
from airflow_provider_assistant.storage.paths import files_in

if TYPE_CHECKING:
    from airflow_provider_assistant.operators.judging import JudgeTask


class UntemplatedField:
    """A template field that keeps a source as given, whether the DAG file or Airflow's rendering sets it."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, operator: Any, owner: type | None = None) -> Any:
        return self if operator is None else vars(operator)[self._name]

    def __set__(self, operator: Any, source: Any) -> None:
        vars(operator)[self._name] = without_templating(source)


class AssistantReaderOperator(AssistantBaseOperator):
    """
    Base of the operators that read rows: how to read them.

    :param csv_options: Format of CSV files: a mapping with ``delimiter`` (default ``,``), ``encoding`` (default
        ``utf-8``) and ``quote`` (default ``"``).
    :param allow_empty: Whether a source without rows or files succeeds with zero counts. Default: False, an empty
        source is an error.
    """

    def __init__(
        self, *, csv_options: Mapping[str, str] | None = None, allow_empty: bool = False, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.csv_options = csv_options
        self.allow_empty = allow_empty


class AssistantSourceOperator(AssistantConcurrentOperator, AssistantReaderOperator):
    """
    Base of the operators that send one request per row of a source.

    :param source: The rows: a dataframe (pandas, polars, pyarrow, DuckDB, …); a list of mappings, such as the output of
        another task; a path, object storage URL, glob or folder of Parquet, CSV or JSON Lines files, or a list of
        these; or a callable that runs on the worker and returns one of these or yields batches of rows.
    :param columns: Mapping from a field to its column, for columns whose name differs. Default: None.
    :param constants: Mapping from a field to one value for all rows. Default: None.
    :param key_columns: Column or columns that identify a row. Default: an empty sequence, the content of the row.
    :param allowed_root: Folder that all files must lie in after symbolic links are resolved: a local path or an object
        storage URL. Default: None, files may lie anywhere.
    :param csv_options: Format of CSV files: a mapping with ``delimiter`` (default ``,``), ``encoding`` (default
        ``utf-8``) and ``quote`` (default ``"``).
    :param allow_empty: Whether a source without rows or files succeeds with zero counts. Default: False, an empty
        source is an error.
    :param max_concurrency: Maximum number of requests in flight. Default: that of the connection.
    :param assistant_conn_id: Airflow connection of type ``assistant``. Default: ``assistant_default``.
    :param tenant_id: The tenant. Default: that of the connection.
    :param site_id: The site. Default: that of the connection.
    """

    template_fields: Sequence[str] = (
        *AssistantConcurrentOperator.template_fields,
        "source",
        "columns",
        "constants",
        "key_columns",
        "csv_options",
        "allowed_root",
    )
    source = UntemplatedField()

    def __init__(
        self,
        *,
        source: Any,
        columns: Mapping[str, str] | None = None,
        constants: Mapping[str, str] | None = None,
        key_columns: str | Sequence[str] = (),
        allowed_root: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.source = source
        self.columns = columns
        self.constants = constants
        self.key_columns = key_columns
        self.allowed_root = allowed_root

    def lineage_inputs(self) -> Sequence[LineageDataset]:
        """Return the files of the source; empty if the rows do not come from files."""
        return files_in(self.source)


class AssistantJudgingOperator(AssistantReaderOperator):
    """
    Base of the operators that read answers and ask judges about them.

    :param judge: Options of the judges: a mapping with some of ``conn_id``, ``model``, ``rubrics``,
        ``max_concurrency``, ``max_judge_tokens`` and ``price``, see
        :class:`~airflow_provider_assistant.evaluation.judging.rubrics.JudgeOptions`. Default: None, their defaults.
    :param csv_options: Format of CSV files: a mapping with ``delimiter`` (default ``,``), ``encoding`` (default
        ``utf-8``) and ``quote`` (default ``"``).
    :param allow_empty: Whether a source without rows or files succeeds with zero counts. Default: False, an empty
        source is an error.
    """

    judges: JudgeTask | None = None

    def __init__(self, *, judge: Mapping[str, Any] | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.judge = judge

    def on_kill(self) -> None:
        """Stop asking the judges. The next try continues with the answers that have no verdict yet."""
        if self.judges:
            self.judges.cancel()
