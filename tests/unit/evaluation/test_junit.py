"""The verdict as JUnit XML."""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree

import pytest
from junitparser import Failure, JUnitXml, Skipped

from airflow_provider_assistant.evaluation.junit import junit_xml
from tests.unit.evaluation.report.examples import hostile, nightly


def suite_of(evaluation):
    (suite,) = JUnitXml.fromstring(junit_xml(evaluation).encode())
    return suite


@pytest.mark.promise("evaluation", "JUnit has a test case per rule and failing question, and fails as the gate does.")
def test_rules_and_failing_questions_are_test_cases():
    suite = suite_of(nightly())
    kinds = {case.name: [type(result) for result in case.result] for case in suite}
    assert kinds["coverage >= 0.98"] == []
    assert kinds["token_f1 drop <= 0.02"] == [Failure]
    assert kinds["judge.correctness >= 0.9"] == [Skipped]
    assert kinds["q1"] == [Failure]
    question = next(case for case in suite if case.name == "q1").result[0]
    assert "it passed before" in question.message
    assert "Answer: I do not know where it is." in question.text
    assert (suite.tests, suite.errors) == (len(kinds), 0)
    assert suite.failures == sum(results == [Failure] for results in kinds.values()) == 3
    printed = ElementTree.fromstring(junit_xml(nightly())).findtext("testsuite/system-out")
    assert "token_f1 0.8" in printed


def test_questions_that_the_gate_tolerates_are_skipped():
    evaluation = nightly()
    gate = evaluation.summary.gate.model_copy(update={"verdict": "passed", "rules": []})
    summary = evaluation.summary.model_copy(update={"gate": gate})
    suite = suite_of(replace(evaluation, summary=summary))
    assert suite.failures == 0
    assert suite.skipped == suite.tests > 0


def test_any_text_makes_valid_xml():
    assert suite_of(hostile()).tests > 20
