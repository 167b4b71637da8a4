"""Buttons at a task; Airflow asks for their addresses when the task has ended or defers, whatever its state."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

from airflow.providers.common.compat.sdk import BaseOperatorLink, ObjectStoragePath


class AssistantReportLink(BaseOperatorLink):
    """The report of an evaluation."""

    name = "Evaluation report"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:  # noqa: ARG002
        """
        Return the report's address.

        :param operator: The task.
        :param ti_key: Its instance.
        :return: A URL, or an empty string if the task came to no report.
        """
        report: ObjectStoragePath | None = getattr(operator, "report", None)
        return _address(report) if report else ""


class AssistantDataLink(BaseOperatorLink):
    """The data that a task wrote: the folder of a dataset, or the file of answers."""

    name = "Data"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:  # noqa: ARG002
        """
        Return the address of the data.

        :param operator: The task.
        :param ti_key: Its instance.
        :return: A URL, or an empty string if the task wrote nothing.
        """
        written = getattr(operator, "written", ())
        return _address(ObjectStoragePath(written[-1].uri)) if written else ""


class AssistantRequestLink(BaseOperatorLink):
    """The async chat request that a task submitted, at the service, which wants the API key to show it."""

    name = "Chat request"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:  # noqa: ARG002
        """
        Return the request's address.

        :param operator: The task.
        :param ti_key: Its instance.
        :return: A URL, or an empty string if nothing was submitted.
        """
        request_id = getattr(operator, "request_id", None)
        return f"{operator.hook.target()}/chat/requests/{quote(request_id, safe='')}" if request_id else ""


def _address(path: ObjectStoragePath) -> str:
    return Path(path.path).absolute().as_uri() if path.protocol in {"file", ""} else str(path)
