"""The gate file of ``airflow assistant evaluate``: arguments of the operator, in YAML."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from airflow_provider_assistant.evaluation.criteria import DEFAULT_SCORERS, Criteria, parse_criteria
from airflow_provider_assistant.evaluation.scorers import Scorer, scorers_of
from airflow_provider_assistant.exceptions import NOTHING_SENT, AssistantInputError
from airflow_provider_assistant.operators.judging import JudgeTask

FIELDS = ("scorers", "judge", "pass_if", "gate")


@dataclass(frozen=True, slots=True)
class GateFile:
    """
    The content of a gate file.

    :param criteria: Condition for passing, and rules.
    :param judges: The judges among the scorers.
    """

    scorers: list[Scorer]
    criteria: Criteria
    judges: JudgeTask


def read_gate(path: str | None, *, has_baseline: bool) -> GateFile:
    """
    Read a gate file: a mapping with ``scorers``, ``judge``, ``pass_if`` and ``gate``, as the arguments of the operator.

    :param path: The file; None for the default scorers without rules.
    :raises AssistantInputError: The file is not such a mapping, or a scorer, the condition or a rule is invalid.
    """
    import yaml

    content: Any = {}
    if path is not None:
        try:
            content = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
        except OSError as error:
            raise AssistantInputError(
                f"--gate {path}: it cannot be read: {error.strerror}", safe=NOTHING_SENT, field="--gate"
            ) from error
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            raise AssistantInputError(f"--gate {path}: not YAML: {error}", field="--gate") from error
    problem = None
    if not isinstance(content, dict):
        problem = "not a mapping"
    elif not set(content) <= set(FIELDS):
        problem = f"unknown fields {', '.join(sorted(set(map(str, content)) - set(FIELDS)))}"
    if problem:
        raise AssistantInputError(
            f"--gate {path}: {problem}", todo=f"A gate file has {', '.join(FIELDS)}.", field="--gate"
        )
    scorers = scorers_of(content.get("scorers") or DEFAULT_SCORERS)
    names = [scorer.name for scorer in scorers]
    criteria = parse_criteria(content.get("pass_if"), content.get("gate") or [], names, has_baseline=has_baseline)
    return GateFile(scorers, criteria, JudgeTask(content.get("judge"), names))
