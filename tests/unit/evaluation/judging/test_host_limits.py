"""What refusals of models' hosts name, in the words and shapes that hosts use."""

from __future__ import annotations

import json

import pytest

from airflow_provider_assistant.api.call import Response
from airflow_provider_assistant.evaluation.judging.host_limits import (
    RESPONSE_FORMAT,
    SYSTEM_ROLE,
    TEMPERATURE,
    refuses_all,
    unsupported,
)

TEXTS = ["Which temperature is not supported by the oven?", "The response_format of the form is invalid."]
WORDS = {
    TEMPERATURE: [
        "Unsupported value: 'temperature' does not support 0 with this model. Only the default (1) value is supported.",
        "temperature: Extra inputs are not permitted",
        "Unrecognized request argument supplied: temperature",
        "This model does not accept sampling parameters.",
        "Temperature must be 1 when thinking is enabled",
    ],
    RESPONSE_FORMAT: [
        "Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model.",
        "This response_format type is unavailable now",
        "'response_format.type' must be 'json_object' or 'text'",
        "response_format value as json_schema is enabled only for api versions 2024-08-01-preview and later",
        "Structured outputs are not available for this model.",
        "Unknown name \"additionalProperties\" at 'generation_config.response_schema': Cannot find field.",
        "JSON mode is not enabled for models/gemma-3",
        "failed to parse grammar",
    ],
    SYSTEM_ROLE: [
        "Unsupported value: 'messages[0].role' does not support 'system' with this model.",
        "Developer instruction is not enabled for models/gemma-3-27b-it",
        "This model does not accept a system message.",
    ],
}
SHAPES = [
    lambda text: {"error": {"message": text, "type": "invalid_request_error", "param": None, "code": None}},
    lambda text: {"error": text},
    lambda text: {"object": "error", "message": text, "code": 400},
    lambda text: {"detail": text},
    lambda text: [{"error": {"code": 400, "message": text, "status": "INVALID_ARGUMENT"}}],
    lambda text: {"message": {"detail": [{"type": "value_error", "msg": text, "input": {"temperature": 0}}]}},
    lambda text: {"errors": [{"title": "Bad Request", "description": text}]},
]


def named(body, status=400):
    content = body if isinstance(body, str) else json.dumps(body)
    return unsupported(Response(status, {}, content.encode()), TEXTS)


@pytest.mark.parametrize("parameter", WORDS)
def test_what_a_refusal_names_is_found_in_every_shape(parameter):
    for text in WORDS[parameter]:
        for status in (400, 422, 500, 501):
            for shape in SHAPES:
                assert named(shape(text), status) == {parameter}, (text, shape(text))
        assert named(f"<html><p>{text}</p></html>".replace('"', "'")) == {parameter}
        assert named(f"Bad request. {text}") == {parameter}


@pytest.mark.parametrize("parameter", [TEMPERATURE, RESPONSE_FORMAT])
def test_a_field_may_name_it(parameter):
    assert named({"error": {"message": "Not for this model.", "param": parameter}}) == {parameter}
    missing = {"type": "extra_forbidden", "loc": ["body", parameter], "msg": "Extra inputs are not permitted"}
    assert named({"detail": [missing | {"input": {"response_format": 1, "temperature": 0}}]}, 422) == {parameter}


OTHERS = [
    # One question.
    "This model's maximum context length is 8192 tokens, and 100 are in the response_format schemas. Only 90 fit.",
    "Input is too long for requested model.",
    "The response was filtered due to the prompt triggering Azure's content management policy.",
    "Failed to validate JSON. Please adjust your prompt. (json_validate_failed, response_format)",
    "Your input was flagged as potentially violating our usage policy.",
    # All of them.
    "The model `gpt-99` does not exist or you do not have access to it.",
    "model 'llama9' not found, try pulling it first",
    "The API deployment for this resource does not exist.",
    "Your credit balance is too low to access the API.",
    "api-version query parameter is not supported",
]


def test_other_refusals_name_nothing_and_are_of_one_question_or_of_all():
    for number, text in enumerate(OTHERS):
        for shape in SHAPES:
            assert named(shape(text)) == set(), text
        assert refuses_all(text, None) == (number >= 5)
        assert refuses_all(text, text) == (number >= 5)
    assert refuses_all("Unknown error 17", "Unknown error 18")
    assert not refuses_all("Unknown error 17", None)
    assert not refuses_all("Unknown error 17", "Another error")


def test_texts_of_the_request_and_other_statuses_name_nothing():
    for text in TEXTS:
        assert named({"error": {"message": f"Cannot process: {text}"}}) == set()
    assert named({"error": {"message": "unsupported", "request": {"temperature": "not supported"}}}) == set()
    for status in (200, 401, 403, 404, 429, 502, 503):
        assert named({"error": "temperature is not supported"}, status) == set()
    assert named("") == set()
    assert named("[]") == set()
