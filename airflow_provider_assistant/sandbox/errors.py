"""Errors of the API, all with the same body."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from starlette.responses import JSONResponse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import ValidationError

_CODES = {
    400: "bad_request",
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    409: "conflict",
    429: "too_many_requests",
}


ErrorFormat = Literal["detailed", "text"]
# What the service that is documented sends instead of a code and a message.
_TEXTS = {
    "unauthorized": "invalid_api_key",
    "forbidden": "api_access_not_available_on_plan",
    "read_only_key": "api_access_not_available_on_plan",
    "plan_lacks_async_chat": "api_access_not_available_on_plan",
    "site_not_found": "site not found",
    "request_not_found": "request not found",
}


class ApiError(Exception):
    """A refusal.

    :param status: HTTP status.
    :param message: readable message; it never contains the API key.
    :param code: machine-readable code. Default: the usual code of the status.
    :param field: invalid field or path parameter.
    :param retry_after: seconds to wait before a retry, as an integer.
    :param document_id: the document that exists already.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str | None = None,
        field: str | None = None,
        retry_after: int | None = None,
        document_id: str | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code or _CODES.get(status, "server_error")
        self.field = field
        self.retry_after = retry_after
        self.document_id = document_id

    def response(
        self,
        error_format: ErrorFormat,
        headers: Mapping[str, str] | None = None,
    ) -> JSONResponse:
        """Return the refusal as an HTTP response."""
        error: dict[str, Any] | str
        if error_format == "text":
            error = _TEXTS.get(self.code, self.message)
        else:
            error = {"code": self.code, "message": self.message}
            if self.field is not None:
                error["field"] = self.field
            if self.document_id is not None:
                error["document_id"] = self.document_id
        all_headers = dict(headers or {})
        if self.retry_after is not None:
            all_headers["Retry-After"] = str(self.retry_after)
        return JSONResponse({"error": error}, self.status, all_headers)


def explained(error: ValidationError, names: Mapping[str, str] | None = None) -> str:
    """Return the first error of a model, with the name of its field.

    :param names: other names to use, by field.
    """
    first_error = error.errors(include_url=False)[0]
    parts = [str(part) for part in first_error["loc"]]
    if names is not None:
        parts = [names.get(part, part) for part in parts]
    reason = first_error["msg"].removeprefix("Value error, ")
    if not parts:
        return reason
    field = ".".join(parts)
    return f"{field}: {reason}"


_DEMAND_BY_ERROR_TYPE = {
    "missing": "is required",
    "string_type": "must be a string",
    "string_too_short": "must not be empty",
    "string_too_long": "is too long",
}
_PATTERN_DEMAND_BY_FIELD = {
    "email": "must be an e-mail address",
    "response_language": "must be a language code such as en or pt-BR",
}


def invalid_body(error: ValidationError) -> ApiError:
    """Convert the validation error of a body to a refusal that names the field."""
    first_error = error.errors(include_url=False, include_input=False)[0]
    if first_error["type"] == "json_invalid":
        return ApiError(400, "The body is not valid JSON.", code="malformed_json")
    if not first_error["loc"]:
        return ApiError(400, "The body must be a JSON object.", code="malformed_json")
    field = str(first_error["loc"][0])
    if first_error["type"] == "string_pattern_mismatch":
        demand = _PATTERN_DEMAND_BY_FIELD.get(field, "must not be empty")
    else:
        demand = _DEMAND_BY_ERROR_TYPE.get(first_error["type"], "is not valid")
    code = "invalid_field"
    if first_error["type"] == "missing":
        code = "missing_field"
    return ApiError(400, f"{field} {demand}.", code=code, field=field)
