"""
Keep the e-mail addresses of users out of messages.

A path may have an address in it. Messages and file names show a label instead, and no text of a reply to such a path.
"""

from __future__ import annotations

import hashlib
import html
import re
import unicodedata
from urllib.parse import unquote

WITHHELD = "(withheld, because it may contain a user's e-mail address)"
# How many times over a text may be escaped.
ESCAPED_TIMES = 5
_JSON_ESCAPE = re.compile(r"\\+u([0-9a-fA-F]{4})")
# A word as addresses are: what is not in it ends an address in a text or a URL.
_WORD = re.compile(r"[^\s/?&=#<>\[\](){},;:\"`|\\]+")
_MARKS = ("@", "%", "\ufe6b", "\uff20")
# The @ of an address in HTML or in JSON in a text.
_ESCAPED_AT = re.compile(r"&#0*64;|&#[xX]0*40;|&commat;|\\+u0040")


def user_label(address: str) -> str:
    """
    Return a label that stands for an e-mail address: ``user-`` and 12 hexadecimal digits.

    The same address always has the same label, in any case and percent-encoded or not, so anyone who knows an address
    can find its label.
    """
    digest = hashlib.sha256(unescaped(address).strip().encode("utf-8", "replace")).hexdigest()
    return f"user-{digest[:12]}"


def without_addresses(text: str) -> str:
    """Return a text with the label of each e-mail address in its place; an address may be percent-encoded."""
    if "&" in text or "\\" in text:
        text = _ESCAPED_AT.sub("@", text)
    if not any(mark in text for mark in _MARKS):
        return text
    return _WORD.sub(_word_without_address, text)


def _word_without_address(match: re.Match[str]) -> str:
    word = match.group()
    if not any(mark in word for mark in _MARKS):
        return word
    name, _, domain = unescaped(word).partition("@")
    is_address = any(map(str.isalnum, name)) and any(map(str.isalnum, domain))
    if not is_address:
        return word
    # Quotation marks and the end of a sentence are not part of the address.
    address = word.lstrip("'").rstrip(".!'")
    return word.replace(address, user_label(address), 1)


def shown_path(path: str) -> str:
    """Return a path for messages: without its query, and with labels for e-mail addresses and ids of users."""
    shown: list[str] = []
    for segment in re.split(r"[?#]", path, maxsplit=1)[0].split("/"):
        is_user = "@" in unescaped(segment) or (segment and shown[-1:] == ["users"])
        shown.append(user_label(segment) if is_user else segment)
    return "/".join(shown)


def names_user(path: str) -> bool:
    """Return whether a path identifies a user, also in its query."""
    return "@" in unescaped(path) or shown_path(path) != re.split(r"[?#]", path, maxsplit=1)[0]


def unescaped(text: str) -> str:
    """Return a text in lower case and without the escapes of URLs, HTML and JSON."""
    for _ in range(ESCAPED_TIMES):
        without_json = _JSON_ESCAPE.sub(lambda match: chr(int(match.group(1), 16)), text)
        without_escapes = html.unescape(unquote(without_json))
        if without_escapes == text:
            break
        text = without_escapes
    # This also turns the wide forms of @ into @.
    return unicodedata.normalize("NFKC", text).casefold()
