"""Word as Markdown: what Word shows is kept, once."""

from __future__ import annotations

import re

import pytest

from airflow_provider_assistant.parsing.pages import Note, Page
from airflow_provider_assistant.parsing.word import page
from tests.unit.parsing.samples import docx, repacked

SPACES = (
    'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main" '
    'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships" '
    'xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006" '
    'xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math" '
    'xmlns:v="urn:schemas-microsoft-com:vml" xmlns:s="http://schemas.microsoft.com/office/word/2010/wordprocessingShape"'
)
RUN = "<w:r><w:t>text</w:t></w:r>"
HIDDEN = "<w:r><w:rPr><w:vanish/></w:rPr><w:t>gone</w:t></w:r>"
FOOTNOTES = f"""<?xml version="1.0"?><w:footnotes {SPACES}><w:footnote w:type="separator" w:id="0"><w:p/></w:footnote>
<w:footnote w:id="2"><w:p><w:r><w:t>Except on Fridays.</w:t></w:r></w:p></w:footnote></w:footnotes>"""
BOX = f"<w:txbxContent><w:p>{RUN}</w:p></w:txbxContent>"
DRAWING = f"<w:drawing><s:wsp><s:txbx>{BOX}</s:txbx></s:wsp></w:drawing>"
PICTURE = f"<w:pict><v:shape><v:textbox>{BOX}</v:textbox></v:shape></w:pict>"
CHOICE = f"<mc:AlternateContent><mc:Choice>{DRAWING}</mc:Choice>"
PART = "application/vnd.openxmlformats-officedocument.wordprocessingml.footnotes+xml"


def with_xml(xml: str) -> bytes:
    """Return a Word file whose body begins with some XML."""

    def change(_, content):
        content = content.replace(b"<w:body>", b"<w:body>" + xml.encode())
        return re.sub(rb"<w:document [^>]*>", f"<w:document {SPACES}>".encode(), content)

    return repacked(docx(lambda _: None), change)


def test_word():
    def write(document):
        document.core_properties.title = "Handbook"
        document.add_heading("Office", 0)
        document.add_heading("Hours", 2)
        own = document.styles.add_style("Our heading", 1)
        own.base_style = document.styles["Heading 3"]
        document.add_paragraph("Friday", style=own)
        document.add_paragraph("From 9.\n# not a heading")
        document.add_paragraph("Ring", style="List Bullet")
        cells = document.add_table(2, 2).rows
        cells[0].cells[0].text, cells[0].cells[1].text, cells[1].cells[0].text = "Day", "a|b", "Monday"

    assert page(docx(write)) == Page(
        {"title": "Handbook"},
        """# Office

## Hours

### Friday

From 9.  \n\\# not a heading

- Ring

| Day | a\\|b |
| --- | --- |
| Monday |  |""",
    )


def test_a_link_of_word_keeps_its_address():
    def write(document):
        paragraph = document.add_paragraph("See ")
        relation = document.part.relate_to("https://x.org/a", "http://purl.org/x/hyperlink", is_external=True)
        link = paragraph._p.makeelement(f"{{{paragraph._p.nsmap['w']}}}hyperlink", {
            f"{{{paragraph._p.nsmap['r']}}}id": relation
        })  # fmt: skip
        run = paragraph.add_run("the page")
        link.append(run._r)
        paragraph._p.append(link)

    assert page(docx(write)).text == "See [the page](https://x.org/a)"


ELEMENTS = [
    f"<w:sdt><w:sdtContent><w:p>{RUN}</w:p></w:sdtContent></w:sdt>",
    f"<w:p><w:sdt><w:sdtContent>{RUN}</w:sdtContent></w:sdt></w:p>",
    f"<w:p><w:fldSimple w:instr='TITLE &gt; 1'>{RUN}</w:fldSimple></w:p>",
    f'<w:p><w:fldSimple w:instr="IF 2 > 1">{RUN}</w:fldSimple></w:p>',
    f"<w:p><w:smartTag w:uri='u' w:element='e'>{RUN}</w:smartTag></w:p>",
    f"<w:p><w:ins w:id='1' w:author='a'>{RUN}</w:ins></w:p>",
    f"<w:p>{RUN}<w:del w:id='1' w:author='a'><w:r><w:delText>gone</w:delText></w:r></w:del></w:p>",
    "<w:p><w:r><w:rPr><w:b/></w:rPr><w:t>text</w:t></w:r></w:p>",
    f"<w:p><w:moveTo w:id='1'>{RUN}</w:moveTo><w:moveFrom w:id='1'><w:r><w:t>gone</w:t></w:r></w:moveFrom></w:p>",
    f"<w:p><w:bdo w:val='rtl'><w:dir w:val='ltr'>{RUN}</w:dir></w:bdo></w:p>",
    f"<w:p><w:r><w:ruby><w:rt><w:r><w:t>aid</w:t></w:r></w:rt><w:rubyBase>{RUN}</w:rubyBase></w:ruby></w:r></w:p>",
    f"<w:p><w:r>{PICTURE}</w:r></w:p>",
    f"<w:p><w:r>{DRAWING}</w:r></w:p>",
    f"<w:p><w:r>{CHOICE}<mc:Fallback>{PICTURE}</mc:Fallback></mc:AlternateContent></w:r></w:p>",
    f"<w:p><w:r>{CHOICE}</mc:AlternateContent></w:r></w:p>",
    f"<w:p><w:r>{CHOICE}<mc:Fallback/></mc:AlternateContent></w:r></w:p>",
    "<w:p><m:oMathPara><m:oMath><m:r><m:t>text</m:t></m:r></m:oMath></m:oMathPara></w:p>",
    "<w:p><w:r><w:t>tex</w:t><w:softHyphen/><w:t>t</w:t></w:r></w:p>",
    f"<w:p>{HIDDEN}{RUN}</w:p>",
    f"<w:p><w:r><w:rPr><w:vanish w:val='false'/></w:rPr><w:t>text</w:t></w:r></w:p><w:p>{HIDDEN}</w:p>",
]  # fmt: skip


@pytest.mark.promise("sources of documents", "What Word shows is kept, once; what it hides is not.")
def test_the_text_of_every_element_is_kept():
    """What is not shown is "gone" in each."""
    words = [f"word{number}" for number in range(len(ELEMENTS))]
    xml = [element.replace(">text<", f">{word}<") for element, word in zip(ELEMENTS, words, strict=True)]
    xml = [element.replace("<w:t>tex</w:t>", f"<w:t>{word[:2]}</w:t>").replace("<w:t>t<", f"<w:t>{word[2:]}<")
           for element, word in zip(xml, words, strict=True)]  # fmt: skip
    assert page(with_xml("".join(xml))).text.split() == words


def test_a_field_that_is_a_link():
    parts = (
        '<w:fldChar w:fldCharType="begin"/>', '<w:instrText> HYPERLINK "https://x.org/a" </w:instrText>',
        '<w:fldChar w:fldCharType="separate"/>', "<w:t>page</w:t>", '<w:fldChar w:fldCharType="end"/>',
    )  # fmt: skip
    xml = "".join(f"<w:r>{part}</w:r>" for part in parts)
    assert page(with_xml(f"<w:p>{xml}</w:p>")).text == "[page](https://x.org/a)"


def test_a_footnote_is_at_the_end():
    def change(name, content):
        if name == "[Content_Types].xml":
            part = f'<Override PartName="/word/footnotes.xml" ContentType="{PART}"/></Types>'
            return content.replace(b"</Types>", part.encode())
        return FOOTNOTES.encode() if name == "word/fontTable.xml" else content.replace(b"fontTable", b"footnotes")

    file = with_xml('<w:p><w:r><w:t>From 9.</w:t></w:r><w:r><w:footnoteReference w:id="2"/></w:r></w:p>')
    renamed = repacked(file, change, {"word/fontTable.xml": "word/footnotes.xml"})
    assert page(renamed).text == "From 9.[1]\n\n1. Except on Fridays."


def test_tables_with_merged_and_nested_cells():
    def write(document):
        table = document.add_table(3, 3)
        table.cell(0, 0).merge(table.cell(0, 1)).text = "wide"
        table.cell(0, 2).text = "a"
        table.cell(1, 0).merge(table.cell(2, 0)).text = "high"
        for row in (1, 2):
            table.cell(row, 1).text, table.cell(row, 2).text = f"b{row}", f"c{row}"
        inner = table.cell(2, 2).add_table(1, 2)
        inner.cell(0, 0).text, inner.cell(0, 1).text = "d", "e"

    lines = page(docx(write)).text.split("\n")
    assert [[cell.split() for cell in line.strip("|").split("|")] for line in lines] == [
        [["wide"], [], ["a"]],
        [["---"], ["---"], ["---"]],
        [["high"], ["b1"], ["c1"]],
        [[], ["b2"], ["c2", "d", "e"]],
    ]


def test_styles_that_are_based_on_each_other():
    def write(document):
        first, second = (document.styles.add_style(name, 1) for name in ("It's \\ one", "Two"))
        first.base_style, second.base_style = second, first
        document.add_paragraph("text", style=first)

    assert page(docx(write)).text == "text"


def test_a_very_wide_cell():
    wide = '<w:tbl><w:tr><w:tc><w:tcPr><w:gridSpan w:val="100000000"/></w:tcPr><w:p/></w:tc></w:tr></w:tbl>'
    assert len(page(with_xml(wide)).text) < 20_000


def test_formulas_exponents_and_line_breaks_keep_their_marks():
    fraction = "<m:f><m:num><m:r><m:t>a</m:t></m:r></m:num><m:den><m:r><m:t>b</m:t></m:r></m:den></m:f>"
    power = "<m:sSup><m:e><m:r><m:t>x</m:t></m:r></m:e><m:sup><m:r><m:t>2</m:t></m:r></m:sup></m:sSup>"
    breaks = "<w:r><w:t>c</w:t><w:cr/><w:t>d</w:t><w:ptab/><w:t>e</w:t></w:r>"
    price = '<w:r><w:t>30</w:t></w:r><w:r><w:rPr><w:vertAlign w:val="superscript"/></w:rPr><w:t>1</w:t></w:r>'
    text = page(with_xml(f"<w:p><m:oMath>{fraction}{power}</m:oMath></w:p><w:p>{breaks}</w:p><w:p>{price}</w:p>")).text
    assert text.split() == ["a/bx^2^", "c", "d", "e", "30^1^"]


def test_what_a_style_hides_and_the_table_of_contents_are_counted():
    def write(document):
        for name in ("Secret", "Secret too", "toc 1"):
            document.styles.add_style(name, 1)
        document.styles["Secret"].font.hidden = True
        document.styles["Secret too"].base_style = document.styles["Secret"]
        for number, style in enumerate(("Secret", "Secret too", "Normal", "toc 1")):
            document.add_paragraph(f"text{number}", style=style)

    found = page(docx(write))
    assert found.text == "text2"
    assert found.notes == [
        Note("word", "in hidden text", is_expected=True, count=2),
        Note("word", "in the table of contents", is_expected=True, count=1),
    ]


def test_what_is_not_read_is_counted():
    other = "<w:p><w:unknown><w:r><w:t>a new element</w:t></w:r></w:unknown></w:p>"
    relation = b'<Relationship Id="x" Type="http://x.org/aFChunk" Target="afchunk.html"/></Relationships>'
    embedding = repacked(
        with_xml(other),
        lambda name, old: old.replace(b"</Relationships>", relation) if name == "word/_rels/document.xml.rels" else old,
    )
    assert page(embedding).notes == [
        Note("word", "in an unknown element", is_expected=False, count=3),
        Note("passage", "is an embedded file", is_expected=False, count=1),
    ]


def test_a_style_without_a_type_and_a_picture_without_a_file():
    picture = '<w:p><w:r><w:pict><v:shape><v:imagedata r:id="rId999"/></v:shape></w:pict><w:t>text</w:t></w:r></w:p>'

    def change(_, content):
        return content.replace(b'<w:style w:type="paragraph"', b"<w:style").replace(b'w:styleId="Heading1"', b"")

    assert page(repacked(with_xml(picture), change)).text == "text"
