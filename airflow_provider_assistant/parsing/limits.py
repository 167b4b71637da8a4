"""Limits of a file and of its text."""

from __future__ import annotations

import contextlib
import resource

# Bytes of a file, and of the members of its archive; how many of these, and how many pages and characters of text.
LARGEST_FILE, LARGEST_ARCHIVE = 100_000_000, 400_000_000
MOST_MEMBERS, MOST_PAGES, MOST_CHARACTERS = 10_000, 5_000, 10_000_000
# Of one file: seconds of processor time, and bytes of memory.
SECONDS, MEMORY = 120, 2 * 2**30
# On the clock, a file may take this many times as long, because a busy machine does not work on it all the time.
BUSY = 5


class UnreadableFileError(ValueError):
    """
    A file is damaged, encrypted or too large. The message continues "file 'x' …" and ends without a full stop.

    :param problem: What is wrong, such as ``is encrypted``.
    """


class Text:
    """Collects the blocks of a text, up to the limit."""

    def __init__(self) -> None:
        self._blocks: list[str] = []
        self._length = 0

    def add(self, block: str) -> None:
        """
        Add a block, unless it is blank.

        :param block: A paragraph, heading, list or table in Markdown.
        :raises UnreadableFileError: The text is too long.
        """
        self._length += len(block) + 2
        if self._length > MOST_CHARACTERS:
            raise UnreadableFileError(f"has more than {MOST_CHARACTERS:,} characters of text")
        if block.strip():
            self._blocks.append(block.strip("\n"))

    def __str__(self) -> str:
        """Return the text, with an empty line between blocks."""
        return "\n\n".join(self._blocks)


def limit_resource(kind: int, value: int) -> None:
    """
    Limit a resource of this process.

    :param kind: One of the constants of ``resource``, such as ``RLIMIT_CPU``.
    """
    _, hard_limit = resource.getrlimit(kind)
    soft_limit = value
    if hard_limit != resource.RLIM_INFINITY:
        soft_limit = min(value, hard_limit)
    with contextlib.suppress(ValueError, OSError):  # macOS does not limit the address space
        resource.setrlimit(kind, (soft_limit, hard_limit))
