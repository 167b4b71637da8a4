"""Generated pages of Markdown. Each line has a word that occurs once, such as u17u."""

from __future__ import annotations

import random
from collections.abc import Sequence

LATIN = ("lorem ipsum", "dolor sit amet", "[a link](https://x.org/a)", "`a b`", "end.", "Why?", "a, b", "C#", "1.5 %")
OTHERS = ("日本語の文。", "कार्यालय", "เปิดทุกวัน", "e\u0301te\u0301", "👩‍👩‍👧", "한국어 문장입니다.", "العربية")
KINDS = ("paragraph", "table", "code", "list", "steps", "quotation", "indented", "html", "formula", "mark")
MARKS = ("---", "![](x.png)", "[a]: b\n[c]: d", "[![B](x)](y)", "{: .a}", "(a)=", "<br>")


class Pages:
    """
    Generates pages.

    :param kinds: Names of the blocks, each as often as it is named.
    :param words: Words of the lines.
    :param longest: Most words of a paragraph, and most lines of another block.
    """

    def __init__(
        self,
        dice: random.Random,
        kinds: Sequence[str] = KINDS,
        words: Sequence[str] = LATIN + OTHERS,
        longest: tuple[int, int] = (80, 10),
    ) -> None:
        self._dice = dice
        self._kinds = kinds
        self._words = words
        self._most_words, self._most_lines = longest
        self._number = 0

    def line(self, most: int = 12) -> str:
        self._number += 1
        return " ".join([f"u{self._number}u", *self._dice.choices(self._words, k=self._dice.randint(0, most))])

    def _lines(self, pattern: str) -> str:
        return "\n".join(pattern.replace("X", self.line()) for _ in range(self._dice.randint(1, self._most_lines)))

    def block(self, kind: str) -> str:
        fence = self._dice.choice(["```", "~~~~"])
        language = self._dice.choice(["", "python"])
        match kind:
            case "table":
                return "| A | B |\n|---|:-:|\n" + self._lines("|X|  value |")
            case "code":
                return f"{fence}{language}\n{self._lines('  code X')}\n{fence}"
            case "list":
                return self._lines("- X\n    - inner X")
            case "steps":
                return self._lines("1. X\n\n   more X")
            case "quotation":
                return self._lines("> X")
            case "indented":
                return self._lines("    code X")
            case "html":
                return f"<div>\n{self._lines('<p>X</p>')}\n</div>"
            case "formula":
                return f"$$\n# {self.line()}\n$$"
            case "mark":
                return self._dice.choice(MARKS)
            case _:
                return self.line(self._most_words) + self._dice.choice(["", "", ":"])

    def page(self, blocks: int = 12) -> str:
        """Return a page. Some headings have no text below."""
        parts = []
        for _ in range(self._dice.randint(1, blocks)):
            if self._dice.random() < 0.4:
                parts.append(f"{'#' * self._dice.randint(1, 4)} {self.line(1)}")
            if self._dice.random() < 0.95:
                parts.append(self.block(self._dice.choice(self._kinds)))
        return "\n\n".join(parts)
