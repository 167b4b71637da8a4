"""
Benchmark of a handbook in Markdown: reading, splitting and hashing it, and loading it twice.

``python -m tests.benchmarks.handbook FOLDER`` reads and splits a handbook, and prints its memory and processor time.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from airflow_provider_assistant.knowledge import file_documents, split_documents, write_documents
from tests.benchmarks import loads
from tests.benchmarks.measure import Figure, Size, reset_peak, status, worked
from tests.benchmarks.service import Service

PAGES, SECTIONS, PARAGRAPHS = 5_000, 20, 4
CHUNK = 2_000


def handbook(service: Service, size: Size) -> list[Figure]:
    """Read 5,000 pages of 20 sections, split them into 100,000 chunks, and load these twice."""
    pages = size.rows(PAGES)
    with tempfile.TemporaryDirectory() as folder, loads.sqlite_ledger(Path(folder)) as ledger:
        root = Path(folder) / "handbook"
        megabytes = write_pages(root, pages)
        split = worked("tests.benchmarks.handbook", str(root))
        service.reset()
        first, again = (_loaded(root, service, ledger) for _ in range(2))
        sent = service.created()
    chunks = pages * SECTIONS
    if (split["chunks"], first["created"], again["unchanged"], sent) != (chunks, chunks, chunks, chunks):
        raise RuntimeError(f"not all of {chunks} chunks: {split}, {first}, {again}, {sent} sent")
    return [
        Figure(f"{chunks:,} chunks: read, split and hashed", megabytes / split["seconds"], 20, unit="MB per core s"),
        Figure("peak above import", split["peak_mb"], 200, at_most=True, unit="MB"),
        Figure("first load", first["seconds"], unit="s"),
        Figure("the same handbook again", again["seconds"] / first["seconds"], 0.1, at_most=True),
        Figure("requests sent by the second load", sent - chunks, 0, at_most=True, unit=""),
    ]


def write_pages(root: Path, count: int) -> float:
    """Write pages of random words, the same every time; return their size in MB."""
    words = random.Random(1)
    vocabulary = ["".join(words.choices("abcdefghijklmnopqrstuvwxyz", k=words.randint(2, 10))) for _ in range(5_000)]
    written = 0
    for page in range(count):
        folder = root / f"part-{page % 50}"
        folder.mkdir(parents=True, exist_ok=True)
        sections = (
            f"## Section {section} of page {page}\n\n"
            + "\n\n".join(" ".join(words.choices(vocabulary, k=30)).capitalize() + "." for _ in range(PARAGRAPHS))
            for section in range(SECTIONS)
        )
        text = f"---\ntitle: Page {page}\ncategory: handbook\n---\n" + "\n\n".join(sections)
        written += (folder / f"page-{page}.md").write_text(text)
    return written / 1e6


def _chunks(root: Path) -> Iterator[Any]:
    return split_documents(file_documents(str(root)), CHUNK)


def _loaded(root: Path, service: Service, ledger: Any) -> dict[str, Any]:
    """Read, split and load the handbook, as the two tasks of a DAG do; return the counts and the seconds."""
    import pyarrow.parquet as pq

    path, columns = root.parent / "chunks.parquet", ["key", "title", "title", "content", "category"]
    started = time.perf_counter()
    write_documents(_chunks(root), path)
    table = pq.read_table(path, columns=sorted(set(columns)))
    pq.write_table(table.select(columns).rename_columns(["id", "title", "question", "answer", "category"]), path)
    counts, _ = loads.load(str(path), service, ledger, scope="handbook")
    return {"created": counts.created, "unchanged": counts.unchanged, "seconds": time.perf_counter() - started}


def _split(folder: str) -> dict[str, Any]:
    small = next(Path(folder).iterdir())
    next(_chunks(small))  # imports everything
    before, started = reset_peak(), time.process_time()
    count = sum(1 for _ in _chunks(Path(folder)))
    seconds = time.process_time() - started
    return {"chunks": count, "seconds": seconds, "peak_mb": round(status("VmHWM") - before, 1)}


if __name__ == "__main__":
    print(json.dumps(_split(sys.argv[1])))
