"""The findings of a batch: questions that were not asked, or may have been asked twice."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import cast, get_args

from airflow_provider_assistant.asking.questions import Questions
from airflow_provider_assistant.asking.state import End, Request
from airflow_provider_assistant.loading.findings import Finding, FindingsFile, Kind
from airflow_provider_assistant.storage.opening import StoragePath

_MAYBE_SECOND = "an earlier attempt may have asked it as well"


def write_findings(
    path: StoragePath,
    questions: Questions,
    requests: Mapping[str, Request],
    ends: Mapping[str, End],
    maybe_second: Collection[str],
    dag_id: str,
) -> str | None:
    """
    Write the findings, or delete those of an earlier run.

    :param maybe_second: Ids of the questions that may have been asked twice.
    :return: Their path; None if there are none.
    """
    with FindingsFile(path, always=False, dag_id=dag_id) as file:
        for finding in _findings(questions, requests, ends, maybe_second):
            file.add(finding)
    if not file.count:
        path.unlink(missing_ok=True)
    return file.listed


def _findings(
    questions: Questions, requests: Mapping[str, Request], ends: Mapping[str, End], maybe_second: Collection[str]
) -> Iterator[Finding]:
    listed = set()
    for question in questions.rows:
        if question.question_id in listed:
            continue
        listed.add(question.question_id)
        request = requests.get(question.question_id)
        end = ends.get(question.question_id)
        if question.question_id in maybe_second:
            ids = [request.request_id] if request and request.request_id else []
            yield Finding("possibly_duplicated", question.label, _MAYBE_SECOND, question.row, ids)
        if end and end.status == "not_submitted" and end.error:
            kind, _, reason = end.error.partition(": ")
            if kind in get_args(Kind):
                yield Finding(cast("Kind", kind), question.label, reason, question.row)
