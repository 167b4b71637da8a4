"""Redaction of the API key: a service may repeat the key in a response, which would reach logs and XCom."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cached_property
from html.entities import html5

from airflow_provider_assistant.api.call import Response, TransportFailure

REDACTED = "***"
# A key of at least SURELY_SECRET characters is always redacted. A shorter one is not redacted if it is a word or a
# number, because ordinary replies may contain it.
SURELY_SECRET = 16
SHORTEST_SECRET = 8


def is_recognisable(key: str) -> bool:
    """
    Return whether an API key differs enough from ordinary text to be redacted from replies.

    A key such as ``test``, ``1234`` or ``assistant`` does not: redaction would remove words and numbers from replies.

    :param key: The API key.
    :return: True from 16 characters on, or from 8 if the key is neither all letters nor all digits.
    """
    if len(key) >= SURELY_SECRET:
        return True
    return len(key) >= SHORTEST_SECRET and not key.isalpha() and not key.isdecimal()


class Redactor:
    """
    Replace an API key by ``***``, also where it is escaped as in JSON, HTML or URLs.

    A key that is not recognisable is not replaced, see :func:`is_recognisable`.

    :param key: The API key.
    """

    def __init__(self, key: str) -> None:
        self._key = key
        self._is_active = is_recognisable(key)

    def prepare(self) -> None:
        """Compile the regular expressions now, instead of when the first response arrives."""
        _ = self._text_pattern, self._bytes_pattern

    def outcome(self, outcome: Response | TransportFailure) -> Response | TransportFailure:
        """
        Return an outcome without the key.

        :param outcome: A response or a failure.
        :return: The outcome with the key replaced in header values and body, or in the detail of a failure.
        """
        if not self._is_active:
            return outcome
        if isinstance(outcome, TransportFailure):
            return replace(outcome, detail=self._text(outcome.detail))
        body, shortest = outcome.body, len(self._key)
        # No spelling is shorter than the key itself. Most acknowledgements and headers are shorter.
        if len(body) < shortest and max(map(len, outcome.headers.values()), default=0) < shortest:
            return outcome
        headers = {name: self._text(value) for name, value in outcome.headers.items()}
        if len(body) >= shortest:
            body = self._body(body)
        return Response(outcome.status, headers, body, outcome.defect)

    def _body(self, body: bytes) -> bytes:
        # Every escape begins with one of these. Without them, a search is twenty times as fast as the pattern.
        if any(mark in body for mark in (b"\\", b"&", b"%")):
            return self._bytes_pattern.sub(REDACTED.encode(), body)
        return body.replace(self._key.encode(), REDACTED.encode())

    def _text(self, text: str) -> str:
        return self._text_pattern.sub(REDACTED, text) if len(text) >= len(self._key) else text

    @cached_property
    def _text_pattern(self) -> re.Pattern[str]:
        return re.compile(_key_pattern(self._key))

    @cached_property
    def _bytes_pattern(self) -> re.Pattern[bytes]:
        return re.compile(_key_pattern(self._key).encode())


def _key_pattern(key: str) -> str:
    """Return a regular expression that matches a key also when it is escaped as in JSON, HTML or URLs."""
    # One pass over the 2,000 names, not one per character of the key.
    named = [(text, re.escape(f"&{name}")) for name, text in html5.items() if text in key]

    def spellings(char: str) -> str:
        forms = [
            r"\\?" + re.escape(char),
            rf"\\u(?i:{ord(char):04x})",
            rf"&#0*{ord(char)};",
            rf"&#[xX]0*(?i:{ord(char):x});",
            rf"%(?i:{ord(char):02x})",
            *(name for text, name in named if text == char),
        ]
        return f"(?:{'|'.join(forms)})"

    return "".join(map(spellings, key))
