"""The settings of the sandbox. Each field is also a command-line flag and an environment variable."""

import argparse
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    model_validator,
)
from pydantic_core import from_json

from airflow_provider_assistant.sandbox.actions import Action
from airflow_provider_assistant.sandbox.errors import ErrorFormat, explained

ENV_PREFIX = "ASSISTANT_SANDBOX_"


def _compiled(pattern: str) -> str:
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(f"must be a regular expression: {error}") from None
    return pattern


def _directory(path: Path) -> Path:
    if path.exists() and not path.is_dir():
        raise ValueError("must be a directory")
    return path


def _names(value: Any) -> Any:
    """Parse the JSON object that a flag or a variable holds."""
    if not isinstance(value, str):
        return value
    try:
        return from_json(value)
    except ValueError as error:
        raise ValueError(f"must be a JSON object: {error}") from None


Regex = Annotated[str, AfterValidator(_compiled)]
Paging = Literal["none", "page", "offset", "cursor", "link", "header"]
# The other name of each default name; None leaves a field out of replies.
Names = Annotated[dict[str, str | None], BeforeValidator(_names)]
_Directory = Annotated[Path, AfterValidator(_directory)]


# Defaults of other settings if ``documented`` is on.
DOCUMENTED: dict[str, Any] = {
    "document_status": "draft",
    "duplicate_documents": "reject",
    "closed_sessions": "refuse",
    "request_times": False,
    "feedback_words": "good,bad",
    "error_format": "text",
}
_IS_TRUE = TypeAdapter(bool)


def _flag(default: Any, unit: str, text: str, **limits: Any) -> Any:
    """Return a field whose flag has this unit and help."""
    return Field(default, title=unit, description=text, **limits)


class Settings(BaseModel):
    """Hold the settings of the sandbox. Values are validated on creation."""

    # A fault's status may be a number.
    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        allow_inf_nan=False,
        coerce_numbers_to_str=True,
    )

    host: str = _flag("127.0.0.1", "ADDRESS", "address to listen on", min_length=1)
    port: int = _flag(8089, "PORT", "port; 0 lets the system pick one", ge=0, le=65535)
    data: _Directory | None = _flag(None, "DIR", "directory of the SQLite file")
    latency: float = _flag(0.0, "SECONDS", "delay of every API request", ge=0)
    rate_limit: float | None = _flag(None, "PER_SECOND", "requests allowed per key", gt=0)
    rate_burst: int | None = _flag(None, "REQUESTS", "requests allowed per key at once", ge=1)
    fault_rate: float = _flag(0.0, "FRACTION", "share of requests that fail, 0 to 1", ge=0, le=1)
    fault_status: str = _flag("503", "STATUS", "status of failures, or an action")
    seed: int = _flag(0, "NUMBER", "seed of faults and history")
    processing_seconds: float = _flag(0.5, "SECONDS", "duration of an async request", ge=0)
    fail_messages: Regex | None = _flag(None, "REGEX", "chat messages that fail")
    min_relevance: float = _flag(0.3, "FRACTION", "minimum relevance of a document", gt=0, le=1)
    answer_limit: int | None = _flag(None, "CHARACTERS", "maximum length of an answer", ge=1)
    short_answer_rate: float = _flag(0.0, "FRACTION", "share of one-sentence answers", ge=0, le=1)
    judge_position_bias: float = _flag(0.0, "SCORE", "lead of the first judged answer", ge=-1, le=1)
    documents_quota: int | None = _flag(None, "COUNT", "documents allowed per tenant", ge=0)
    messages_quota: int | None = _flag(None, "COUNT", "messages per tenant and month", ge=0)
    history: int = _flag(0, "DAYS", "days of statistics, generated before any data", ge=0, le=366)
    document_status: Literal["active", "draft"] = _flag("active", "STATUS", "of new documents")
    document_seconds: float = _flag(0.0, "SECONDS", "until an active document is ready", ge=0)
    manage_documents: bool = _flag(True, "BOOL", "whether documents can be listed and changed")
    paging: Paging = _flag("none", "KIND", "how lists are paged: " + ", ".join(get_args(Paging)))
    page_size: int = _flag(50, "COUNT", "default and maximum size of a page", ge=1, le=10_000)
    list_content: bool = _flag(False, "BOOL", "whether a list of documents has their content")
    list_delay: float = _flag(0.0, "SECONDS", "until a list of documents shows a change", ge=0)
    bulk_limit: int = _flag(100, "COUNT", "documents of one bulk request", ge=1)
    bulk_unknown: Literal["ignore", "reject"] = _flag(
        "ignore", "WORD", "unknown ids of a bulk request: ignore or reject"
    )
    document_names: Names = _flag({}, "JSON", "other names for fields, parameters and words")
    duplicate_documents: Literal["allow", "reject"] = _flag(
        "allow", "WORD", "documents with an existing title and content: allow or reject"
    )
    closed_sessions: Literal["reopen", "refuse"] = _flag(
        "reopen", "WORD", "messages to closed sessions: reopen or refuse"
    )
    sync_seconds: float = _flag(0.0, "SECONDS", "duration of a synchronous chat", ge=0)
    confidence: bool = _flag(True, "BOOL", "whether answers have a confidence")
    request_times: bool = _flag(True, "BOOL", "whether replies about chats have times")
    feedback_words: str | None = _flag(None, "WORDS", "ratings that are accepted, with commas")
    error_format: ErrorFormat = _flag("detailed", "FORMAT", "of error bodies: detailed or text")
    usage_in_limits: bool = _flag(True, "BOOL", "whether limits say how much of them is used")
    documented: bool = _flag(False, "BOOL", "what the service documents; sets other defaults")

    @model_validator(mode="before")
    @classmethod
    def _fill_documented(cls, values: Any) -> Any:
        """Use the defaults of the setting ``documented``, if it is on."""
        if isinstance(values, dict) and _IS_TRUE.validate_python(values.get("documented", False)):
            return {**DOCUMENTED, **values}
        return values

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.rate_burst is not None and self.rate_limit is None:
            raise ValueError("rate_burst needs rate_limit")
        try:
            Action.parse(self.fault_action)
        except ValueError as error:
            raise ValueError(f"fault_status: {error}") from None
        return self

    @property
    def fault_action(self) -> str:
        """Return ``fault_status`` as an action; a number means ``status:N``."""
        if self.fault_status.isdigit():
            return f"status:{self.fault_status}"
        return self.fault_status

    def changed(self, **changes: Any) -> Self:
        """Return a validated copy with changed values."""
        values = dict(self)
        if "documented" in changes:
            # The settings that it has defaults for take these again.
            for name in DOCUMENTED:
                del values[name]
        return self.model_validate({**values, **changes})


def _flag_of(field_name: str) -> str:
    return "--" + field_name.replace("_", "-")


def read_settings(
    arguments: Sequence[str] | None = None,
    environ: Mapping[str, str] | None = None,
) -> Settings:
    """Read the settings from flags, environment variables and defaults, in this order of precedence.

    An invalid value ends the process.

    :param arguments: command line without the program's name. Default: ``sys.argv``.
    :param environ: environment variables. Default: ``os.environ``.
    """
    if environ is None:
        environ = os.environ
    parser = argparse.ArgumentParser(
        prog="python -m airflow_provider_assistant.sandbox",
        description="An embedded Assistant service for development and tests.",
        epilog=f"Each flag is also an environment variable, for example {ENV_PREFIX}PORT.",
    )
    for name, field in Settings.model_fields.items():
        default = "none" if field.default is None else field.default
        parser.add_argument(
            _flag_of(name),
            metavar=field.title,
            help=f"{field.description} (default: {default})",
        )
    value_by_field: dict[str, str] = {}
    # The flag or the variable that an error names.
    source_by_field: dict[str, str] = {}
    for name, flag_value in vars(parser.parse_args(arguments)).items():
        variable = ENV_PREFIX + name.upper()
        if flag_value is not None:
            value_by_field[name] = flag_value
            source_by_field[name] = _flag_of(name)
        elif environ.get(variable):
            value_by_field[name] = environ[variable]
            source_by_field[name] = variable
    try:
        return Settings.model_validate(value_by_field)
    except ValidationError as error:
        parser.error(explained(error, source_by_field))
