"""Request bodies: what is refused before it is sent, and in which words."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_assistant.api.payloads import (
    ChatMessage,
    Feedback,
    QADocument,
    SessionClose,
    TextDocument,
    checked,
)
from airflow_provider_assistant.exceptions import AssistantInputError

QA = {"title": "t", "question": "q", "answer": "a", "category": "c"}
TEXT = {"title": "t", "content": "x", "category": "c"}
CHAT = {"session_id": "s", "message": "m"}
FEEDBACK = {"session_id": "s", "request_id": "r", "feedback": "good"}


class TestInput:
    @pytest.mark.parametrize(
        ("model", "good", "field", "value"),
        [
            (model, good, field, value)
            for model, good in [(QADocument, QA), (TextDocument, TEXT), (ChatMessage, CHAT), (Feedback, FEEDBACK)]
            for field in good
            for value in ["  \n", 17, b"x"]
        ]
        + [
            (model, good, field, None)
            for model, good in [(QADocument, QA), (TextDocument, TEXT), (ChatMessage, CHAT), (Feedback, FEEDBACK)]
            for field in good
            if field not in {"title", "category"}
        ]
        + [(ChatMessage, CHAT, "email", value) for value in ["", "ada", "a@", "@b", "a b@c.de", "a@b.c, d@e.f", 5]]
        + [(ChatMessage, CHAT, "email", "a" * 250 + "@b.de")]
        + [(ChatMessage, CHAT, "response_language", value) for value in ["", "english!", "e", "123", "en_", 5]]
        + [(SessionClose, {"session_id": "s"}, "session_id", "")],
    )
    def test_invalid_fields_are_named(self, model: Any, good: dict[str, Any], field: str, value: Any) -> None:
        with pytest.raises(AssistantInputError, match=field) as refused:
            checked(model, {**good, field: value})
        assert refused.value.field == field
        assert str(refused.value).startswith(f"{model.__name__}: ")

    def test_a_problem_is_in_the_user_s_terms(self) -> None:
        with pytest.raises(AssistantInputError) as refused:
            checked(QADocument, {**QA, "question": None, "answer": 4}, names={"answer": "column 'reply'"})
        assert str(refused.value) == "question is empty; column 'reply' must be text, not a number"

    @pytest.mark.parametrize("missing", [("title",), ("category",), ("title", "category")])
    @pytest.mark.parametrize(("model", "good"), [(QADocument, QA), (TextDocument, TEXT)])
    def test_title_and_category_are_optional(self, model: Any, good: dict[str, Any], missing: tuple[str, ...]) -> None:
        given = {field: value for field, value in good.items() if field not in missing}
        assert checked(model, given).body() == given
        assert checked(model, given | dict.fromkeys(missing)).body() == given

    def test_all_problems_are_listed(self) -> None:
        with pytest.raises(AssistantInputError, match=r"title .* answer is missing"):
            checked(QADocument, {"title": "", "question": "q", "category": "c"})

    def test_the_input_itself_is_not_in_the_message(self) -> None:
        with pytest.raises(AssistantInputError) as refused:
            checked(ChatMessage, {**CHAT, "email": "ada at example.com"})
        assert "ada" not in str(refused.value)

    @pytest.mark.parametrize("email", ["ada@example.com", "a.b+c@sub.example.co.uk", "ada@localhost", "ä@ö.de"])
    @pytest.mark.parametrize("language", ["en", "pt-BR", "zh-Hant-TW", "deu", "pt_BR"])
    def test_valid_payloads(self, email: str, language: str) -> None:
        message = checked(ChatMessage, {**CHAT, "email": email, "response_language": language})
        assert message.body() == {**CHAT, "email": email, "response_language": language}

    def test_fields_that_are_none_are_not_sent(self) -> None:
        assert checked(ChatMessage, {**CHAT, "email": None}).body() == CHAT

    def test_an_unknown_field(self) -> None:
        with pytest.raises(AssistantInputError, match="colour"):
            checked(QADocument, {**QA, "colour": "red"})
