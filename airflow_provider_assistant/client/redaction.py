"""Redaction of secrets: a service may repeat the API key in a response, which would reach logs and XCom."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from dataclasses import replace
from urllib.parse import quote

from airflow_provider_assistant.api.call import Response
from airflow_provider_assistant.client.network import usable_proxy
from airflow_provider_assistant.exceptions import AssistantError

REDACTED = "***"
# A key of at least SURELY_SECRET characters is always redacted. A shorter one is not redacted if it is a word or a
# number, because ordinary replies may contain it.
SURELY_SECRET = 16
SHORTEST_SECRET = 8


# An escape in JSON, such as of an ASCII character that needs none.
_ESCAPE = re.compile(rb"\\(?:u00([2-7][0-9a-fA-F])|.)", re.DOTALL)


def _unescaped(match: re.Match[bytes]) -> bytes:
    """Return the character of an escape, unless JSON has to escape it."""
    character = bytes.fromhex(match[1].decode()) if match[1] else b""
    return match[0] if character in b'"\\\x7f' else character


def is_recognisable(key: str) -> bool:
    """Return whether an API key differs enough from the words and numbers of ordinary text to be redacted."""
    if len(key) >= SURELY_SECRET:
        return True
    return len(key) >= SHORTEST_SECRET and not key.isalpha() and not key.isdecimal()


class Redactor:
    """
    Replace secrets that are recognisable by ``***``, also in the forms that they have in JSON, URLs and base64.

    Escapes of ASCII characters in a body, which JSON does not need, are undone before.
    """

    def __init__(self, *secrets: str) -> None:
        forms = {form for secret in secrets if is_recognisable(secret) for form in _forms(secret)}
        # Longest first: a form may contain another one.
        self._forms = sorted(forms, key=len, reverse=True)

    def response(self, response: Response) -> Response:
        """Return a response without the secrets in header values and body."""
        if not self._forms:
            return response
        body = response.body
        if b"\\u00" in body:
            body = _ESCAPE.sub(_unescaped, body)
        if response.defect:
            # The body may have been cut within a secret.
            body = body[: -len(self._forms[0])]
        for form in self._forms:
            body = body.replace(form.encode(), REDACTED.encode())
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
        return text


def _forms(secret: str) -> set[str]:
    in_json = json.dumps(secret)[1:-1]
    in_base64 = b64encode(secret.encode()).decode()
    return {secret, quote(secret, safe=""), in_json, in_json.replace("/", "\\/"), in_base64.rstrip("=")}


def redactor_of(base_url: str, *keys: str) -> Redactor:
    """Return the redactor of API keys, and of the credentials of the proxy that the environment names for a URL."""
    proxy = usable_proxy(base_url)
    secrets = proxy.secrets if proxy else ()
    return Redactor(*keys, *secrets)
