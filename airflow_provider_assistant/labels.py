"""The label of a key: the values of its columns as people read them, in answers, evaluations and findings alike."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

# Characters; the ledger's column holds no more.
LABEL_LENGTH = 250
_DIGEST_LENGTH = 8
# From here on a float is an approximation, and a Decimal may have millions of digits.
_LARGE = 2**63


def label_of(names: Sequence[str], values: Sequence[Any]) -> str:
    """
    Return the label of a key: its value, or ``name=value`` of each of several columns.

    A label that is longer than ``LABEL_LENGTH`` ends in a digest of all of it, so that different keys have different
    labels. The label of a label is that label.

    :param names: The key columns.
    :param values: Their values in one row.
    """
    texts = [text_of(value) for value in values]
    if len(texts) == 1:
        return shortened(texts[0])
    return shortened(", ".join(f"{name}={text}" for name, text in zip(names, texts, strict=True)))


def text_of(value: Any) -> str:
    """Return a value as text: empty for None and NaN, and without a fraction if it is a whole number."""
    if value is None or (isinstance(value, float | Decimal) and math.isnan(value)):
        return ""
    if isinstance(value, float | Decimal) and -_LARGE < value < _LARGE and value == int(value):
        value = int(value)
    # Half a surrogate pair cannot be stored as UTF-8; it becomes an escape.
    return str(value).encode("utf-8", "backslashreplace").decode()


def shortened(label: str) -> str:
    """Return a label of at most ``LABEL_LENGTH`` characters."""
    if len(label) <= LABEL_LENGTH:
        return label
    digest = hashlib.blake2b(label.encode(), digest_size=_DIGEST_LENGTH // 2).hexdigest()
    return f"{label[: LABEL_LENGTH - _DIGEST_LENGTH - 1]}…{digest}"
