"""The format of files of rows, as the parameter ``csv_options`` and the command line give it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.loading.options import FORMATS

# A character that cannot be typed, such as \t or \x01.
_ESCAPE = re.compile(r"\\(?:t|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4})")


@dataclass(frozen=True, slots=True)
class CsvOptions:
    r"""
    Describe the format of files of rows. ``format`` and ``encoding`` count for JSON as well, the others for CSV.

    :param format: ``csv``, ``tsv``, ``json lines``, ``json`` or ``parquet``. Default: by the suffix of each file.
    :param delimiter: Text between cells; ``\t`` is a tab and ``\x01`` a control character. Default: comma, in files
        whose format is ``tsv`` a tab.
    :param encoding: Python name of the encoding, such as ``cp1252``. A byte order mark in the file counts more.
        Default: UTF-8.
    :param quote: Character around cells that contain the delimiter or a line break. Empty or None: cells have no
        quotes. Default: double quote.
    :param escape: Character that takes away the meaning of the next one. Default: none, a quote is doubled.
    :param header: Names of the columns of files without a line of names, or False to name their columns ``1``, ``2``
        and so on. Default: True, the first row has the names.
    :param skip_lines: Number of lines before the line of names. Default: 0.
    :param null_texts: Text, or texts, that mean "no value", such as ``\N``. Default: none.
    :param skip_blanks_after_delimiter: Whether blanks at the beginning of a cell do not count. Default: False.
    """

    format: str = ""
    delimiter: str = ""
    encoding: str = ""
    quote: str = '"'
    escape: str = ""
    header: bool | Sequence[str] = True
    skip_lines: int = 0
    null_texts: Sequence[str] = ()
    skip_blanks_after_delimiter: bool = False

    @classmethod
    def of(cls, given: Mapping[str, Any] | CsvOptions | None) -> Self:
        """
        Build the options from a mapping, and validate them.

        :param given: Mapping with any of the fields, whose numbers and truth values may be text; None for the defaults.
        :raises AssistantInputError: An option is unknown or its value is invalid.
        """
        if isinstance(given, cls):
            return given
        names = [field.name for field in fields(cls)]
        if given is not None and (not isinstance(given, Mapping) or set(given) - set(names)):
            raise AssistantInputError(
                f"csv_options must be a mapping with some of {', '.join(names)}, not {given!r}", field="csv_options"
            )
        values = {name: _CONVERSIONS[name](name, value) for name, value in (given or {}).items()}
        if values.get("escape") == values.get("quote", '"'):
            # Some tools call a doubled quote so.
            values["escape"] = ""
        return cls(**values).checked()

    def checked(self) -> Self:
        """Validate the options and return them."""
        if self.format and self.format not in FORMATS:
            raise _invalid("format", f"must be one of {', '.join(FORMATS)}", self.format)
        if "\r" in self.delimiter or "\n" in self.delimiter:
            raise _invalid("delimiter", "must not contain a line break", self.delimiter)
        for name in ("quote", "escape"):
            value = getattr(self, name)
            if len(value) > 1 or value in ("\r", "\n"):
                raise _invalid(name, "must be one character", value)
        for name in ("quote", "escape"):
            value = getattr(self, name)
            if value and value in (self.delimiter or ","):
                raise AssistantInputError(f"csv_options: delimiter and {name} must differ", field=name)
        if self.skip_blanks_after_delimiter and self.delimiter.startswith(" "):
            raise _invalid("skip_blanks_after_delimiter", "cannot be used with a delimiter of blanks", True)
        if self.encoding:
            try:
                # Unlike codecs.lookup(), this refuses codecs that are not for text, such as rot13.
                "a".encode(self.encoding)
            except (LookupError, ValueError):
                raise AssistantInputError(
                    f"csv_options: Python has no encoding {self.encoding!r} for text", field="encoding"
                ) from None
        return self


def _invalid(name: str, expected: str, value: Any) -> AssistantInputError:
    return AssistantInputError(f"csv_options: {name} {expected}, not {value!r}", field=name)


def _text(name: str, value: Any) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise _invalid(name, "must be text", value)
    return value


def _character(name: str, value: Any) -> str:
    text = _text(name, value)
    if _ESCAPE.fullmatch(text):
        return text.encode().decode("unicode_escape")
    return text


def _flag(name: str, value: Any) -> bool:
    flag = str(value).lower()
    if flag not in {"true", "false"}:
        raise _invalid(name, "must be True or False", value)
    return flag == "true"


def _number(name: str, value: Any) -> int:
    digits = str(value)
    if not digits.isdecimal():
        raise _invalid(name, "must be a whole number, at least 0", value)
    return int(digits)


def _texts(name: str, value: Any) -> tuple[str, ...]:
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list | tuple) or not all(isinstance(text, str) for text in texts):
        raise _invalid(name, "must be text or a list of texts", value)
    return tuple(texts)


def _header(name: str, value: Any) -> bool | tuple[str, ...]:
    if isinstance(value, bool) or str(value).lower() in {"true", "false"}:
        return _flag(name, value)
    names = _texts(name, value)
    if isinstance(value, str) or not names:
        raise _invalid(name, "must be True, False or a list of column names", value)
    return names


_CONVERSIONS: Mapping[str, Callable[[str, Any], Any]] = {
    "format": _text,
    "delimiter": _character,
    "encoding": _text,
    "quote": _character,
    "escape": _character,
    "header": _header,
    "skip_lines": _number,
    "null_texts": _texts,
    "skip_blanks_after_delimiter": _flag,
}
