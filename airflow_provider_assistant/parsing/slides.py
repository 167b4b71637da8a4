"""PowerPoint files as Markdown: each slide is a section."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from airflow_provider_assistant.parsing.markdown import escaped, heading
from airflow_provider_assistant.parsing.office import Package, text_of
from airflow_provider_assistant.parsing.pages import Page
from airflow_provider_assistant.parsing.writer import table

_TITLES = frozenset({"title", "ctrTitle"})
# Date, footer, header and number: they repeat on every slide, or change from day to day.
_REPEATED = frozenset({"dt", "ftr", "hdr", "sldNum"})
_ON = frozenset({"1", "true"})


def slides(content: bytes) -> Page:
    """
    Return a PowerPoint file. Hidden slides, notes, footers and slide numbers are left out.

    :raises UnreadableFileError: The file is damaged, encrypted or too large.
    """
    package = Package(content)
    return package.page(_blocks(package))


def _blocks(package: Package) -> Iterator[str]:
    for reference in package.tree(package.main).iter("{*}sldId"):
        relation = package.used(package.main, reference)
        if relation and relation.target in package.parts:
            yield from _slide(package, relation.target)


def _slide(package: Package, name: str) -> Iterator[str]:
    slide = package.tree(name)
    if slide.get("show") in {"0", "false"}:
        package.leave_out(text_of(slide), "on a hidden slide")
        for text in package.drawn_text(name):
            package.leave_out(text, "on a hidden slide")
        return
    _remove_unshown(package, slide)
    title = ""
    blocks = []
    for text_body in slide.iter("{*}txBody", "{*}tbl"):
        if next(text_body.iterancestors("{*}tbl"), None) is not None:
            continue  # a cell of a table
        if text_body.tag.endswith("}tbl"):
            blocks.append(table([_cells(package, row) for row in text_body.iter("{*}tr")]))
        elif not title and _placeholder(text_body.getparent()) in _TITLES:
            title = text_of(text_body)
        else:
            blocks.append(escaped(text_of(text_body).strip()))
    yield heading(title, 2)
    yield from blocks
    yield from package.drawn_text(name)


def _remove_unshown(package: Package, slide: Any) -> None:
    # Older programs read this copy.
    for fallback in list(slide.iter("{*}Fallback")):
        fallback.getparent().remove(fallback)
    for shape in list(slide.iter("{*}sp", "{*}grpSp", "{*}graphicFrame")):
        if any(properties.get("hidden") in _ON for properties in shape.iterfind("*/{*}cNvPr")):
            package.remove(shape, "in a hidden shape")
        elif _placeholder(shape) in _REPEATED:
            package.remove(shape, "in the footer of a slide")


def _placeholder(shape: Any) -> str | None:
    for placeholder in shape.iterfind("*/{*}nvPr/{*}ph"):
        kind: str | None = placeholder.get("type")
        return kind
    return None


def _cells(package: Package, row: Any) -> list[str]:
    cells = []
    for cell in row.iterfind("{*}tc"):
        text = escaped(text_of(cell))
        if cell.get("hMerge") in _ON or cell.get("vMerge") in _ON:
            package.leave_out(text, "behind a merged cell")
            text = ""
        cells.append(text)
    return cells
