"""
Text of pages in the charset that they name, as browsers read it.

The Encoding Standard of the web gives many names to a wider charset: what calls itself iso-8859-1 is windows-1252, and
gb2312 is gb18030. webencodings knows the names. Only these charsets are read: some other codecs of Python take a time
that grows with the square of the size.
"""

from __future__ import annotations

import codecs
import re

_CHARSET_BY_MARK = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF16_LE: "utf-16le",
    codecs.BOM_UTF16_BE: "utf-16be",
}
# Python's codec, where that of the same name knows fewer characters.
_CODEC_BY_CHARSET = {
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
_HEADER_CHARSET = re.compile(r"charset\s*=\s*[\"']?\s*([\w.:-]{1,40})", re.IGNORECASE)
_META_CHARSET = re.compile(
    rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([\w.:-]{1,40})",
    re.IGNORECASE,
)
_XML_CHARSET = re.compile(rb"\s*<\?xml[^>]{0,200}?encoding\s*=\s*[\"']\s*([\w.:-]{1,40})")
_COMMENT = re.compile(rb"<!--.*?-->", re.DOTALL)
# Browsers look for the charset in the first 1,024 bytes, and pages exceed them.
_SEARCHED_BYTES = 2048


def named_charset(content: bytes, content_type: str = "") -> str | None:
    """
    Return the charset that a page names, or that its first bytes are the mark of.

    :param content_type: Value of the header ``Content-Type``, which comes before what the page itself says.
    """
    for mark, charset in _CHARSET_BY_MARK.items():
        if content.startswith(mark):
            return charset
    in_header = _HEADER_CHARSET.search(content_type)
    if in_header:
        return in_header[1]
    start = _COMMENT.sub(b"", content[:_SEARCHED_BYTES])
    in_page = _META_CHARSET.search(start) or _XML_CHARSET.match(start)
    if not in_page:
        return None
    name = in_page[1].decode("ascii")
    # The tag was found as ASCII, so the page cannot be in UTF-16, whatever the tag says.
    if name.lower().startswith("utf-16"):
        return "utf-8"
    return name


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
    codec = _CODEC_BY_CHARSET.get(charset.name, charset.name)
    text = content.decode(codec, f"web-{errors}")
    return text.removeprefix("\ufeff")


def _missing_character(error: UnicodeError) -> tuple[str, int] | None:
    """Return a character that Python's codec does not know, and the position after it."""
    if not isinstance(error, UnicodeDecodeError):
        return None
    invalid = error.object[error.start : error.start + 2]
    if error.encoding in {"euc_jp", "iso2022_jp_ext"}:
        character = _from_cp932(invalid)
        if not character:
            return None
        return character, error.start + 2
    if error.encoding == "gb18030" and invalid.startswith(b"\x80"):
        return "€", error.start + 1
    if error.encoding == "charmap" and b"\x80" <= invalid[:1] < b"\xa0":  # as of windows-1252
        return chr(invalid[0]), error.start + 1
    return None


def _from_cp932(pair: bytes) -> str:
    """Return a character of EUC-JP or ISO-2022-JP, which cp932 has at another place; empty if none."""
    if len(pair) < 2:
        return ""
    row = (pair[0] & 0x7F) - 0x21
    cell = (pair[1] & 0x7F) - 0x21
    if row not in range(94) or cell not in range(94):
        return ""
    lead = row // 2 + 0x81
    if row >= 62:
        lead += 0x40
    if row % 2:
        trail = cell + 0x9F
    elif cell < 63:
        trail = cell + 0x40
    else:
        trail = cell + 0x41
    return bytes([lead, trail]).decode("cp932", "ignore")


def _strict(error: UnicodeError) -> tuple[str | bytes, int]:
    return _missing_character(error) or codecs.strict_errors(error)


def _replace(error: UnicodeError) -> tuple[str | bytes, int]:
    return _missing_character(error) or codecs.replace_errors(error)


codecs.register_error("web-strict", _strict)
codecs.register_error("web-replace", _replace)
