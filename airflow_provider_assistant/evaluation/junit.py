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
    rules_by_verdict = Counter(rule.verdict for rule in rules)
    counts = {
        "tests": str(len(rules)),
        "failures": str(rules_by_verdict["failed"]),
        "errors": "0",
        "skipped": str(rules_by_verdict["not_judged"]),
    }
    root = ElementTree.Element("testsuites", counts)
    suite = ElementTree.SubElement(root, "testsuite", {"name": legible(summary.name), **counts})
    if summary.asked_at:
        suite.set("timestamp", summary.asked_at)
    for rule in rules:
        names = {"name": legible(rule.rule), "classname": legible(summary.name)}
        test_case = ElementTree.SubElement(suite, "testcase", names)
        message = {"message": legible(rule.reason)}
        if rule.verdict == "failed":
            ElementTree.SubElement(test_case, "failure", message)
        elif rule.verdict == "not_judged":
            ElementTree.SubElement(test_case, "skipped", message)
    output = "\n".join(_output_lines(summary, evaluation.cases))
    ElementTree.SubElement(suite, "system-out").text = legible(output)
    ElementTree.indent(root)
    xml = ElementTree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{xml}\n'


def _output_lines(summary: Summary, cases: Sequence[Case]) -> list[str]:
    questions = summary.questions
    lines = [f"coverage {questions.coverage:.4g}: {questions.answered} of {questions.total} questions have an answer"]
    lines += [f"{name} {mean:.4g}" for name, mean in summary.means.items() if mean is not None]
    passes = summary.passes
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
