"""The verdict of a gate as JUnit XML, which continuous integration systems show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from airflow_provider_assistant.evaluation.report.formats import legible

if TYPE_CHECKING:
    from airflow_provider_assistant.evaluation.case import Case
    from airflow_provider_assistant.evaluation.evaluate import Evaluation
    from airflow_provider_assistant.evaluation.summary import Summary

# Maximum number of unanswered questions in the output of the suite.
NAMED = 50


def junit_xml(evaluation: Evaluation) -> str:
    """
    Return the verdict as JUnit XML: one test case per rule of the gate.

    The file has a failure exactly if the gate failed. So questions are not test cases: a gate usually tolerates some
    that do not pass. The output of the suite has the figures and the questions without an answer.
    """
    summary = evaluation.summary
    rules = summary.gate.rules
    verdicts = Counter(rule.verdict for rule in rules)
    counts = {
        "tests": str(len(rules)),
        "failures": str(verdicts["failed"]),
        "errors": "0",
        "skipped": str(verdicts["not_judged"]),
    }
    root = ElementTree.Element("testsuites", counts)
    suite = ElementTree.SubElement(root, "testsuite", {"name": legible(summary.name), **counts})
    if summary.asked_at:
        suite.set("timestamp", summary.asked_at)
    for rule in rules:
        name = {"name": legible(rule.rule), "classname": legible(summary.name)}
        test = ElementTree.SubElement(suite, "testcase", name)
        if rule.verdict != "passed":
            kind = "failure" if rule.verdict == "failed" else "skipped"
            ElementTree.SubElement(test, kind, {"message": legible(rule.reason)})
    output = "\n".join(_lines(summary, evaluation.cases))
    ElementTree.SubElement(suite, "system-out").text = legible(output)
    ElementTree.indent(root)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ElementTree.tostring(root, encoding="unicode")}\n'


def _lines(summary: Summary, cases: Sequence[Case]) -> list[str]:
    questions, passes = summary.questions, summary.passes
    lines = [f"coverage {questions.coverage:.4g}: {questions.answered} of {questions.total} questions have an answer"]
    lines += [f"{name} {mean:.4g}" for name, mean in summary.means.items() if mean is not None]
    if passes:
        lines.append(
            f"{passes.passed} passed, {passes.failed} failed, {passes.not_judged} not judged: {passes.condition}"
        )
    unanswered = [case for case in cases if case.answer is None]
    for case in unanswered[:NAMED]:
        lines.append(f"{case.key}: {case.status}: {case.error or 'no reason known'}")
    if len(unanswered) > NAMED:
        lines.append(f"and {len(unanswered) - NAMED} more")
    return lines
