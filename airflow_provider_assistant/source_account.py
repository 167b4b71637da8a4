"""The account of a source: what of it was read, and what was left out, by reason."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Generic, Self, TypeVar

from airflow_provider_assistant.exceptions import NOTHING_SENT, AssistantInputError
from airflow_provider_assistant.parsing.pages import Note
from airflow_provider_assistant.texts import counted, escaped, shortened

# Number of examples that are kept of each reason, and that a line of the log shows.
EXAMPLES = 20
SHOWN = 3
# Characters of an example, and of a reason, which may quote the source, in a line of the log.
EXAMPLE_LENGTH = 80
REASON_LENGTH = 300

# Key of the account in the metadata of a Parquet file, as JSON.
ACCOUNT = b"assistant_source_account"

Row = TypeVar("Row")

log = logging.getLogger(__name__)


@dataclass(slots=True)
class LeftOut:
    """
    Count what was left out for one reason.

    :param unit: What is counted: ``row``, ``file``, ``page``, ``chunk`` or ``word``, for example.
    :param reason: Why, as a predicate without the example, such as ``is a draft``.
    :param is_expected: Whether the owner of the source wants it left out, such as a draft. Otherwise content could be
        lost.
    :param examples: Names of the first ones, such as paths or addresses.
    """

    unit: str
    reason: str
    is_expected: bool
    count: int = 0
    examples: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        text = f"{counted(self.count, self.unit)} left out: {shortened(escaped(self.reason), REASON_LENGTH)}"
        shown = [shortened(escaped(example), EXAMPLE_LENGTH) for example in self.examples[:SHOWN]]
        # Words are named by their file.
        named = len(self.examples) if self.unit == "word" else self.count
        if named > len(shown):
            shown.append("…")
        return f"{text} ({', '.join(shown)})" if self.examples else text


class SourceAccount:
    """Count what of a source was read, and what was left out, by reason."""

    def __init__(self) -> None:
        # Number of items by their unit.
        self._read: Counter[str] = Counter()
        self._left_out: dict[tuple[str, str], LeftOut] = {}

    def read(self, unit: str, count: int = 1) -> None:
        """Count items that were read."""
        self._read[unit] += count

    def leave_out(self, unit: str, reason: str, example: str = "", *, is_expected: bool, count: int = 1) -> None:
        """
        Count items that were left out.

        :param unit: See :class:`LeftOut`, as the other parameters.
        :param example: Name of the item, or of the file or page that it is a part of. Empty for none.
        """
        entry = self._left_out.setdefault((unit, reason), LeftOut(unit, reason, is_expected))
        entry.count += count
        entry.is_expected = entry.is_expected and is_expected
        if example and example not in entry.examples and len(entry.examples) < EXAMPLES:
            entry.examples.append(example)

    @property
    def left_out(self) -> list[LeftOut]:
        """What was left out: first what could hide lost content, then the largest counts."""
        return sorted(
            self._left_out.values(),
            key=lambda left_out: (left_out.is_expected, -left_out.count, left_out.unit, left_out.reason),
        )

    @property
    def unexpected(self) -> list[LeftOut]:
        """What was left out and could hide that content is lost."""
        return [left_out for left_out in self.left_out if not left_out.is_expected]

    @property
    def count(self) -> int:
        """Number of files, pages, chunks and rows that were left out, without words of documents that were read."""
        return sum(left_out.count for left_out in self._left_out.values() if left_out.unit != "word")

    def notes(self) -> list[Note]:
        """Return what was left out, each with the first example."""
        notes = []
        for one in self.left_out:
            name = one.examples[0] if one.examples else ""
            notes.append(Note(one.unit, one.reason, one.is_expected, one.count, name))
        return notes

    def log(self) -> None:
        """Log the account, with a warning for each reason that could hide lost content."""
        for unit, count in self._read.items():
            log.info("Source: %s read", counted(count, unit))
        for left_out in self.left_out:
            log.log(logging.INFO if left_out.is_expected else logging.WARNING, "Source: %s", left_out)

    def check(self) -> None:
        """
        Refuse a source of which something was left out that could hide lost content.

        :raises AssistantInputError: There is such a thing; the message lists all of them.
        """
        if self.unexpected:
            reasons = "; ".join(map(str, self.unexpected))
            raise AssistantInputError(
                f"strict=True, and the source is not read as a whole. {reasons}",
                safe=NOTHING_SENT,
                todo="Repair or remove what is named, exclude it from the source, or set strict=False.",
                field="strict",
            )

    def as_dict(self) -> dict[str, Any]:
        """Return the account as plain JSON types, for :meth:`from_dict`."""
        return {"read": dict(self._read), "left_out": [asdict(left_out) for left_out in self.left_out]}

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> Self:
        """Return the account that :meth:`as_dict` described."""
        account = cls()
        account._read.update(given["read"])
        for fields in given["left_out"]:
            left_out = LeftOut(**fields)
            account._left_out[left_out.unit, left_out.reason] = left_out
        return account


class AccountedRows(Iterator[Row], Generic[Row]):
    """
    Provide rows one after the other, and the account of their source.

    :param rows: Function of the account that returns the rows and counts what they leave out.
    :param source: Rows of which these are made. Their account is a part of this one.
    :param strict: Whether to raise an error after the last row if something was left out that could hide lost content.
    :ivar account: Complete after the last row.
    :ivar is_last_step: Whether no other step takes these rows. The last step logs the account.
    """

    def __init__(
        self,
        rows: Callable[[SourceAccount], Iterator[Row]],
        *,
        source: Iterable[Any] = (),
        strict: bool = False,
    ) -> None:
        self.account = SourceAccount()
        self.is_last_step = True
        if isinstance(source, AccountedRows):
            # Steps share one account: it grows while the rows are read.
            self.account = source.account
            source.is_last_step = False
        self._rows = self._checked(rows(self.account), strict=strict)

    def __next__(self) -> Row:
        """
        Return the next row.

        :raises AssistantInputError: There are no more rows, and with ``strict`` something was left out.
        """
        return next(self._rows)

    def _checked(self, rows: Iterator[Row], *, strict: bool) -> Iterator[Row]:
        yield from rows
        if self.is_last_step:
            self.account.log()
        if strict:
            self.account.check()
