"""The verdict of a gate as JUnit XML, which continuous integration systems show."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from airflow_provider_assistant.evaluation.failing import FailingQuestion, failing_questions
from airflow_provider_assistant.evaluation.report.formats import legible
from airflow_provider_assistant.texts import counted, shortened

if TYPE_CHECKING:
    from airflow_provider_assistant.evaluation.case import Case
    from airflow_provider_assistant.evaluation.evaluate import Evaluation
    from airflow_provider_assistant.evaluation.summary import Summary

# Maximum number of failing questions, and of unanswered questions in the output of the suite.
QUESTIONS = 100
NAMED = 50
ANSWER_LENGTH = 1000


def junit_xml(evaluation: Evaluation) -> str:
    """
    Return the verdict as JUnit XML: a test case for each rule of the gate, and one for each failing question.

    The file has a failure exactly if the gate failed. If the gate passed although some questions fail, it tolerates
    them, and they are skipped test cases. A conversation is one test case. The output of the suite has the figures and
    the questions without an answer.
    """
    summary = evaluation.summary
    suite = ElementTree.Element("testsuite", {"name": legible(summary.name)})
    for rule in summary.gate.rules:
        test_case = _test_case(suite, rule.rule, summary.name)
        if rule.verdict == "failed":
            ElementTree.SubElement(test_case, "failure", {"message": legible(rule.reason), "type": rule.word})
        elif rule.verdict != "passed":
            ElementTree.SubElement(test_case, "skipped", {"message": legible(f"{rule.word}: {rule.reason}")})
    questions = failing_questions(evaluation, QUESTIONS)
    for question in questions.rows:
        name = question.key
        if len(question.turns) > 1:
            name += f" (conversation of {len(question.turns)} turns)"
        test_case = _test_case(suite, name, f"{summary.name}.questions")
        message = "; ".join(question.first.reasons) or "it decided a rule that failed"
        if question.is_new:
            message += "; it passed in the baseline"
        if summary.gate.verdict == "failed":
            failure = ElementTree.SubElement(test_case, "failure", {"message": legible(message), "type": "question"})
            failure.text = legible(_transcript(question))
        else:
            message = f"the gate tolerates it: {message}"
            ElementTree.SubElement(test_case, "skipped", {"message": legible(message)})
    counts = {
        "tests": str(len(suite)),
        "failures": str(len(suite.findall("testcase/failure"))),
        "errors": "0",
        "skipped": str(len(suite.findall("testcase/skipped"))),
    }
    suite.attrib.update(counts)
    if summary.asked_at:
        suite.set("timestamp", summary.asked_at)
    output = _output_lines(summary, evaluation.cases)
    if questions.more:
        output.append(f"{counted(questions.more, 'more question')} failing")
    ElementTree.SubElement(suite, "system-out").text = legible("\n".join(output))
    root = ElementTree.Element("testsuites", counts)
    root.append(suite)
    ElementTree.indent(root)
    xml = ElementTree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{xml}\n'


def _test_case(suite: ElementTree.Element, name: str, class_name: str) -> ElementTree.Element:
    names = {"name": legible(name), "classname": legible(class_name)}
    return ElementTree.SubElement(suite, "testcase", names)


def _transcript(question: FailingQuestion) -> str:
    """Return messages and answers as text."""
    lines = []
    for turn in question.turns:
        answer = turn.case.answer
        if answer is None:
            answer = "no answer"
        mark = " (fails)" if turn.reasons and len(question.turns) > 1 else ""
        lines.append(f"Question{mark}: {shortened(turn.case.message, ANSWER_LENGTH)}")
        lines.append(f"Answer: {shortened(answer, ANSWER_LENGTH)}")
    return "\n".join(lines)


def _output_lines(summary: Summary, cases: Sequence[Case]) -> list[str]:
    questions = summary.questions
    answered = f"{questions.answered} of {counted(questions.total, 'question')} answered"
    lines = [f"coverage {questions.coverage:.4g}: {answered}"]
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
