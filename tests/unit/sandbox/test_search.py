"""Search: the right document among many, in any script, for any text as a question."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_assistant.sandbox.search import passage, terms
from airflow_provider_assistant.sandbox.service import Service
from airflow_provider_assistant.sandbox.settings import Settings
from airflow_provider_assistant.sandbox.tenants import ACME_FULL_KEY, KEYS

KEY = KEYS[ACME_FULL_KEY]
SITE = "acme-docs"


def add(service: Service, title: str, content: str, question: str | None = None) -> str:
    kind = "qa" if question else "text"
    size = len(content)
    document = service.documents.add(KEY, SITE, kind, title=title, content=content, question=question, size=size, now=0)
    return document.id


def ask(service: Service, message: str, session: str = "s", site: str = SITE) -> tuple[str, list]:
    service.chats.add(KEY, site, session, "sync", message, "en", 0)
    answer = service.assistant.reply(site, session, message, "en")
    return answer.text, [source["document_id"] for source in answer.sources]


@pytest.fixture
def service() -> Service:
    return Service(Settings())


@pytest.fixture
def stocked(service: Service) -> Service:
    subjects = ["invoice", "password", "delivery", "warranty", "voucher", "newsletter", "return"]
    verbs = ["change", "cancel", "find", "print", "confirm", "delay", "share"]
    for number in range(400):
        subject, verb = subjects[number % 7], verbs[number // 7 % 7]
        add(
            service,
            f"{subject} {number}",
            f"Answer {number}: open the {subject} page, press {verb}, quote code K{number}.",
            f"How can I {verb} {subject} number {number}?",
        )
    return service


def test_the_right_document_among_hundreds(stocked: Service) -> None:
    target = add(stocked, "Bicycle trailers", "Trailers carry at most 45 kg.", "How heavy may a trailer be?")
    text, sources = ask(stocked, "What weight may bicycle trailers carry?")
    assert text == "Trailers carry at most 45 kg."
    assert sources[0] == target


@pytest.mark.parametrize("number", [3, 77, 399])
def test_a_question_finds_its_own_answer(stocked: Service, number: int) -> None:
    question = stocked.documents.listed(SITE)[number]["question"]
    assert ask(stocked, question)[0].startswith(f"Answer {number}:")


def test_a_question_without_a_shared_word_is_not_answered(stocked: Service) -> None:
    text, sources = ask(stocked, "Which composer wrote operas about gods?")
    assert text.startswith("I don't know")
    assert sources == []


def test_stop_words_alone_are_no_reason_to_answer(stocked: Service) -> None:
    assert ask(stocked, "How can I do that with you?")[1] == []


def test_too_small_a_share_of_the_question_is_not_enough(service: Service) -> None:
    add(service, "Ports", "The port is 8089.")
    assert ask(service, "Which quantum flux capacitor port fits time machines?")[1] == []


def test_another_site_knows_nothing_of_it(stocked: Service) -> None:
    assert ask(stocked, "How can I find invoice number 3?", site="acme-shop")[1] == []


@pytest.mark.parametrize(
    ("content", "question"),
    [
        ("Возврат возможен в течение тридцати дней.", "Возможен ли возврат?"),
        ("Das Café öffnet um acht Uhr.", "Wann offnet das cafe?"),
        ("Das Cafe\u0301 schließt um zehn Uhr.", "Wann schließt das Café?"),
        ("返品は三十日以内に可能です。", "返品は可能ですか"),
        ("نقبل الإرجاع خلال ثلاثين يوما", "متى الإرجاع"),
    ],
)
def test_scripts_and_accents(stocked: Service, content: str, question: str) -> None:
    target = add(stocked, "Foreign", content)
    assert ask(stocked, question)[1][:1] == [target]


def test_inflections_are_found(service: Service) -> None:
    add(service, "Refunds", "Refunds are paid within 30 days.")
    assert ask(service, "When is a refund payed?")[1]


@pytest.mark.parametrize(
    "message",
    [
        'invoice" OR "1',
        "NOT invoice",
        "invoice NEAR/3 page*",
        "title: invoice",
        "^invoice - ( AND ) {page} +",
        "'; DROP TABLE documents; --",
        '"""',
        "*",
        "\x00invoice",
    ],
)
def test_query_operators_are_words(stocked: Service, message: str) -> None:
    text, _ = ask(stocked, message)
    assert text
    assert stocked.documents.count(SITE) == 400


def test_an_operator_word_does_not_exclude(service: Service) -> None:
    target = add(service, "Apples", "Apples cost three.")
    assert ask(service, "apples NOT apples")[1] == [target]


_FUZZED = Service(Settings())
add(_FUZZED, "Anything", "Some text to look in.")


@given(st.text(st.characters(codec="utf-8")))
def test_any_text_can_be_asked_and_loaded(text: str) -> None:
    assert ask(_FUZZED, text)[0]
    add(_FUZZED, text, text, text)


def test_a_follow_up_reuses_the_topic(service: Service) -> None:
    add(service, "Ports", "The service listens on a port. Unless told otherwise it is 8089.")
    assert ask(service, "Which port does the service listen on?")[1]
    text, sources = ask(service, "and its preset?")
    assert sources
    assert "port" in text


def test_another_session_has_no_topic(service: Service) -> None:
    add(service, "Ports", "The service listens on a port.")
    ask(service, "Which port does the service listen on?", "one")
    assert ask(service, "and its preset?", "two")[1] == []


def test_a_new_question_is_not_taken_for_a_follow_up(service: Service) -> None:
    add(service, "Ports", "The service listens on a port.")
    ask(service, "Which port does the service listen on?")
    assert ask(service, "Who painted sunflowers?")[1] == []


def test_a_closed_conversation_forgets_its_topic(service: Service) -> None:
    add(service, "Ports", "The service listens on a port.")
    ask(service, "Which port does the service listen on?")
    service.chats.close_session(SITE, "s", 1)
    assert ask(service, "and its preset?")[1] == []


def test_the_passage_is_about_the_question() -> None:
    text = "We open at nine. " * 40 + "Parking costs two euros an hour. Trams stop outside."
    assert passage(text, terms("How much does parking cost?")).startswith("Parking costs two euros")


def test_a_passage_is_bounded() -> None:
    assert len(passage("word " * 5000, ("word",))) <= 500


def test_terms_are_content_words_once_each() -> None:
    assert terms("What is the refund window, and is the REFUND paid?") == (
        "refund",
        "window",
        "paid",
    )
