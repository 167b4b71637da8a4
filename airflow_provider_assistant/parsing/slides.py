"""PowerPoint files as Markdown: each slide is a section."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from airflow_provider_assistant.parsing.markdown import escaped, heading, table
from airflow_provider_assistant.parsing.office import ON, Package, relation_of, text_of
from airflow_provider_assistant.parsing.pages import Page

_TITLES = frozenset({"title", "ctrTitle"})
# Date, footer, header and number: they repeat on every slide, or change from day to day.
_REPEATED = frozenset({"dt", "ftr", "hdr", "sldNum"})


def page(content: bytes) -> Page:
    """
    Return a PowerPoint file. Hidden slides and shapes, notes, footers and slide numbers are left out.

    :raises UnreadableFileError: The file is damaged, encrypted or too large.
    """
    package = Package(content)
    return package.page(_blocks(package))


def _blocks(package: Package) -> Iterator[str]:
    relations = package.relations(package.main)
    for reference in package.tree(package.main).iter("{*}sldId"):
        relation = relation_of(reference, relations)
        if relation and relation.target in package.parts:
            slide = package.tree(relation.target)
            blocks = [*_texts_of(package, slide), *package.drawn_text(relation.target)]
            if slide.get("show") in {"0", "false"}:
                package.leave_out("\n".join(blocks), "on a hidden slide")
            else:
                yield from blocks


def _texts_of(package: Package, slide: Any) -> Iterator[str]:
    """Yield the title of a slide as a heading, then its texts and tables in Markdown."""
    # These are copies of shapes for older programs.
    for fallback in list(slide.iter("{*}Fallback")):
        fallback.getparent().remove(fallback)
    for shape in list(slide.iter("{*}sp", "{*}grpSp", "{*}graphicFrame")):
        if any(properties.get("hidden") in ON for properties in shape.iterfind("*/{*}cNvPr")):
            package.remove(shape, "in a hidden shape")
        elif _placeholder(shape) in _REPEATED:
            package.remove(shape, "in the footer of a slide")
    found = slide.iter("{*}txBody", "{*}tbl")
    bodies = [body for body in found if next(body.iterancestors("{*}tbl"), None) is None]
    title = next((body for body in bodies if _placeholder(body.getparent()) in _TITLES), None)
    yield heading("" if title is None else text_of(title), 2)
    for body in bodies:
        if body.tag.endswith("}tbl"):
            yield table([_cells(package, row) for row in body.iterfind("{*}tr")])
        elif body is not title:
            yield escaped(text_of(body).strip())


def _placeholder(shape: Any) -> str:
    return next((found.get("type", "") for found in shape.iterfind("*/{*}nvPr/{*}ph")), "")


def _cells(package: Package, row: Any) -> list[str]:
    cells = []
    for cell in row.iterfind("{*}tc"):
        text = text_of(cell)
        if cell.get("hMerge") in ON or cell.get("vMerge") in ON:
            package.leave_out(text, "behind a merged cell")
            text = ""
        cells.append(escaped(text))
    return cells
