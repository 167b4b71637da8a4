"""What passes or fails as one: a question, or a conversation with all its turns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from airflow_provider_assistant.evaluation.case import Case, Identity
from airflow_provider_assistant.evaluation.scored import Passed


@dataclass(frozen=True, slots=True)
class Unit:
    """
    A question, or a conversation with all its turns.

    :param key: Key of the question, or of the first turn.
    :param digests: Content hash of the question, or of each turn, by key.
    :param weight: Sum of the weights.
    :param tags: All tags.
    """

    key: str
    digests: Mapping[str, str]
    weight: float
    tags: frozenset[str]


def units_of(cases: Iterable[Case]) -> list[Unit]:
    """Return the units in the order of the cases. All repetitions of a question are one unit."""
    cases_by_unit: dict[str, dict[str, Case]] = {}
    for case in cases:
        cases_by_unit.setdefault(case.unit, {})[case.key] = case
    units = []
    for key, turns in cases_by_unit.items():
        tags: set[str] = set()
        for turn in turns.values():
            tags.update(turn.tags)
        unit = Unit(
            key=key,
            digests={turn.key: turn.digest for turn in turns.values()},
            weight=sum(turn.weight for turn in turns.values()),
            tags=frozenset(tags),
        )
        units.append(unit)
    return units


def passed_units(passed: Passed, units: Sequence[Unit]) -> Passed:
    """
    Return whether each unit passes in each repetition: a conversation passes if all its turns pass.

    :param passed: Whether each answer passes, or None if it cannot be judged. Those of other questions are ignored.
    """
    unit_by_key = {key: unit.key for unit in units for key in unit.digests}
    found: dict[Identity, bool | None] = {}
    for (key, repetition), verdict in passed.items():
        if key in unit_by_key:
            identity = (unit_by_key[key], repetition)
            found[identity] = _both(found.get(identity, True), verdict)
    return found


def _both(first: bool | None, second: bool | None) -> bool | None:
    """Return whether two turns pass; None if one of them is not judged and none fails."""
    if first is False or second is False:
        return False
    return None if first is None or second is None else True
