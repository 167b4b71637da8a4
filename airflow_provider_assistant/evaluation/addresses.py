"""Find the addresses that an answer names."""

from __future__ import annotations

import re
from urllib.parse import unquote

# What separates an address from the text around it, also in the Markdown link `[text](address)` and in HTML.
_SEPARATORS = re.compile(r"[\s<>\"`|\[\]\\^{}]+")
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_OPENING = "(*_~'\u2018\u201c\u00ab\uff08\u300a\u300c"
_CLOSING = "'.,;:!?*_~\u2026\u2019\u201d\u00bb\u3002\u3001\uff0c\uff1a\uff1b\uff01\uff1f\uff09\u300b\u300d"
# Browsers and servers refuse longer ones.
_MAX_LENGTH = 4096


def address(url: str) -> str:
    """
    Return the form of an address in which equal pages are equal.

    Scheme, fragment, the case of the host, percent encoding and a slash at the end of the path make no difference.

    :param url: The address, with or without scheme.
    """
    without_scheme = _SCHEME.sub("", url.strip(), count=1)
    without_fragment, _, _ = without_scheme.partition("#")
    host_and_path, _, query = without_fragment.partition("?")
    host, _, path = host_and_path.partition("/")
    page = f"{host.lower()}/{unquote(path)}".rstrip("/")
    return f"{page}?{query}" if query else page


def addresses_in(text: str) -> set[str]:
    """
    Return the addresses in a text, as :func:`address` writes them.

    Everything that looks like an address counts: plain text, Markdown and HTML, with or without scheme. Punctuation at
    its end does not belong to it, nor does a closing parenthesis that is not opened in it.
    """
    addresses = set()
    for word in _SEPARATORS.split(text):
        if 3 < len(word) <= _MAX_LENGTH:
            trimmed = _without_punctuation(word)
            if "." in trimmed or "://" in trimmed:
                addresses.add(address(trimmed))
    return addresses


def is_address(text: str) -> bool:
    """Return whether a text can be an address: one word with a scheme or a dot."""
    is_word = len(text) <= _MAX_LENGTH and not _SEPARATORS.search(text)
    return is_word and ("." in text or "://" in text)


def _without_punctuation(word: str) -> str:
    """Return a word without the text before its scheme and the punctuation around it."""
    scheme = re.search(r"https?://", word, re.IGNORECASE)
    # "see:https://…", and languages without spaces
    word = word[scheme.start() :] if scheme else word.lstrip(_OPENING)
    # At the end of "example.com/a_(b))", only one parenthesis belongs to the address.
    unopened = word.count(")") - word.count("(")
    while word:
        if word[-1] in _CLOSING:
            word = word.rstrip(_CLOSING)
        elif word[-1] == ")" and unopened > 0:
            word = word[:-1]
            unopened -= 1
        else:
            break
    return word
