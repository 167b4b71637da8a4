"""Stable session ids for the scopes the specification suggests (section 1, guidance on sessions)."""

from __future__ import annotations

import hashlib
import hmac
from typing import Literal

from airflow_provider_assistant.exceptions import AssistantInputError


def session_id(scope: Literal["visitor", "customer", "thread", "channel"], *identity: str, secret: str = "") -> str:
    """
    Return a session id that is the same in every run and shows no personal data.

    :param scope: One website visitor, authenticated customer, support thread, or user of a messaging channel.
    :param identity: What identifies it: a visitor, customer or thread id; for ``channel``, the channel and
        its user.
    :param secret: Keys the digest. Without one, somebody who knows all candidate identities, such as a list
        of e-mail addresses, can find out which of them a session belongs to.
    :raises AssistantInputError: An identity is empty.
    """
    if not identity or not all(isinstance(part, str) and part.strip() for part in identity):
        raise AssistantInputError(f"a {scope} session needs a non-empty identity", field="identity")
    # Lengths keep ("ab", "c") and ("a", "bc") apart.
    message = "".join(f"{len(part)}:{part}" for part in (scope, *identity))
    digest = hmac.new(secret.encode(), message.encode(), hashlib.sha256).hexdigest()
    return f"{scope}-{digest[:32]}"
