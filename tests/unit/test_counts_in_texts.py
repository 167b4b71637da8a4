"""A count in a text agrees with its noun, and every sentence ends with one full stop."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

import airflow_provider_assistant
from airflow_provider_assistant.asking.answers import STATUSES
from airflow_provider_assistant.error import sentence
from airflow_provider_assistant.exceptions import AssistantConnectionError
from airflow_provider_assistant.loading.counts import LoadCounts
from airflow_provider_assistant.loading.findings import Finding, FindingsFile
from airflow_provider_assistant.loading.options import LoadOptions
from airflow_provider_assistant.loading.run import drafts_warning, load_failure, load_progress
from airflow_provider_assistant.operators.batch_counts import batch_failure
from airflow_provider_assistant.source_account import LeftOut
from airflow_provider_assistant.texts import counted

PACKAGE = Path(airflow_provider_assistant.__file__).parent
NOUNS = (
    "answers|articles|attempts|chunks|columns|documents|entries|files|items|keys|labels|metrics|pages|partitions|polls|"
    "questions|ratings|requests|rows|rules|scorers|sessions|sites|tokens|values|verdicts"
)
ADJECTIVES = "ambiguous|changed|consecutive|created|duplicate|earlier|matched|more|new|other|outdated|superseded"
# A number of an f-string or of a log line before a plural, and "row(s)".
FIXED_PLURAL = re.compile(
    r"(?:\{(?!counted\(|verb)[^{}]*[a-z][^{}]*\}|%d) "
    rf"(?:(?:{ADJECTIVES}) )?(?:{NOUNS})\b(?! [\d{{])"
    r"|\w\(e?s\)[ .,;:'\"]"
)
COUNTS = (0, 1, 2, 1000)


def test_a_number_agrees_with_its_noun():
    assert [counted(number, "row") for number in COUNTS] == ["0 rows", "1 row", "2 rows", "1,000 rows"]
    assert [counted(number, "entry is", "entries are") for number in (1, 2)] == ["1 entry is", "2 entries are"]


def test_every_count_in_a_text_uses_the_helper():
    found = []
    for path in PACKAGE.rglob("*.py"):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if FIXED_PLURAL.search(line) and "sandbox" not in path.parts:
                found.append(f"{path.relative_to(PACKAGE)}:{number}: {line.strip()}")
    assert not found


def said_by_loads(count: int, other: int, *, on_ambiguous: str) -> list[object]:
    """Return what a load says whose counts are all one of two numbers."""
    counts = LoadCounts(rows=count + other, created=count, requests=1, drafts=count)
    texts: list[object] = [counts]
    for name in ("failed", "ambiguous", "rejected", "not_activated", "not_removed", "unchanged", "skipped"):
        changed = replace(counts, **{name: other})
        for states in ((), ("created",) * min(count, other, 2), ("created", "unknown", "unknown")):
            unrecorded = [_Outcome(state) for state in states]
            load = _Load(changed, LoadOptions(on_ambiguous=on_ambiguous), unrecorded, min(other, 2))
            texts += [load_progress(load), load_failure(load), drafts_warning(load)]
    return texts


@dataclass
class _Outcome:
    state: str


@dataclass
class _Load:
    """What a message reads of a load."""

    counts: LoadCounts
    options: LoadOptions
    unrecorded: list[_Outcome]
    left_to_others: int
    cause = AssistantConnectionError("away")
    is_unreadable = False
    findings = FindingsFile(Path("f.parquet"))
    findings.add(Finding("stale", "key", "is gone"))


def said_by_batches(count: int, other: int) -> list[object]:
    texts: list[object] = []
    for status in STATUSES:
        result = dict.fromkeys([*STATUSES, "rejected", "ambiguous"], 0) | {
            "complete": count,
            "output_path": "a.parquet",
        }
        result[status] = other
        result["rows"] = sum(result[each] for each in STATUSES)
        texts.append(batch_failure(result, 0, "retry", reason="The service is away."))
    return texts


def said_by_others(count: int, other: int) -> list[object]:
    return [LeftOut("row", "is empty", is_expected=True, count=number) for number in (count, other)]


@pytest.mark.parametrize("on_ambiguous", ["retry", "skip"])
def test_texts_are_right_for_every_count(on_ambiguous):
    for count, other in itertools.product(COUNTS, COUNTS):
        texts = said_by_loads(count, other, on_ambiguous=on_ambiguous)
        texts += said_by_batches(count, other) + said_by_others(count, other)
        for text in texts:
            parts = text if isinstance(text, tuple) else (text or "",)
            for part in parts:
                assert not problems(str(part)), part


def problems(text: str) -> list[str]:
    """Return what is wrong with a text."""
    patterns = {
        "a plural after 1": r"(?<![\d,.])1 (?:\w+ )?(?:rows|documents|questions|requests|keys|entries|are|were|have)\b",
        "a singular after another number": r"\b(?:0|2|1,000) (?:row|document|question|request|key|entry|is|was|has)\b",
        "a number without its separator": r"\b1000 [a-z]",
        "two full stops, or none between sentences": r"\.\.|[a-z] (?:Airflow|The|A retry) (?:does|next|sends)\b",
        "a value that is missing": r"\bNone\b(?! of)|\(s\)|\{[a-z_.]+\}",
    }
    return [name for name, pattern in patterns.items() if re.search(pattern, text)]


def test_the_checks_find_what_is_wrong():
    for wrong in ("1 rows failed", "2 row is left", "1000 rows", "It failed.. Again", "row(s)", "in None"):
        assert problems(wrong), wrong
    assert sentence("It failed.") == sentence("It failed") == "It failed."
