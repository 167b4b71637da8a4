"""The values of a run's questions, aligned with the questions of the newest run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from airflow_provider_assistant.evaluation.baseline import EarlierRun
from airflow_provider_assistant.evaluation.change import means_of_known
from airflow_provider_assistant.evaluation.rules import Condition
from airflow_provider_assistant.evaluation.units import Unit

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Source of a latency that the service's own times give.
SERVICE = "service"


class RunValues:
    """
    The values of the questions of one run: one number per unit of the newest run, NaN if not known.

    Only questions with the same text and expectations have values.

    :param run: The run.
    :param units: The questions and conversations of the newest run.
    """

    def __init__(self, run: EarlierRun, units: Sequence[Unit]) -> None:
        import numpy as np
        import pyarrow as pa
        import pyarrow.compute as pc

        self.run = run
        self.scorers = set(run.scores["scorer"].unique().to_pylist())
        self._units = units
        digests = {key: digest for unit in units for key, digest in unit.digests.items()}
        self._unit_of_key = np.array([position for position, unit in enumerate(units) for _ in unit.digests], dtype=int)
        index = pc.index_in(run.scores["key"], value_set=pa.array(digests, pa.string())).combine_chunks()
        is_same = pc.equal(run.scores["case"], pa.array(digests.values(), pa.string()).take(index))
        self._key = index.fill_null(-1).to_numpy(zero_copy_only=False).astype(int)
        # The last position stands for no unit.
        self._position = np.append(self._unit_of_key, -1)[self._key]
        is_changed = pc.invert(is_same).fill_null(False).combine_chunks().to_numpy(zero_copy_only=False)
        # A conversation of which a turn changed is another conversation.
        changed_positions = np.unique(self._position[is_changed])
        self._is_unchanged = (self._position >= 0) & ~np.isin(self._position, changed_positions)

    @property
    def digests(self) -> dict[str, str]:
        """Content hash of each question by key."""
        scores = self.run.scores
        return dict(zip(scores["key"].to_pylist(), scores["case"].to_pylist(), strict=True))

    @property
    def latency_source(self) -> str:
        """Source of most latencies; ``service`` if no latency has a source."""
        sources = Counter(self.run.scores["seconds_source"].drop_null().to_pylist())
        if not sources:
            return SERVICE
        ((most_common, _count),) = sources.most_common(1)
        return str(most_common)

    @property
    def answered_share(self) -> float:
        """Share of the answers that are there; 0 without questions."""
        is_answer = self._is_answer()
        return float(self._is_complete()[is_answer].mean()) if is_answer.any() else 0.0

    def scores_of(self, scorer: str, worst: float | None) -> NDArray[np.float64]:
        """
        Return the weighted mean of each unit's scores.

        :param worst: Score of an answer on which the scorer failed; None if it has none.
        """
        import numpy as np

        scores = self.run.scores
        values = scores["score"].to_numpy().astype(float)
        if worst is not None:
            values = np.where(self._equal("outcome", "error"), worst, values)
        return self._means(self._equal("scorer", scorer), values, scores["weight"].to_numpy())

    def coverage(self) -> NDArray[np.float64]:
        """Return the share of each unit's answers that are there."""
        import numpy as np

        is_complete = self._is_complete()
        return self._means(self._is_answer(), is_complete.astype(float), np.ones(len(is_complete)))

    def passes(self, condition: Condition) -> NDArray[np.float64]:
        """
        Return for each unit the share of its repetitions that pass: of a conversation, all turns must pass.

        An answer on which a scorer failed does not pass.
        """
        import numpy as np

        scores = self.run.scores
        values = scores["score"].to_numpy().astype(float)
        repetitions = scores["repetition"].to_numpy() - 1
        most = int(repetitions.max(initial=0)) + 1
        # Each answer has a row per scorer.
        answers = self._key * most + repetitions
        is_there, is_applicable, fails, is_missing = np.zeros((4, len(self._unit_of_key) * most), dtype=bool)
        is_there[answers[self._is_unchanged]] = True
        for term in condition.terms:
            rows = self._is_unchanged & self._equal("scorer", term.name) & ~self._equal("outcome", "not_applicable")
            is_applicable[answers[rows]] = True
            is_missing[answers[rows & np.isnan(values)]] = True
            fails[answers[rows & self._equal("outcome", "error")]] = True
            known = rows & ~np.isnan(values)
            different_values, positions = np.unique(values[known], return_inverse=True)
            holds = np.array([term.holds(value) for value in different_values.tolist()], dtype=bool)
            fails[answers[known][~holds[positions]]] = True
        is_unknown = is_there & ~fails & (is_missing | ~is_applicable)
        units = (self._unit_of_key[:, np.newaxis] * most + np.arange(most)).ravel()
        size = len(self._units) * most

        def any_of(flags: NDArray[np.bool_]) -> NDArray[np.bool_]:
            has_any: NDArray[np.bool_] = np.bincount(units, weights=flags, minlength=size) > 0
            return has_any

        verdicts = np.where(any_of(is_unknown) | ~any_of(is_there), np.nan, 1.0)
        verdicts = np.where(any_of(fails), 0.0, verdicts).reshape(-1, most)
        return means_of_known(verdicts.T)

    def removed(self, scorer: str) -> int:
        """Return the number of scored questions that the newest run does not have."""
        import numpy as np

        is_scored = self._equal("scorer", scorer) & self._equal("outcome", "scored")
        keys = self.run.scores["key"].to_numpy()[is_scored & (self._position < 0)]
        return len(np.unique(keys.astype(str)))

    def _is_answer(self) -> NDArray[np.bool_]:
        """Return which rows are those of one scorer, because each answer has a row per scorer."""
        return (
            self._equal("scorer", self.run.scores["scorer"][0].as_py()) if len(self._position) else self._position > 0
        )

    def _is_complete(self) -> NDArray[np.bool_]:
        return self._equal("status", "complete")

    def _equal(self, column: str, text: str) -> NDArray[np.bool_]:
        import pyarrow.compute as pc

        is_equal: NDArray[np.bool_] = pc.equal(self.run.scores[column], text).fill_null(False).to_numpy()
        return is_equal

    def _means(
        self, rows: NDArray[np.bool_], values: NDArray[np.float64], weights: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return the weighted mean of each unit's values in some of the rows."""
        import numpy as np

        rows = rows & self._is_unchanged & ~np.isnan(values)
        positions, weights, size = self._position[rows], weights[rows], len(self._units)
        totals = np.bincount(positions, weights=weights, minlength=size)
        sums = np.bincount(positions, weights=weights * values[rows], minlength=size)
        means: NDArray[np.float64] = np.divide(sums, totals, out=np.full(size, np.nan), where=totals > 0)
        return means
