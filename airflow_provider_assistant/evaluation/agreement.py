"""
The agreement of a judge with people.

Cohen's kappa is measured on what decides: the score itself, or whether it fulfils the condition of ``pass_if``. For
scores between 0 and 1 it is the kappa with linear weights, which equals Cohen's for 0 and 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from airflow_provider_assistant.evaluation.arrays import Floats, np
from airflow_provider_assistant.evaluation.summary import Agreement

# Ends of the interval of 95 %.
_TAIL = 0.025
DRAWS = 2000
# Weights of observations that nobody made: some of the kind that the end of the interval allows for, few of the other.
_ADDED, _HARDLY_ADDED = 0.5, 0.1


def agreement(pairs: Iterable[tuple[bool, float]]) -> Agreement:
    """
    Return the agreement on these answers. The same pairs give the same interval, in any order.

    :param pairs: For each answer, whether it passes by the label of a person, and the judge's score from 0 to 1.
    """
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


def _end(labels: Floats, scores: Floats, quantile: float, added: tuple[float, float]) -> float:
    """
    Return one end of the interval of kappa.

    A bootstrap of twenty labels without a disagreement never draws one, so its interval would be a point. So this is a
    Bayesian bootstrap over the answers and four that nobody has judged: two agreements, two disagreements.

    :param added: Weights of the two agreements, and of the two disagreements.
    """
    agreed, disagreed = added
    weights = np.concatenate([np.ones(len(labels)), [agreed, agreed, disagreed, disagreed]])
    generator = np.random.default_rng([len(labels), int(labels.sum()), round(float(scores.sum()) * 1e6)])
    drawn = generator.dirichlet(weights, size=DRAWS)
    all_labels = np.concatenate([labels, [0.0, 1.0, 0.0, 1.0]])
    all_scores = np.concatenate([scores, [0.0, 1.0, 1.0, 0.0]])
    return float(np.nanquantile(_kappas(all_labels, all_scores, drawn), quantile))


def _kappas(labels: Floats, scores: Floats, weights: Floats) -> Floats:
    """Return the kappa for each row of weights of the answers; nan where it is not defined."""
    total = weights.sum(axis=1)
    passed = weights @ labels / total
    mean = weights @ scores / total
    distance = weights @ abs(labels - scores) / total
    # The distance between a label and a score that belong to different answers.
    by_chance = passed * (1 - mean) + (1 - passed) * mean
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.where(by_chance > 0, 1 - distance / by_chance, np.nan))
