"""
Compare the chunks of ``split_documents`` with those of other splitters, on three trees of generated pages.

``make splitters`` installs the others and prints the table of docs/internals/benchmarks.md.
"""

from __future__ import annotations

import importlib.util
import logging
import random
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from tests.markdown_pages import LATIN, OTHERS, Pages

SIZE = 800
TREES: dict[str, dict[str, Any]] = {
    "reference": {"kinds": ["table", "code", "paragraph", "steps"], "words": LATIN, "longest": (80, 40)},
    "handbook": {
        "kinds": ["paragraph", "paragraph", "list", "quotation", "mark"],
        "words": LATIN,
        "longest": (200, 30),
    },
    "wiki": {"words": LATIN + OTHERS, "longest": (150, 25)},
}
# Text of the chunks of a page, and the headings that the splitter gives beside it.
Splitter = Callable[[str], Iterator[tuple[str, str]]]

_WORD = re.compile(r"u\d+u")
_TABLE = re.compile(r"(?:^ *\|.*\| *$\n?)+", re.MULTILINE)
_FENCE = re.compile(r"^ *(?:```|~~~)[^`\n]*$", re.MULTILINE)
# What is no prose: rules, targets of links, attributes, images without description, linked images, tags.
_MARKUP = re.compile(
    r"^\[\w+\]: \S+$|^\{: .a\}$|^\(a\)=$|\[!\[[^\]]*\]\([^)]*\)\]\([^)]*\)|!\[\]\([^)]*\)|\]\([^)]*\)|<[^<>]*>",
    re.MULTILINE,
)


def tree(name: str, pages: int) -> list[str]:
    """Return the pages of a tree, the same every time."""
    generated = Pages(random.Random(name), **TREES[name])
    return [generated.page(20) for _ in range(pages)]


def ours(text: str) -> Iterator[tuple[str, str]]:
    from airflow_provider_assistant.knowledge import documents_of, split_documents

    for chunk in split_documents(documents_of([{"text": text, "id": "page"}]), SIZE):
        yield chunk["content"], chunk["title"] or ""


def langchain(text: str) -> Iterator[tuple[str, str]]:
    from langchain_text_splitters import MarkdownHeaderTextSplitter, RecursiveCharacterTextSplitter

    headers = MarkdownHeaderTextSplitter([("#" * level, str(level)) for level in range(1, 7)])
    sections = headers.split_text(text)
    for chunk in RecursiveCharacterTextSplitter(chunk_size=SIZE, chunk_overlap=0).split_documents(sections):
        yield chunk.page_content, " ".join(chunk.metadata.values())


def semantic(text: str) -> Iterator[tuple[str, str]]:
    from semantic_text_splitter import MarkdownSplitter

    for chunk in MarkdownSplitter(SIZE).chunks(text):
        yield chunk, ""


SPLITTERS: dict[str, tuple[str, Splitter]] = {
    "split_documents": ("airflow_provider_assistant", ours),
    "LangChain: headers, then recursive": ("langchain_text_splitters", langchain),
    "semantic-text-splitter": ("semantic_text_splitter", semantic),
}


def faults(text: str, chunks: list[tuple[str, str]], size: int = SIZE) -> Counter[str]:
    """
    Count what is wrong with the chunks of a page.

    :param chunks: Text of each, and the headings that are kept beside it.
    """
    found: Counter[str] = Counter(chunks=len(chunks))
    kept: set[str] = set()
    for content, headings in chunks:
        kept.update(_WORD.findall(content), _WORD.findall(headings))
        found["too long"] += len(content) > size
        found["odd fences"] += len(_FENCE.findall(content)) % 2
        found["headless tables"] += any(not is_whole(table) for table in _TABLE.findall(content))
        found["without prose"] += re.search(r"\w", _FENCE.sub("", _MARKUP.sub("", content))) is None
    words = set(_WORD.findall(text))
    found["words"] += len(words)
    found["lost words"] += len(words - kept)
    return found


def is_whole(table: str) -> bool:
    """Return whether a table has a header."""
    lines = table.splitlines()
    return len(lines) > 1 and re.fullmatch(r"[\s|:-]+", lines[1]) is not None


def compared(name: str, splitter: Splitter, pages: int) -> tuple[Counter[str], float]:
    """Return the faults of a splitter on a tree, and its seconds of processor time for each MB."""
    found: Counter[str] = Counter()
    texts = tree(name, pages)
    list(splitter(texts[0]))  # imports everything
    seconds = 0.0
    for text in texts:
        started = time.process_time()
        chunks = list(splitter(text))
        seconds += time.process_time() - started
        found += faults(text, chunks)
    return found, seconds / sum(len(text.encode()) for text in texts) * 1e6


def main(pages: int = 150) -> None:
    """Print the table."""
    logging.disable()
    columns = ["odd fences", "headless tables", "without prose", "too long", "lost words"]
    print(f"| Tree | Splitter | Chunks | {' | '.join(columns)} | s per MB |\n|{'---|' * (len(columns) + 4)}")
    for name in TREES:
        for title, (library, splitter) in SPLITTERS.items():
            if importlib.util.find_spec(library) is None:
                continue
            found, seconds = compared(name, splitter, pages)
            counts = " | ".join(f"{found[column]:,}" for column in columns)
            print(f"| {name} | {title} | {found['chunks']:,} | {counts} | {seconds:.2f} |")


if __name__ == "__main__":
    main()
