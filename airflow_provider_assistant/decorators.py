"""Task decorators: ``@task.assistant_qa`` loads what a function returns, ``@task.assistant_ask`` asks it."""

from __future__ import annotations

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

from airflow_provider_assistant.operators.ask import AssistantAskOperator
from airflow_provider_assistant.operators.documents import AssistantLoadQAOperator


class _SourceOperator(DecoratedOperator):
    """
    Calls a function and gives what it returns to the operator behind it, as its source.

    :param python_callable: The function.
    :param op_args: Its positional arguments.
    :param op_kwargs: Its keyword arguments; Airflow's context adds what the function asks for.
    """

    # So that the UI shows what the function returned, and not the function.
    overwrite_rtif_after_execution = True

    def __init__(self, *, python_callable: Callable[..., Any], **kwargs: Any) -> None:
        super().__init__(python_callable=python_callable, source=python_callable, **kwargs)

    def execute(self, context: Context) -> Any:
        context_merge(context, self.op_kwargs)
        kwargs = determine_kwargs(self.python_callable, self.op_args, context)
        self.source = self.python_callable(*self.op_args, **kwargs)
        return super().execute(context)


class _LoadQADecoratedOperator(_SourceOperator, AssistantLoadQAOperator):
    template_fields: Sequence[str] = (*DecoratedOperator.template_fields, *AssistantLoadQAOperator.template_fields)
    template_fields_renderers: ClassVar[dict[str, str]] = DecoratedOperator.template_fields_renderers
    custom_operator_name = "@task.assistant_qa"


class _AskDecoratedOperator(_SourceOperator, AssistantAskOperator):
    template_fields: Sequence[str] = (*DecoratedOperator.template_fields, *AssistantAskOperator.template_fields)
    template_fields_renderers: ClassVar[dict[str, str]] = DecoratedOperator.template_fields_renderers
    custom_operator_name = "@task.assistant_ask"


def assistant_qa_task(python_callable: Callable[..., Any] | None = None, **kwargs: Any) -> TaskDecorator:
    """
    Load the rows that a function returns, as ``@task.assistant_qa``.

    :param python_callable: Returns or yields what ``source`` of
        :class:`~airflow_provider_assistant.operators.documents.AssistantLoadQAOperator` takes.
    :param kwargs: The other arguments of that operator.
    """
    return _decorator(_LoadQADecoratedOperator, python_callable, kwargs)


def assistant_ask_task(python_callable: Callable[..., Any] | None = None, **kwargs: Any) -> TaskDecorator:
    """
    Ask the questions that a function returns, as ``@task.assistant_ask``.

    :param python_callable: Returns or yields what ``source`` of
        :class:`~airflow_provider_assistant.operators.ask.AssistantAskOperator` takes.
    :param kwargs: The other arguments of that operator.
    """
    return _decorator(_AskDecoratedOperator, python_callable, kwargs)


def _decorator(
    operator: type[_SourceOperator], python_callable: Callable[..., Any] | None, kwargs: dict[str, Any]
) -> TaskDecorator:
    # What a task returns are counts, whatever the function is annotated with.
    arguments = {"multiple_outputs": True, **kwargs}
    return task_decorator_factory(python_callable=python_callable, decorated_operator_class=operator, **arguments)
