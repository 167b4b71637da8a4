"""
Text of pages in the charset that they name, as browsers read it.

The Encoding Standard of the web gives many names to a wider charset: what calls itself iso-8859-1 is windows-1252, and
gb2312 is gb18030. webencodings knows the names. Only these charsets are read: some other codecs of Python take a time
that grows with the square of the size.
"""

from __future__ import annotations

import codecs
import re

_MARKS = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16le", codecs.BOM_UTF16_BE: "utf-16be"}
# Python's codec, where that of the same name knows fewer characters.
_CODECS = {
    "big5": "big5hkscs",
    "euc-kr": "cp949",
    "gbk": "gb18030",
    "iso-2022-jp": "iso2022_jp_ext",
    "iso-8859-8-i": "iso8859-8",
    "macintosh": "mac-roman",
    "shift_jis": "cp932",
    "windows-874": "cp874",
    "x-mac-cyrillic": "mac-cyrillic",
}
# The standard has these names only to refuse what is written in them, or for bytes that are not text.
_NOT_TEXT = frozenset({"hz-gb-2312", "replacement", "x-user-defined"})
_NAMED = re.compile(r"charset\s*=\s*[\"']?\s*([\w.:-]{1,40})", re.IGNORECASE)
_META = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([\w.:-]{1,40})", re.IGNORECASE)
# Browsers look for the charset in the first 1,024 bytes, and pages exceed them.
_HEAD = 2048


def named_charset(content: bytes, content_type: str = "") -> str | None:
    """
    Return the charset that a page names, or that its first bytes are the mark of.

    :param content_type: Value of the header ``Content-Type``, which comes before what the page itself says.
    """
    for mark, charset in _MARKS.items():
        if content.startswith(mark):
            return charset
    if named := _NAMED.search(content_type):
        return named[1]
    found = _META.search(content, 0, _HEAD)
    name = found[1].decode("ascii") if found else None
    # A page in UTF-16 could not have been read so far.
    return "utf-8" if name and name.lower().startswith("utf-16") else name


def decode(content: bytes, name: str, *, errors: str = "strict") -> str:
    """
    Return a text.

    :param name: Name of its charset, as pages write it.
    :param errors: ``strict``, or ``replace`` for what is invalid.
    :raises LookupError: There is no such charset.
    :raises UnicodeDecodeError: The text is not in this charset, and ``errors`` is ``strict``.
    """
    import webencodings

    charset = webencodings.lookup(name)
    if charset is None or charset.name in _NOT_TEXT:
        raise LookupError(f"unknown charset {name!r}")
    return content.decode(_CODECS.get(charset.name, charset.name), f"web-{errors}").removeprefix("\ufeff")


def _missing(error: UnicodeError) -> tuple[str, int] | None:
    """Return a character of the standard that Python's codec does not know, and where the text goes on."""
    if not isinstance(error, UnicodeDecodeError):
        return None
    first, second = (*error.object[error.start : error.start + 2], 0, 0)[:2]
    if error.encoding in {"euc_jp", "iso2022_jp_ext"}:
        # Both have the characters of cp932, at other places.
        row, cell = (first & 0x7F) - 0x21, (second & 0x7F) - 0x21
        if row in range(94) and cell in range(94):
            lead = row // 2 + (0x81 if row < 62 else 0xC1)
            trail = cell + 0x9F if row % 2 else cell + (0x40 if cell < 63 else 0x41)
            found = bytes([lead, trail]).decode("cp932", "ignore")
            return (found, error.start + 2) if found else None
    elif error.encoding == "gb18030" and first == 0x80:
        return "€", error.start + 1
    elif error.encoding == "charmap" and first in range(0x80, 0xA0):  # as of windows-1252
        return chr(first), error.start + 1
    return None


def _strict(error: UnicodeError) -> tuple[str | bytes, int]:
    return _missing(error) or codecs.strict_errors(error)


def _replace(error: UnicodeError) -> tuple[str | bytes, int]:
    return _missing(error) or codecs.replace_errors(error)


codecs.register_error("web-strict", _strict)
codecs.register_error("web-replace", _replace)
