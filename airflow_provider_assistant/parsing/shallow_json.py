"""Decode JSON of limited depth."""

from __future__ import annotations

import json
import re
from itertools import accumulate
from typing import Any

# Far more than any reply or row needs, and far below Python's recursion limit, which also limits XCom.
MAX_DEPTH = 100
# The closing quotation mark is optional and the quantifiers are possessive, so the search takes linear time even if a
# string has no end.
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_LEVELS = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_NO_BRACKETS = bytes(set(range(256)) - set(_LEVELS))


class TooDeepError(ValueError):
    """Raised for JSON that is nested too deeply."""


def loads(content: bytes) -> Any:
    """
    Return the value of a JSON text.

    Python's parser calls itself for each level. Near the recursion limit, the garbage collector may interrupt it, and
    the finalizers of other objects then fail. So the depth is counted before the text is parsed.

    :param content: The text, in UTF-8, UTF-16 or UTF-32.
    :return: The value.
    :raises TooDeepError: The text is nested more than MAX_DEPTH levels deep.
    :raises ValueError: The text is not JSON.
    """
    if content.count(b"[") + content.count(b"{") > MAX_DEPTH and _depth(content) > MAX_DEPTH:
        raise TooDeepError(f"nested more than {MAX_DEPTH} levels deep")
    return json.loads(content)


def _depth(content: bytes) -> int:
    text = content.decode(json.detect_encoding(content), "surrogatepass").encode("utf-8", "surrogatepass")
    brackets = _STRING.sub(b"", text).translate(None, _NO_BRACKETS)
    return max(accumulate(map(_LEVELS.__getitem__, brackets)), default=0)
