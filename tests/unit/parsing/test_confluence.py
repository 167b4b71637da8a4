"""The storage format of Confluence as HTML."""

# ruff: noqa: E501

from __future__ import annotations

import pytest

from airflow_provider_assistant.parsing.confluence import html_of_storage
from airflow_provider_assistant.parsing.html import parse_html

CODE = "if a < b && c; then\n  # not a heading\nfi"
MACRO = '<ac:structured-macro ac:name="{}" ac:schema-version="1" ac:macro-id="9f">{}</ac:structured-macro>'


def macro(name: str, *parts: str) -> str:
    return MACRO.format(name, "".join(parts))


def parameter(name: str, text: str) -> str:
    return f'<ac:parameter ac:name="{name}">{text}</ac:parameter>'


def rich(text: str) -> str:
    return f"<ac:rich-text-body>{text}</ac:rich-text-body>"


@pytest.mark.parametrize(
    ("storage", "text"),
    [
        (
            macro("code", parameter("language", "bash"), f"<ac:plain-text-body><![CDATA[{CODE}]]></ac:plain-text-body>"),
            f"```\n{CODE}\n```",
        ),
        (macro("info", parameter("icon", "false"), rich("<p>Take care.</p>")), "Take care."),
        (
            macro("expand", parameter("title", "More"), rich(macro("note", rich("<p>Inner</p>")))),
            "**More**\n\nInner",
        ),
        (f"<p>It is {macro('status', parameter('title', 'DONE'), parameter('colour', 'Green'))}.</p>", "It is **DONE**."),
        (
            ('<p>See <ac:link ac:anchor="a"><ri:page ri:content-title="X"/><ac:link-body>these <b>hours</b></ac:link-body>'
            "</ac:link>.</p>"),
            "See these **hours**.",
        ),
        (
            ('<p>See <ac:link><ri:attachment ri:filename="a.pdf"/><ac:plain-text-link-body><![CDATA[A & B]]>'
            "</ac:plain-text-link-body></ac:link> and <ac:link><ri:user ri:account-id='1'/></ac:link> it.</p>"),
            "See A & B and it.",
        ),
        (
            ("<ac:task-list><ac:task><ac:task-id>7</ac:task-id><ac:task-uuid>u</ac:task-uuid><ac:task-status>complete"
            "</ac:task-status><ac:task-body><span>Open the door</span></ac:task-body></ac:task></ac:task-list>"),
            "- Open the door",
        ),
        (
            ('<p>One</p><ac:image ac:width="5"><ri:attachment ri:filename="a.png" /><ac:caption><p>Our door</p></ac:caption>'
            '</ac:image><p>Two <ac:emoticon ac:name="tick" /></p>'),
            "One\n\nOur door\n\nTwo",
        ),
        (
            ('<ac:adf-extension><ac:adf-node type="panel"><ac:adf-attribute key="panel-type">note</ac:adf-attribute>'
            "<ac:adf-content><p>Once</p></ac:adf-content></ac:adf-node><ac:adf-fallback><div>Once</div></ac:adf-fallback>"
            "</ac:adf-extension>"),
            "Once",
        ),
        (
            ('<ac:layout><ac:layout-section ac:type="two_equal"><ac:layout-cell><p>Left</p></ac:layout-cell>'
            "<ac:layout-cell><p>Right</p></ac:layout-cell></ac:layout-section></ac:layout>"),
            "Left\n\nRight",
        ),
        ("<h1>A&nbsp;B</h1><table><tbody><tr><th>a</th></tr><tr><td>b</td></tr></tbody></table>", None),
    ],
)  # fmt: skip
def test_what_readers_see_stays(storage, text):
    html = html_of_storage(storage)
    assert "<ac:" not in html
    assert "<ri:" not in html
    if text is None:
        assert html == storage
    else:
        parsed = parse_html(f"<meta charset=utf-8><main>{html}</main>".encode())
        assert parsed["text"] == text


def test_hostile_storage_takes_linear_time():
    for part in (
        "<ac:link>",
        "<ac:task-id>",
        "<ac:parameter>",
        "<ac:parameter ",
        "<![CDATA[",
        "<ac:link-body>",
        "<ac:",
    ):
        html_of_storage(f"<ac:x>{part * 20_000}")
