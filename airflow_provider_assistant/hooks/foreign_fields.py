"""Names that other libraries give to the fields of a connection, and what to use instead."""

from __future__ import annotations

import difflib
from collections.abc import Collection

_PROXY = "Proxies are read from the environment (HTTPS_PROXY, NO_PROXY), not from the connection."
_CERTIFICATE = "Use client_cert for the path of the client certificate, and client_key for that of its key."
_TLS = "Use verify (true or false), or ca_bundle for the path of your CA certificates."
_KEY = "Put the API key into the password field."
_URL = "Put the base URL into the host field."
_HEADERS = "No further headers, cookies or credentials are sent, only the API key in the password field."

# What to use, by the words of a name. The first words that a name contains decide.
_ADVICE = {
    ("proxies", "proxy"): _PROXY,
    ("client_cert", "client_key", "certfile", "keyfile"): _CERTIFICATE,
    ("ca_cert", "cafile", "ca_file", "cacert", "ca_path", "ssl_ca"): "Use ca_bundle.",
    ("ssl", "tls", "verify"): _TLS,
    ("cert",): _CERTIFICATE,
    ("header", "cookie", "auth", "user_agent"): _HEADERS,
    ("key", "token", "secret", "password"): _KEY,
    ("url", "host", "endpoint", "server"): _URL,
    ("redirect",): "Redirects are never followed.",
    ("trust_env",): _PROXY,
    ("retr", "attempts"): "Use retries.",
    ("timeout",): "Use timeout or chat_timeout, in seconds.",
    ("connections", "pool", "concurren", "parallel"): "Use max_concurrency.",
    ("tenant", "workspace"): "Use tenant_id.",
    ("site", "chatbot"): "Use site_id.",
}


def what_to_use(name: str, known: Collection[str]) -> str:
    """
    Return what to use instead of a field that a connection does not have, as a sentence; empty if that is not clear.

    :param known: Names of the fields that it has.
    """
    # Old forms of Airflow wrote extra__assistant__site_id.
    plain = name.lower().replace("-", "_").rpartition("__")[2]
    similar = difflib.get_close_matches(plain, known, n=1, cutoff=0.85)
    if similar:
        return f"Use {similar[0]}."
    for words, advice in _ADVICE.items():
        if any(word in plain for word in words):
            return advice
    return ""
