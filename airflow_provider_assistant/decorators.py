"""Task decorators: ``@task.assistant_qa`` loads rows, ``@task.assistant_chat_batch`` asks questions."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from airflow.providers.common.compat.sdk import (
    Context,
    DecoratedOperator,
    TaskDecorator,
    context_merge,
    task_decorator_factory,
)

try:
    from airflow.providers.common.compat.sdk import determine_kwargs
except ImportError:  # before common-compat 1.14.1
    from airflow.utils.operator_helpers import determine_kwargs  # type: ignore[attr-defined]  # Airflow 3.3 re-exports it

from airflow_provider_assistant.operators.chat_batch import AssistantChatBatchOperator
from airflow_provider_assistant.operators.documents import AssistantLoadQAOperator


class _SourceOperator(DecoratedOperator):
    """
    Call a function when the task runs, and pass its return value to the operator as ``source``.

    :param python_callable: The function.
    :param op_args: Positional arguments of the function.
    :param op_kwargs: Keyword arguments of the function. Airflow adds the context values that the function accepts.
    """

    # The UI then shows the return value of the function instead of the function.
    overwrite_rtif_after_execution = True

    def __init__(self, *, python_callable: Callable[..., Any], **kwargs: Any) -> None:
        super().__init__(python_callable=python_callable, source=python_callable, **kwargs)

    def execute(self, context: Context) -> Any:
        self.source = self._call_function(context)
        return super().execute(context)

    def execute_complete(self, context: Context, event: Any = None, *args: Any, **kwargs: Any) -> Any:
        # A load calls this, to plan its rows again. A batch keeps its questions, and calls it where they are gone.
        self.source = functools.partial(self._call_function, context)
        return super().execute_complete(context, event, *args, **kwargs)  # type: ignore[misc]  # that of the operator

    def _call_function(self, context: Context) -> Any:
        """Call the function with its arguments, and return its rows."""
        context_merge(context, self.op_kwargs)
        kwargs = determine_kwargs(self.python_callable, self.op_args, context)
        rows = self.python_callable(*self.op_args, **kwargs)
        if inspect.iscoroutine(rows):
            return asyncio.run(rows)
        return rows


class _LoadQADecoratedOperator(_SourceOperator, AssistantLoadQAOperator):
    template_fields: Sequence[str] = (*DecoratedOperator.template_fields, *AssistantLoadQAOperator.template_fields)
    template_fields_renderers: ClassVar[dict[str, str]] = DecoratedOperator.template_fields_renderers
    custom_operator_name = "@task.assistant_qa"


class _ChatBatchDecoratedOperator(_SourceOperator, AssistantChatBatchOperator):
    template_fields: Sequence[str] = (*DecoratedOperator.template_fields, *AssistantChatBatchOperator.template_fields)
    template_fields_renderers: ClassVar[dict[str, str]] = DecoratedOperator.template_fields_renderers
    custom_operator_name = "@task.assistant_chat_batch"


def assistant_qa_task(python_callable: Callable[..., Any] | None = None, **kwargs: Any) -> TaskDecorator:
    """
    Create one question-and-answer document per row that the function returns (``@task.assistant_qa``).

    The function runs on the worker. Each call of the decorated function makes a task of
    :class:`~airflow_provider_assistant.operators.documents.AssistantLoadQAOperator`, which sends each row once
    (``POST …/documents/qa``) and returns the counts of the load.

    .. seealso::
        For more information on how to use this decorator, take a look at the guide:
        :doc:`/load/load-dataframe`

    :param python_callable: Function, also ``async def``, that returns the rows, or yields batches of rows: a dataframe,
        a list of mappings, or paths of Parquet, CSV or JSON files. Set by Airflow when the decorator is used without
        arguments.
    :param kwargs: Any argument of
        :class:`~airflow_provider_assistant.operators.documents.AssistantLoadQAOperator` except ``source``, such as
        ``columns``, ``key_columns`` or ``assistant_conn_id``; and ``task_id``, ``retries`` and other arguments of
        Airflow's operators.
    :return: The decorator, or the decorated function.
    """
    return _decorator(_LoadQADecoratedOperator, python_callable, kwargs)


def assistant_chat_batch_task(python_callable: Callable[..., Any] | None = None, **kwargs: Any) -> TaskDecorator:
    """
    Ask the questions that the function returns (``@task.assistant_chat_batch``) and write the answers to Parquet.

    The function runs on the worker. Each call of the decorated function makes a task of
    :class:`~airflow_provider_assistant.operators.chat_batch.AssistantChatBatchOperator`, which asks each question once
    (``POST …/chat/async``) and returns the counts of the batch and ``output_path``.

    .. seealso::
        For more information on how to use this decorator, take a look at the guide:
        :doc:`/ask/chat-batch`

    :param python_callable: Function, also ``async def``, that returns the questions, or yields batches of questions: a
        dataframe, a list of mappings, or paths of Parquet, CSV or JSON files, with a column ``message``. Set by Airflow
        when the decorator is used without arguments.
    :param kwargs: Any argument of :class:`~airflow_provider_assistant.operators.chat_batch.AssistantChatBatchOperator`
        except ``source``; ``output_path`` is required. Also ``task_id``, ``retries`` and other arguments of Airflow's
        operators.
    :return: The decorator, or the decorated function.
    """
    return _decorator(_ChatBatchDecoratedOperator, python_callable, kwargs)


def _decorator(
    operator: type[_SourceOperator], python_callable: Callable[..., Any] | None, kwargs: dict[str, Any]
) -> TaskDecorator:
    # The task returns a dict of counts, whatever the return annotation of the function is.
    arguments = {"multiple_outputs": True, **kwargs}
    return task_decorator_factory(python_callable=python_callable, decorated_operator_class=operator, **arguments)
