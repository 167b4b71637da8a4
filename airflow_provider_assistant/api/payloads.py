"""
Request bodies, which are validated before they are sent.

Field names are those of the Assistant API. A field that is None is not sent.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from numbers import Number
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, StringConstraints, ValidationError

from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.texts import NOT_TEXT, is_encodable

LANGUAGE_CODE = re.compile(r"[A-Za-z]{2,3}([-_][A-Za-z0-9]{2,8})*")
EMAIL = re.compile(r"[^@\s,;<>]+@[^@\s,;<>.]+(\.[^@\s,;<>.]+)*")


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("is empty")
    if not is_encodable(text):
        raise ValueError(NOT_TEXT)
    return text


def _language_code(code: str) -> str:
    if not LANGUAGE_CODE.fullmatch(code):
        raise ValueError("must be a language code such as 'en' or 'pt-BR'")
    return code


def _email(address: str) -> str:
    if len(address) > 254 or not EMAIL.fullmatch(address):
        raise ValueError("must be one e-mail address")
    return address


Text = Annotated[str, StringConstraints(strict=True), AfterValidator(_not_blank)]
LanguageCode = Annotated[str, StringConstraints(strict=True), AfterValidator(_language_code)]
Email = Annotated[str, StringConstraints(strict=True), AfterValidator(_email)]


class Payload(BaseModel):
    """Base class of the JSON request bodies."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    def body(self) -> dict[str, Any]:
        """Return the JSON object to send."""
        return self.model_dump(exclude_none=True)


class TextDocument(Payload):
    """Body of ``POST …/documents/text``."""

    title: Text | None = None
    content: Text
    category: Text | None = None


class QADocument(Payload):
    """Body of ``POST …/documents/qa``."""

    title: Text | None = None
    question: Text
    answer: Text
    category: Text | None = None


class ChatMessage(Payload):
    """Body of ``POST …/chat`` and ``POST …/chat/async``; ``response_language`` is a code such as ``en``."""

    session_id: Text
    message: Text
    email: Email | None = None
    response_language: LanguageCode | None = None


class Feedback(Payload):
    """Body of ``POST …/chat/feedback``; ``feedback`` is a word that the service accepts, such as ``good``."""

    session_id: Text
    request_id: Text
    feedback: Text


class SessionClose(Payload):
    """Body of ``POST …/chat/session/close``."""

    session_id: Text


P = TypeVar("P", bound=Payload)


def checked(model: type[P], fields: Mapping[str, Any], *, names: Mapping[str, str] | None = None) -> P:
    """
    Return a validated payload.

    :param fields: Values by field name.
    :param names: Names of the fields in the error message, such as ``column 'reply'``. Default: the field names.
    :raises AssistantInputError: Fields are missing, unknown or invalid. The message lists them; ``field`` is the first.
    """
    try:
        return model.model_validate(fields)
    except ValidationError as invalid:
        problems = {str(error["loc"][0]): _problem(error) for error in invalid.errors()}
    shown = names or {}
    message = "; ".join(f"{shown.get(field, field)} {problem}" for field, problem in problems.items())
    raise AssistantInputError(message if names else f"{model.__name__}: {message}", field=next(iter(problems)))


def _problem(error: Any) -> str:
    # Keep the value out of the message: it may be personal data.
    match error["type"]:
        case "missing":
            return "is missing"
        case "string_type" if error["input"] is None:
            return "is empty"
        case "string_type":
            return f"must be text, not {_type_in_words(error['input'])}"
        case "extra_forbidden":
            return "is not a field of this document"
        case "value_error":
            return str(error["ctx"]["error"])
    return str(error["msg"])


def _type_in_words(value: Any) -> str:
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, Number):
        return "a number"
    name = type(value).__name__
    return {"list": "a list", "dict": "an object"}.get(name, name)
