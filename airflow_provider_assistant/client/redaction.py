"""
Redaction of the API key: a service may repeat the key in a response, which would reach logs and XCom.

A response is decoded first and then redacted, because the key may be written in many ways: in UTF-16, or escaped as in
JSON, HTML and URLs, also several times over.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cached_property
from html.entities import html5

from airflow_provider_assistant import strict_json
from airflow_provider_assistant.api.call import Response, TransportFailure
from airflow_provider_assistant.client.proxies import usable_proxy

REDACTED = "***"
# A key of at least SURELY_SECRET characters is always redacted. A shorter one is not redacted if it is a word or a
# number, because ordinary replies may contain it.
SURELY_SECRET = 16
SHORTEST_SECRET = 8
# How many times over a text may be escaped. A service that quotes a request in a page in a JSON text needs three.
ESCAPED_TIMES = 4
# Far more than an ordinary text has. One with more is not searched for minutes, but replaced as a whole.
MOST_ESCAPES = 1_000_000
# Bytes of a character that is escaped several times over, or in UTF-32.
LONGEST_ESCAPE = 24
# Characters that JSON may write after a backslash.
_AFTER_BACKSLASH = '/"\\'
# Encodings that a Content-Type may name. Python has many more, some of which are no encodings of text. Without a byte
# order mark, "utf-16" leaves the order open.
_CHARSET = re.compile(r"charset=[\"']?(utf-(?:16|32)-?[lb]e)", re.IGNORECASE)


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
    Replace secrets by ``***``, also where they are escaped as in JSON, HTML or URLs.

    A secret that is not recognisable is not replaced, see :func:`is_recognisable`.

    :param secrets: The API key, and the credentials of a proxy.
    """

    def __init__(self, *secrets: str) -> None:
        self._secrets = [_Secret(secret) for secret in secrets if is_recognisable(secret)]
        lengths = [len(secret) for secret in secrets if is_recognisable(secret)]
        self._shortest = min(lengths, default=0)
        self._longest_spelling = max(lengths, default=0) * LONGEST_ESCAPE

    def outcome(self, outcome: Response | TransportFailure) -> Response | TransportFailure:
        """
        Return an outcome without the secrets.

        :param outcome: A response or a failure.
        :return: The outcome with the body in UTF-8, and the secrets replaced in header values and
            body; or in the detail of a failure.
        """
        if isinstance(outcome, TransportFailure):
            return replace(outcome, detail=self.text(outcome.detail))
        if outcome.defect and self._secrets:
            # The body may have been cut within a secret.
            outcome = replace(outcome, body=outcome.body[: -self._longest_spelling])
        outcome = _in_utf8(outcome)
        # No spelling is shorter than the secret itself. Most acknowledgements and headers are shorter.
        longest_header = max(map(len, outcome.headers.values()), default=0)
        longest_text = max(len(outcome.body), longest_header)
        if not self._secrets or longest_text < self._shortest:
            return outcome
        headers = {name: self.text(value) for name, value in outcome.headers.items()}
        # Latin-1 has one character for each byte, and the secrets and their escapes are ASCII.
        body = self.text(outcome.body.decode("latin-1")).encode("latin-1")
        return Response(outcome.status, headers, body, defect=outcome.defect)

    def text(self, text: str) -> str:
        """
        Return a text without the secrets.

        :param text: The text.
        """
        for secret in self._secrets:
            text = secret.removed_from(text)
        return text


def redactor_of(base_url: str, *keys: str) -> Redactor:
    """
    Return the redactor of API keys, and of the credentials of the proxy that the environment names.

    :param base_url: Base URL of the service.
    :param keys: The keys.
    """
    proxy = usable_proxy(base_url)
    secrets = proxy.secrets if proxy else ()
    return Redactor(*keys, *secrets)


class _Secret:
    """A secret and the patterns of its spellings."""

    def __init__(self, key: str) -> None:
        self._key = key

    def removed_from(self, text: str) -> str:
        if len(text) < len(self._key):
            return text
        text = text.replace(self._key, REDACTED)
        if self._is_hidden_in(text):
            text = self._escaped_key.sub(REDACTED, text)
            if self._is_hidden_in(text):
                # A key that is escaped in an unusual way cannot be cut out. This is JSON as well.
                return f'"{REDACTED}"'
        return text

    def _is_hidden_in(self, text: str) -> bool:
        """Return whether a text without the key has it once it is unescaped."""
        if not any(mark in text for mark in "\\&%"):
            return False
        # The search ignores backslashes in the text, so it ignores them in the key.
        key = self._key.replace("\\", "")
        for _ in range(ESCAPED_TIMES):
            escaped = text.replace("\\", "")
            unescaped, count = self._escapes.subn(self._unescaped, escaped, MOST_ESCAPES)
            if key in unescaped or count == MOST_ESCAPES:
                return True
            if unescaped == text:
                return False
            text = unescaped
        return False

    @cached_property
    def _char_by_entity(self) -> dict[str, str]:
        """The characters of the key and of escapes that have names in HTML, by name."""
        return {name: char for name, char in html5.items() if char in f"{self._key}%&#;\\"}

    @cached_property
    def _escapes(self) -> re.Pattern[str]:
        """Match the escapes of characters that a key may have, in a text without backslashes."""
        code = "([2-7][0-9a-fA-F])"
        # The longest names come first, because some names begin with a shorter one.
        entities = "|".join(sorted(self._char_by_entity, key=len, reverse=True))
        in_json = f"u00{code}"
        # Blanks are the most frequent escapes of ordinary texts.
        in_url = f"%{code}" if " " in self._key else f"%(?!20){code}"
        in_html = f"&(?:#[xX]0*{code};?|#0*([0-9]{{2,3}});?|({entities}))"
        return re.compile(f"{in_json}|{in_url}|{in_html}")

    def _unescaped(self, escape: re.Match[str]) -> str:
        """Return the character of a match of the pattern ``_escapes``."""
        json_code, url_code, html_code, html_decimal, entity = escape.groups()
        if entity:
            return self._char_by_entity[entity]
        if html_decimal:
            return chr(int(html_decimal))
        return chr(int(json_code or url_code or html_code, 16))

    @cached_property
    def _escaped_key(self) -> re.Pattern[str]:
        """Match the key, with each character as it is or escaped once."""
        char_patterns = []
        for char in self._key:
            code = f"(?i:{ord(char):02x})"
            plain = re.escape(char)
            if char in _AFTER_BACKSLASH:
                plain = rf"\\*{plain}"
            own_entities = [name for name, text in self._char_by_entity.items() if text == char]
            entities = "".join(f"|{name}" for name in own_entities)
            # The marks of escapes may be escaped again, as in JSON within JSON.
            in_json = rf"\\{{1,16}}u00{code}"
            in_url = f"%(?:25)*{code}"
            in_html = f"&(?:amp;)*(?:#0*{ord(char)};?|#[xX]0*{code};?{entities})"
            char_patterns.append(f"(?:{plain}|{in_json}|{in_url}|{in_html})")
        return re.compile("".join(char_patterns))


def _in_utf8(response: Response) -> Response:
    """Return a response whose body is in UTF-8, as that of nearly every response is."""
    body = response.body
    mark, encoding = strict_json.encoding_of(body)
    if not mark and b"\0" in body:
        declared = _CHARSET.search(response.headers.get("content-type", ""))
        if declared is None:
            # Probably UTF-16, but of which order? Without NUL, an echoed key is found in it.
            return replace(response, body=body.replace(b"\0", b""), defect="is not JSON in a known encoding")
        encoding = declared.group(1)
    is_in_utf8 = not mark and encoding == "utf-8"
    # Without its mark, such a body would be empty, which the API allows. A mark is not JSON.
    is_only_mark = bool(mark) and body == mark
    if is_in_utf8 or is_only_mark:
        return response
    text = body[len(mark) :].decode(encoding, "replace")
    return replace(response, body=text.encode())
