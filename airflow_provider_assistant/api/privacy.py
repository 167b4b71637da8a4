"""
Keep the e-mail addresses of users out of messages.

Some routes have an address in their path. Messages, spans and file names show a label instead, and the text of a reply
that may repeat the address is withheld.
"""

from __future__ import annotations

import hashlib
import html
import re
import unicodedata
from urllib.parse import parse_qsl, unquote

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
    Return a label that stands for an e-mail address.

    The same address always has the same label, so anyone who knows an address can find its label.

    :param address: The address, in any case and percent-encoded or not.
    :return: ``user-`` and 12 hexadecimal digits.
    """
    digest = hashlib.sha256(unescaped(address).strip().encode("utf-8", "replace")).hexdigest()
    return f"user-{digest[:12]}"


def without_addresses(text: str) -> str:
    """
    Return a text with the label of each e-mail address in its place.

    :param text: The text; an address in it may be percent-encoded.
    """
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
    """
    Return a path as it may appear in messages.

    :param path: Path below the base URL, percent-encoded.
    :return: The path without its query. Labels replace segments with an e-mail address, and ids of users.
    """
    without_query = re.split(r"[?#]", path, maxsplit=1)[0]
    private = set(private_texts(path))
    segments = []
    for segment in without_query.split("/"):
        is_private = unescaped(segment) in private
        segments.append(user_label(segment) if is_private else segment)
    return "/".join(segments)


def private_texts(path: str) -> tuple[str, ...]:
    """
    Return the texts in a path that must not appear in messages: e-mail addresses, and what follows ``users``.

    :param path: Path below the base URL, percent-encoded, also with a query.
    :return: The texts, unescaped and in lower case.
    """
    without_query, _, query = path.partition("?")
    texts = []
    previous = ""
    for segment in without_query.split("/"):
        text = unescaped(segment)
        if "@" in text or (previous == "users" and text):
            texts.append(text)
        previous = text
    for _, value in parse_qsl(query):
        text = unescaped(value)
        if "@" in text:
            texts.append(text)
    return tuple(texts)


def may_contain(text: str, private: tuple[str, ...]) -> bool:
    """
    Return whether a text may contain one of the private texts, in any case and escaped in any usual way.

    :param text: Text from outside, such as the error message of a reply.
    :param private: Texts that :func:`private_texts` returned.
    """
    shown = unescaped(text)
    # The name before the @ identifies a user as well.
    names = [private_text.partition("@")[0] or private_text for private_text in private]
    return any(name in shown for name in names)


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
