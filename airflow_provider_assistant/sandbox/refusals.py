"""The refusals that the OpenAPI document lists for each route."""

from typing import Any

from airflow_provider_assistant.sandbox import schemas


def refusal(reason: str, **headers: Any) -> dict[str, Any]:
    """Return the OpenAPI response of a refusal."""
    return {"model": schemas.ErrorReply, "description": reason, **headers}


_RETRY_AFTER = {"description": "Seconds to wait.", "schema": {"type": "integer", "minimum": 0}}
READ_REFUSALS: dict[int | str, dict[str, Any]] = {
    401: refusal("API key missing or wrong"),
    404: refusal("Not found, or not owned by the key"),
    429: refusal("Too many requests, or a quota used up", headers={"Retry-After": _RETRY_AFTER}),
}
WRITE_REFUSALS: dict[int | str, dict[str, Any]] = {
    **READ_REFUSALS,
    400: refusal("Malformed payload or request structure"),
    403: refusal("The key's plan or access does not permit the call"),
}
