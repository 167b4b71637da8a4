"""Stable session ids for website visitors, customers, support threads and messaging channels."""

from __future__ import annotations

import hashlib
import hmac
from typing import Literal

from airflow_provider_assistant.exceptions import AssistantInputError


def session_id(scope: Literal["visitor", "customer", "thread", "channel"], *identity: str, secret: str = "") -> str:
    """
    Return a session id that is the same in every run and contains no personal data.

    :param scope: Kind of session: one per website visitor, authenticated customer, support thread, or user of a
        messaging channel.
    :param identity: Id of the visitor, customer or thread; for ``channel``, the channel and the user's id in it.
    :param secret: Key of the hash. Without one, somebody with a list of candidate identities, such as e-mail addresses,
        can find out which of them a session belongs to. Default: empty.
    :return: ``<scope>-`` and 32 hexadecimal digits.
    :raises AssistantInputError: No identity is given, or one is empty.
    """
    is_complete = all(isinstance(part, str) and part.strip() for part in identity)
    if not identity or not is_complete:
        raise AssistantInputError(f"a {scope} session needs a non-empty identity", field="identity")
    # Include lengths, so that ("ab", "c") and ("a", "bc") have different hashes.
    parts = [scope, *identity]
    message = "".join(f"{len(part)}:{part}" for part in parts)
    digest = hmac.new(secret.encode(), message.encode(), hashlib.sha256).hexdigest()
    return f"{scope}-{digest[:32]}"
