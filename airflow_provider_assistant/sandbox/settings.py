"""The settings of the sandbox. Each field is also a command-line flag and an environment variable."""

import argparse
import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, NamedTuple, Self, get_type_hints

from airflow_provider_assistant.sandbox.actions import Action

ENV_PREFIX = "ASSISTANT_SANDBOX_"
_MAX_HISTORY = 366


def _number(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(text)
    return value


def _is_count(value: object) -> bool:
    """Return whether a value is a positive integer or None; it may come from JSON."""
    return value is None or (isinstance(value, int) and not isinstance(value, bool) and value > 0)


class _Flag(NamedTuple):
    """The command-line flag and environment variable of a setting."""

    parse: Callable[[str], Any]
    unit: str
    help: str


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Hold the settings of the sandbox. Values are validated on creation.

    :param host: address to listen on.
    :param port: port to listen on; 0 lets the operating system pick one.
    :param data: directory of the SQLite file. ``None`` keeps everything in memory.
    :param latency: seconds added to every API request.
    :param rate_limit: requests per second and key. ``None`` sets no limit.
    :param rate_burst: number of requests that a key may send at once. Default: one second's worth.
    :param fault_rate: share of the API requests that get ``fault_status``, from 0 to 1.
    :param fault_status: a status or an action such as ``drop`` or ``store-then-drop``.
    :param seed: seed of the random choice of faults and of the generated history.
    :param processing_seconds: duration of an async request in seconds; half of it in the queue.
    :param fail_messages: regular expression; chat requests whose message matches it fail.
    :param min_relevance: share of a question's content words that a document must contain to answer it.
    :param answer_limit: maximum number of characters of an answer. ``None`` sets no limit.
    :param short_answer_rate: share of the answers that end after their first sentence, from 0 to 1.
    :param judge_position_bias: what the judge adds to the score of the first of two answers, from -1 to 1.
    :param documents_quota: maximum number of documents of a tenant. ``None`` uses the plan's.
    :param messages_quota: maximum number of chat messages of a tenant per month. ``None`` uses the plan's.
    :param history: number of days, including today, in the statistics reply; days before the first stored entry of a
        site are generated. 0 omits the list.
    """

    host: Annotated[str, _Flag(str, "ADDRESS", "address to listen on")] = "127.0.0.1"
    port: Annotated[int, _Flag(int, "PORT", "port to listen on; 0 lets the system pick one")] = 8089
    data: Annotated[Path | None, _Flag(Path, "DIR", "directory of the SQLite file")] = None
    latency: Annotated[float, _Flag(_number, "SECONDS", "delay of every API request")] = 0.0
    rate_limit: Annotated[float | None, _Flag(_number, "PER_SECOND", "requests allowed per key")] = None
    rate_burst: Annotated[int | None, _Flag(int, "REQUESTS", "requests allowed per key at once")] = None
    fault_rate: Annotated[float, _Flag(_number, "FRACTION", "share of requests that fail, 0 to 1")] = 0.0
    fault_status: Annotated[str, _Flag(str, "STATUS", "status of failures, or an action")] = "503"
    seed: Annotated[int, _Flag(int, "NUMBER", "seed of faults and history")] = 0
    processing_seconds: Annotated[float, _Flag(_number, "SECONDS", "duration of an async request")] = 0.5
    fail_messages: Annotated[str | None, _Flag(str, "REGEX", "chat messages that fail")] = None
    min_relevance: Annotated[float, _Flag(_number, "FRACTION", "minimum relevance of a document")] = 0.3
    answer_limit: Annotated[int | None, _Flag(int, "CHARACTERS", "maximum length of an answer")] = None
    short_answer_rate: Annotated[float, _Flag(_number, "FRACTION", "share of answers cut to one sentence")] = 0.0
    judge_position_bias: Annotated[float, _Flag(_number, "SCORE", "lead of the first of two judged answers")] = 0.0
    documents_quota: Annotated[int | None, _Flag(int, "COUNT", "documents allowed per tenant")] = None
    messages_quota: Annotated[int | None, _Flag(int, "COUNT", "messages per tenant and month")] = None
    history: Annotated[int, _Flag(int, "DAYS", "days of statistics, generated before the first data")] = 0

    def __post_init__(self) -> None:
        for name, right, demand in (
            ("host", bool(self.host), "must not be empty"),
            ("port", 0 <= self.port <= 65535, "must be between 0 and 65535"),
            ("latency", self.latency >= 0, "must not be negative"),
            ("rate_limit", self.rate_limit is None or self.rate_limit > 0, "must be positive"),
            ("rate_burst", self.rate_burst is None or self.rate_burst >= 1, "must be at least 1"),
            ("fault_rate", 0 <= self.fault_rate <= 1, "must be between 0 and 1"),
            ("processing_seconds", self.processing_seconds >= 0, "must not be negative"),
            ("min_relevance", 0 < self.min_relevance <= 1, "must be above 0 and at most 1"),
            ("answer_limit", _is_count(self.answer_limit), "must be a whole number above 0"),
            ("short_answer_rate", 0 <= self.short_answer_rate <= 1, "must be between 0 and 1"),
            ("judge_position_bias", -1 <= self.judge_position_bias <= 1, "must be between -1 and 1"),
            ("documents_quota", (self.documents_quota or 0) >= 0, "must not be negative"),
            ("messages_quota", (self.messages_quota or 0) >= 0, "must not be negative"),
            ("history", 0 <= self.history <= _MAX_HISTORY, f"must be between 0 and {_MAX_HISTORY}"),
        ):
            if not right:
                raise ValueError(f"{name} {demand}, not {getattr(self, name)!r}")
        if self.rate_burst is not None and self.rate_limit is None:
            raise ValueError("rate_burst needs rate_limit")
        if self.data is not None and self.data.exists() and not self.data.is_dir():
            raise ValueError(f"data must be a directory, not {str(self.data)!r}")
        try:
            re.compile(self.fail_messages or "")
        except re.error as error:
            raise ValueError(f"fail_messages is not a regular expression: {error}") from None
        try:
            Action.parse(self.fault_action)
        except ValueError as error:
            raise ValueError(f"fault_status: {error}") from None

    @property
    def fault_action(self) -> str:
        """Return ``fault_status`` as an action; a number means ``status:N``."""
        return f"status:{self.fault_status}" if self.fault_status.isdigit() else self.fault_status

    def changed(self, **changes: Any) -> Self:
        """Return a validated copy with changed values.

        :param changes: new values by field.
        """
        return replace(self, **changes)


def _spelled(name: str) -> str:
    return "--" + name.replace("_", "-")


def read_settings(arguments: Sequence[str] | None = None, environ: Mapping[str, str] | None = None) -> Settings:
    """Read the settings from flags, environment variables and defaults, in this order of precedence.

    An invalid value ends the process.

    :param arguments: command line without the program's name. Default: ``sys.argv``.
    :param environ: environment variables. Default: ``os.environ``.
    """
    environ = os.environ if environ is None else environ
    parser = argparse.ArgumentParser(
        prog="python -m airflow_provider_assistant.sandbox",
        description="An embedded Assistant service for development and tests.",
        epilog=f"Each flag is also an environment variable, for example {ENV_PREFIX}PORT.",
    )
    flags = {name: hint.__metadata__[0] for name, hint in get_type_hints(Settings, include_extras=True).items()}
    for name, flag in flags.items():
        default = getattr(Settings, name)
        parser.add_argument(
            _spelled(name),
            metavar=flag.unit,
            help=f"{flag.help} (default: {'none' if default is None else default})",
        )
    given = vars(parser.parse_args(arguments))
    values: dict[str, Any] = {}
    for name, flag in flags.items():
        variable = ENV_PREFIX + name.upper()
        source, text = _spelled(name), given[name]
        if text is None:
            source, text = variable, environ.get(variable) or None
        if text is None:
            continue
        try:
            values[name] = flag.parse(text)
        except ValueError:
            parser.error(f"{source}: {text!r} is not a valid {flag.unit.lower()}")
    try:
        return Settings(**values)
    except ValueError as error:
        parser.error(str(error))
