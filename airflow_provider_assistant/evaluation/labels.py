"""
Labels of people, and the agreement of a judge with them.

Cohen's kappa is measured on what decides: the score itself, or whether it fulfils the condition of ``pass_if``. For
scores between 0 and 1 it is the kappa with linear weights, which equals Cohen's for 0 and 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from airflow_provider_assistant.evaluation.cells import is_blank
from airflow_provider_assistant.evaluation.summary import Agreement
from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.keys import is_missing

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from airflow_provider_assistant.evaluation.golden import Case

HUMAN, HUMAN_ANSWER = "human", "human_answer"
_WORDS = {
    **dict.fromkeys(("true", "pass", "yes", "good", "1", "1.0"), True),
    **dict.fromkeys(("false", "fail", "no", "bad", "0", "0.0"), False),
}

# Ends of the interval of 95 %.
_TAIL = 0.025
DRAWS = 2000
# Weights of observations that nobody made: some of the kind that the end of the interval allows for, few of the other.
_ADDED, _HARDLY_ADDED = 0.5, 0.1


def labels_of(cases: Iterable[Case], judge: str, *, is_only: bool) -> list[tuple[Case, bool]]:
    """
    Return the answers that have a label for a judge, each once, with whether it passes.

    A label in the column ``human`` is about the text in the column ``human_answer``, or without it about the answer of
    the row.

    :param judge: Name of the rubric. With several judges, its column is ``human.<name>``.
    :param is_only: Whether there is only one judge, so that the column ``human`` must be about it.
    :raises AssistantInputError: A label is unclear, or could be about several judges.
    """
    labels: dict[tuple[str, str | None], tuple[Case, bool]] = {}
    own = f"{HUMAN}.{judge}"
    for case in cases:
        if not is_only and not is_blank(case.row.get(HUMAN)):
            raise AssistantInputError(
                f"question {case.key!r}: with several judges, the column {HUMAN} could be about any of them",
                todo=f"Name it {own!r}.",
                field=HUMAN,
            )
        column = own if own in case.row or not is_only else HUMAN
        if is_blank(case.row.get(column)):
            continue
        labelled = case.row.get(HUMAN_ANSWER)
        answer = case.answer if is_missing(labelled) else str(labelled)
        passes = _WORDS.get(str(case.row[column]).strip().lower())
        if passes is None:
            raise AssistantInputError(
                f"question {case.key!r}: {column} must be pass or fail, not {case.row[column]!r}", field=HUMAN
            )
        labels[case.key, answer] = replace(case, answer=answer), passes
    return list(labels.values())


def agreement(pairs: Iterable[tuple[bool, float]]) -> Agreement:
    """
    Return the agreement on these answers. The same pairs give the same interval, in any order.

    :param pairs: For each answer, whether it passes by the label of a person, and the judge's score from 0 to 1.
    """
    import numpy as np

    ordered = sorted((float(label), score) for label, score in pairs)
    if not ordered:
        return Agreement(labels=0)
    labels, scores = np.array(ordered).T
    kappa = float(_kappas(labels, scores, np.ones((1, len(ordered))))[0])
    if np.isnan(kappa):
        return Agreement(labels=len(ordered))
    low = min(_end(labels, scores, _TAIL, (_HARDLY_ADDED, _ADDED)), kappa)
    high = max(_end(labels, scores, 1 - _TAIL, (_ADDED, _HARDLY_ADDED)), kappa)
    if (labels == scores).all():
        high = 1.0
    return Agreement(labels=len(ordered), kappa=kappa, low=low, high=high)


def lower(found: Sequence[Agreement]) -> Agreement:
    """Return the agreement whose interval ends lowest: a judge may decide in several ways."""
    return min(found, key=lambda one: -2.0 if one.low is None else one.low)


def _end(
    labels: NDArray[np.float64], scores: NDArray[np.float64], quantile: float, added: tuple[float, float]
) -> float:
    """
    Return one end of the interval of kappa.

    A bootstrap of twenty labels without a disagreement never draws one, so its interval would be a point. So this is a
    Bayesian bootstrap over the answers and four that nobody has judged: two agreements, two disagreements.

    :param added: Weights of the two agreements, and of the two disagreements.
    """
    import numpy as np

    agreed, disagreed = added
    weights = np.concatenate([np.ones(len(labels)), [agreed, agreed, disagreed, disagreed]])
    generator = np.random.default_rng([len(labels), int(labels.sum()), round(float(scores.sum()) * 1e6)])
    drawn = generator.dirichlet(weights, size=DRAWS)
    all_labels = np.concatenate([labels, [0.0, 1.0, 0.0, 1.0]])
    all_scores = np.concatenate([scores, [0.0, 1.0, 1.0, 0.0]])
    return float(np.nanquantile(_kappas(all_labels, all_scores, drawn), quantile))


def _kappas(
    labels: NDArray[np.float64], scores: NDArray[np.float64], weights: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the kappa for each row of weights of the answers; nan where it is not defined."""
    import numpy as np

    total = weights.sum(axis=1)
    passed = weights @ labels / total
    mean = weights @ scores / total
    distance = weights @ abs(labels - scores) / total
    # The distance between a label and a score that belong to different answers.
    by_chance = passed * (1 - mean) + (1 - passed) * mean
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.where(by_chance > 0, 1 - distance / by_chance, np.nan))
