"""The verdict of a gate as JUnit XML, which continuous integration systems show."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree

from airflow_provider_assistant.evaluation.failing import FailingQuestion, failing_questions
from airflow_provider_assistant.evaluation.report import legible
from airflow_provider_assistant.texts import counted, shortened

if TYPE_CHECKING:
    from airflow_provider_assistant.evaluation.run import Evaluation

# Most failing questions, and most characters of an answer.
QUESTIONS, LENGTH = 100, 1000


def junit_xml(evaluation: Evaluation) -> str:
    """
    Return the verdict as JUnit XML: a test case for each rule of the gate and each failing question.

    The file has a failure exactly if the gate failed: questions that the gate tolerates are skipped test cases.
    """
    summary = evaluation.summary
    suite = ElementTree.Element("testsuite", {"name": legible(summary.name)})
    for rule in summary.gate.rules:
        test_case = _test_case(suite, rule.rule, summary.name)
        if rule.verdict == "failed":
            ElementTree.SubElement(test_case, "failure", {"message": legible(rule.reason), "type": rule.word})
        elif rule.verdict != "passed":
            ElementTree.SubElement(test_case, "skipped", {"message": legible(f"{rule.word}: {rule.reason}")})
    questions, more = failing_questions(evaluation, QUESTIONS)
    for question in questions:
        test_case = _test_case(suite, question.key, f"{summary.name}.questions")
        message = question.reasons + ("; it passed before" if question.is_new else "")
        if summary.gate.verdict == "failed":
            failure = ElementTree.SubElement(test_case, "failure", {"message": legible(message), "type": "question"})
            failure.text = legible(_transcript(question))
        else:
            skipped = {"message": legible(f"the gate tolerates it: {message}")}
            ElementTree.SubElement(test_case, "skipped", skipped)
    counts = {
        "tests": str(len(suite)),
        "failures": str(len(suite.findall("testcase/failure"))),
        "errors": "0",
        "skipped": str(len(suite.findall("testcase/skipped"))),
    }
    suite.attrib.update(counts)
    if summary.asked_at:
        suite.set("timestamp", summary.asked_at)
    output = [f"{summary.questions.answered} of {counted(summary.questions.total, 'question')} answered"]
    output += [f"{name} {figure.value:.4g}" for name, figure in summary.figures.items() if figure.value is not None]
    if more:
        output.append(f"{counted(more, 'more question')} failing")
    ElementTree.SubElement(suite, "system-out").text = legible("\n".join(output))
    root = ElementTree.Element("testsuites", counts)
    root.append(suite)
    ElementTree.indent(root)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ElementTree.tostring(root, encoding="unicode")}\n'


def _test_case(suite: ElementTree.Element, name: str, class_name: str) -> ElementTree.Element:
    names = {"name": legible(name), "classname": legible(class_name)}
    return ElementTree.SubElement(suite, "testcase", names)


def _transcript(question: FailingQuestion) -> str:
    lines = []
    for turn in question.turns:
        lines.append(f"Question: {shortened(turn.case.message, LENGTH)}")
        lines.append(f"Answer: {shortened(turn.case.answer or 'none', LENGTH)}")
    return "\n".join(lines)
