"""Groups of documents: the page, file or ticket that their rows belong to."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

from airflow_provider_assistant.keys import short_label

# Columns of the group of a document.
GROUP_COLUMNS = ("group_key", "group_label")


class DocumentGroup(NamedTuple):
    """
    Hold the group of a document.

    :param key: First eight bytes of the hash of the group's name, as the signed integer that every database stores.
    :param label: The name, cut to the length of a key label.
    """

    key: int
    label: str


def document_group(name: str) -> DocumentGroup:
    """
    Return the group of a name.

    :param name: Name of the group: the values of the group columns as text, see
        :func:`~airflow_provider_assistant.keys.whole_label`.
    """
    digest = hashlib.blake2b(name.encode(), digest_size=8).digest()
    key = int.from_bytes(digest, "big", signed=True)
    return DocumentGroup(key=key, label=short_label(name))
