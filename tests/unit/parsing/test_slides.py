"""PowerPoint as Markdown."""

from __future__ import annotations

import io

from lxml import etree

from airflow_provider_assistant.parsing.pages import Note
from airflow_provider_assistant.parsing.slides import page
from tests.unit.parsing.samples import pptx, saved

SLIDES = "http://schemas.openxmlformats.org/presentationml/2006/main"
DRAWINGS = "http://schemas.openxmlformats.org/drawingml/2006/main"


def noted(found):
    """Return the notes of a file but those of its templates."""
    return [note for note in found.notes if note.reason != "in a template"]


def test_slides_are_sections_without_hidden_ones():
    from pptx import Presentation

    content = pptx(("Hours", "From 9\n# to <5>"), ("", "No title"), ("Salaries", "secret"), ("Only a title", ""))
    presentation = Presentation(io.BytesIO(content))
    presentation.core_properties.title = "Office"
    presentation.slides[2]._element.set("show", "0")
    presentation.slides[0].notes_slide.notes_text_frame.text = "a note"
    frame = presentation.slides[0].shapes.add_table(2, 1, 0, 0, 9, 9).table
    frame.cell(0, 0).text, frame.cell(1, 0).text = "Day", "Monday"
    group = presentation.slides[1].shapes.add_group_shape()
    group.shapes.add_textbox(0, 0, 9, 9).text_frame.text = "in a group"
    found = page(saved(presentation))
    assert found.fields == {"title": "Office"}
    assert found.text == (
        "## Hours\n\nFrom 9\n\\# to <5>\n\n| Day |\n| --- |\n| Monday |\n\n##\n\n"
        "No title\n\nin a group\n\n## Only a title"
    )
    assert noted(found) == [
        Note("word", "on a hidden slide", is_expected=True, count=2),
        Note("word", "in the notes of a slide", is_expected=True, count=2),
    ]


def test_a_diagram_and_an_exponent_are_read_and_the_footer_is_not():
    from pptx import Presentation
    from pptx.opc.package import Part
    from pptx.opc.packuri import PackURI

    presentation = Presentation(io.BytesIO(pptx(("Steps", "10"))))
    slide = presentation.slides[0]
    exponent = slide.placeholders[1].text_frame.paragraphs[0].add_run()
    exponent.text = "6"
    exponent.font._element.set("baseline", "30000")
    footer = slide.shapes.add_textbox(0, 0, 9, 9)
    footer.text_frame.text = "Page 1"
    footer.element.xpath(".//p:nvPr")[0].append(etree.fromstring(f'<p:ph xmlns:p="{SLIDES}" type="sldNum"/>'))
    xml = f'<d:pts xmlns:d="urn:d" xmlns:a="{DRAWINGS}"><a:p><a:r><a:t>Then</a:t></a:r><a:t> that</a:t></a:p></d:pts>'
    part = Part(PackURI("/ppt/diagrams/data1.xml"), "application/xml", slide.part.package, xml.encode())
    slide.part.relate_to(part, "http://schemas.openxmlformats.org/officeDocument/2006/relationships/diagramData")
    found = page(saved(presentation))
    assert found.text == "## Steps\n\n10^6^\n\nThen that"
    assert noted(found) == [Note("word", "in the footer of a slide", is_expected=True, count=2)]


def test_a_picture_as_a_title():
    from pptx import Presentation

    presentation = Presentation(io.BytesIO(pptx(("", "From 9."))))
    title = presentation.slides[0].shapes.title.element
    title.tag = f"{{{SLIDES}}}pic"
    title.remove(title.find(f"{{{SLIDES}}}txBody"))
    assert page(saved(presentation)).text == "##\n\nFrom 9."
