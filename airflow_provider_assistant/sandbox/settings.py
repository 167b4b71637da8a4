"""The settings of the double. Each field is also a flag of the command line."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, Field, ValidationError


def _compiled(pattern: str) -> str:
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(f"must be a regular expression: {error}") from None
    return pattern


Regex = Annotated[str, AfterValidator(_compiled)]


class Settings(BaseModel, frozen=True, extra="forbid"):
    """Hold the settings of the double.

    :raises ValueError: a value is not valid; the text names the setting.
    """

    port: int = Field(8089, ge=0, le=65535, description="port of the loopback interface; 0: any free one")
    data: str | None = Field(None, description="file that keeps what is stored")
    latency: float = Field(0.0, ge=0, description="seconds before each API request is served")
    rate_limit: float | None = Field(None, gt=0, description="requests allowed per key and second")
    processing_seconds: float = Field(0.5, ge=0, description="duration of an asynchronous chat request")
    fail_messages: Regex | None = Field(None, description="regular expression for chat messages that fail")
    answer_limit: int | None = Field(None, ge=1, description="characters of an answer; none: all of it")
    document_status: Literal["active", "draft"] = Field(
        "active", description="status of new documents: active or draft"
    )
    document_seconds: float = Field(0.0, ge=0, description="seconds until an active document is ready")
    allow_duplicates: bool = Field(False, description="true: store a document that exists already, too")
    max_documents: int = Field(1_000_000, ge=0, description="documents that the service stores")
    page_size: int | None = Field(None, ge=1, description="length of a page of a list; none: all on one page")

    def changed(self, **changes: Any) -> Self:
        """Return a copy with changed values.

        :raises ValueError: a setting is unknown, or a value is not valid.
        """
        return self.model_validate({**dict(self), **changes})


def read_settings(arguments: Sequence[str]) -> Settings:
    """Read the settings from flags. An invalid one ends the process with status 2."""
    parser = argparse.ArgumentParser(
        prog="python -m airflow_provider_assistant.sandbox",
        description="A double of the Assistant service, for development and tests.",
    )
    for name, field in Settings.model_fields.items():
        text = f"{field.description} (default: {field.default})"
        parser.add_argument("--" + name.replace("_", "-"), default=field.default, metavar="VALUE", help=text)
    try:
        return Settings(**vars(parser.parse_args(arguments)))
    except ValidationError as error:
        parser.error(str(error))
