"""
Redaction of secrets: a service may repeat the API key in a response, which would reach logs and XCom.

A key is also found where it is escaped, as in HTML, URLs, JSON or Python, in any order and several times. A *run* is a
part of a text in which only characters of keys and of escapes stand: it is unescaped until it changes no more, and
searched each time. What is kept of a text is not unescaped.
"""

from __future__ import annotations

import functools
import html
import json
import re
from base64 import b64encode
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import replace
from string import hexdigits

from airflow_provider_assistant.api.call import Response
from airflow_provider_assistant.client.network import usable_proxy
from airflow_provider_assistant.exceptions import AssistantError

REDACTED = "***"
# A key of at least SURELY_SECRET characters is always redacted. A shorter one is not redacted if it is a word or a
# number, because ordinary replies may contain it.
SURELY_SECRET = 16
SHORTEST_SECRET = 8

# The characters that begin an escape, and all that one may consist of.
_MARKS = "%&\\"
_ESCAPING = frozenset(f"{_MARKS}#;abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")
_ESCAPE = re.compile(
    r"%[0-9a-fA-F]{2}|&#?[0-9a-zA-Z]{1,16};|\\(?:[uU]00|[xX])[0-9a-fA-F]{2}|(?:\\\\)+|\\[/'\"]",
)
# A run that is longer, or escaped more often, is redacted as a whole if it has a key or may have one.
_LONGEST_RUN = 10_000
_DEEPEST = 10


def is_recognisable(key: str) -> bool:
    """Return whether an API key differs enough from the words and numbers of ordinary text to be redacted."""
    if len(key) >= SURELY_SECRET:
        return True
    return len(key) >= SHORTEST_SECRET and not key.isalpha() and not key.isdecimal()


class Redactor:
    """Replace secrets that are recognisable by ``***``, also where they are escaped or in base64."""

    def __init__(self, *secrets: str) -> None:
        forms = {form for secret in secrets if is_recognisable(secret) for form in _forms(secret)}
        # Longest first: a form may contain another one.
        self._forms = sorted(forms, key=len, reverse=True)
        # A key may look as if it were escaped itself.
        self._unescaped = {level for form in forms for level in _levels(form)}
        shortest = min(map(len, self._unescaped), default=SHORTEST_SECRET)
        self._run_characters = "".join(sorted(_ESCAPING.union(*forms)))
        any_of, marks = f"[{re.escape(self._run_characters)}]", f"[{re.escape(_MARKS)}]"
        # Only runs with a mark. The possessive quantifiers make the search take linear time.
        self._run = re.compile(rf"(?<!{any_of})(?={any_of}{{{shortest}}})(?:(?!{marks}){any_of})*+{any_of}++")

    def response(self, response: Response) -> Response:
        """Return a response without the secrets in header values and body. A body in UTF-16 becomes one in UTF-8."""
        if not self._forms:
            return response
        body = response.body
        if b"\0" in body:
            body = body.decode(json.detect_encoding(body), "replace").encode(errors="replace")
        if response.defect:
            # The body may have been cut within a secret.
            body = body.rstrip(self._run_characters.encode("latin-1", "ignore"))
        # Each byte is a character here, so that a body in an unknown encoding stays as it is.
        body = self.text(body.decode("latin-1")).encode("latin-1")
        headers = {name: self.text(value) for name, value in response.headers.items()}
        return replace(response, headers=headers, body=body)

    def error(self, error: AssistantError) -> None:
        """Take the secrets out of the texts of an error."""
        for name, value in error.fields().items():
            if isinstance(value, str):
                setattr(error, name, self.text(value))
        error.args = (error.happened,)

    def text(self, text: str) -> str:
        """Return a text without the secrets."""
        for form in self._forms:
            text = text.replace(form, REDACTED)
        has_marks = self._forms and any(mark in text for mark in _MARKS)
        return self._run.sub(self._redacted, text) if has_marks else text

    def _redacted(self, match: re.Match[str]) -> str:
        run, rest = match[0], ""
        while self._has_secret(run):
            if len(run) > _LONGEST_RUN:
                return REDACTED + rest
            # Cut from both sides as much as the secret allows.
            start = bisect_left(range(len(run)), True, key=lambda at: not self._has_secret(run[at:])) - 1
            end = bisect_left(range(len(run)), True, lo=start, key=lambda at: self._has_secret(run[start:at]))
            run, rest = run[:start], f"{REDACTED}{run[end:]}{rest}"
        return run + rest

    def _has_secret(self, run: str) -> bool:
        for number, level in enumerate(_levels(run)):
            if number > _DEEPEST or any(secret in level for secret in self._unescaped):
                return True
        return False


def _forms(secret: str) -> set[str]:
    in_base64 = b64encode(secret.encode()).decode()
    # As a body of bytes shows it, and as a form is sent.
    in_bytes = secret.encode().decode("latin-1")
    return {secret, in_bytes, in_bytes.replace(" ", "+"), in_base64.rstrip("=")}


def _levels(text: str) -> Iterator[str]:
    """Yield a text, and what it becomes each time that all its escapes are undone once."""
    before = None
    while text != before:
        yield text
        before, text = text, _ESCAPE.sub(lambda match: _meant(match[0]), text)


@functools.lru_cache(maxsize=4096)
def _meant(escape: str) -> str:
    """Return the character that an escape stands for."""
    if escape[0] == "&":
        return html.unescape(escape)
    is_number = escape[-1] in hexdigits
    return chr(int(escape[-2:], 16)) if is_number else escape[1::2]


def redactor_of(base_url: str, *keys: str) -> Redactor:
    """Return the redactor of API keys, and of the credentials of the proxy that the environment names for a URL."""
    proxy = usable_proxy(base_url)
    secrets = proxy.secrets if proxy else ()
    return Redactor(*keys, *secrets)
