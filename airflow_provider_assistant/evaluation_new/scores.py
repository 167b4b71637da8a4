"""The matrix of scores: a row per answer, a column per scorer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from airflow_provider_assistant.evaluation_new.golden import Case
    from airflow_provider_assistant.evaluation_new.rules import Condition
    from airflow_provider_assistant.evaluation_new.scorers import Scorer


@dataclass(frozen=True, slots=True)
class Scores:
    """
    The scores of a run.

    :param keys: Key of each answer.
    :param units: Key of the first turn of its conversation, or of the question itself.
    :param content_hashes: Hash of question and expectations of each answer.
    :param values: Column of each scorer; NaN: not applicable, or no answer.
    :param passed: 1, 0, or NaN if not judged.
    :param errors: Text per scorer by number of the answer. Such an answer has the worst score.
    """

    keys: NDArray[np.str_]
    repetitions: NDArray[np.int64]
    units: NDArray[np.str_]
    content_hashes: NDArray[np.str_]
    request_ids: Sequence[str | None]
    statuses: NDArray[np.str_]
    weights: NDArray[np.float64]
    tags: Sequence[Sequence[str]]
    values: Mapping[str, NDArray[np.float64]]
    passed: NDArray[np.float64]
    errors: Mapping[int, Mapping[str, str]]

    def to_table(self) -> pa.Table:
        """Return the content of ``scores.parquet``."""
        raise NotImplementedError

    @classmethod
    def of_table(cls, table: pa.Table) -> Scores:
        """Return the scores that ``scores.parquet`` holds."""
        raise NotImplementedError


def score_cases(cases: Sequence[Case], scorers: Sequence[Scorer], pass_if: Condition | None = None) -> Scores:
    """Score the answers. An answer that a scorer cannot score gets its worst score, and its error is kept."""
    raise NotImplementedError
