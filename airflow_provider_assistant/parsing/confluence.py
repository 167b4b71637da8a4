"""The storage format of Confluence as HTML: its macros, links and tasks have tags that no browser knows."""

from __future__ import annotations

import html
import re

# The names of parameters, and what they are, are for the macro; titles, and the texts of labels, are for readers.
_PARAMETER = re.compile(r"<ac:parameter\b([^<>]*)>([^<]*)</ac:parameter>")
_LINK = re.compile(r"<ac:link\b[^<>]*>((?:(?!</?ac:link\b).)*)</ac:link>", re.DOTALL)
_LINK_BODY = re.compile(r"<ac:(?:plain-text-)?link-body\b[^<>]*>(.*)</ac:(?:plain-text-)?link-body>", re.DOTALL)
_LINK_TARGET = re.compile(r'ri:(?:content-title|filename|value)="([^"]*)"')
# What has no text for readers, or a text that is there twice.
_REMOVED = re.compile(
    r"<ac:(task-id|task-uuid|task-status|placeholder|adf-attribute|adf-fallback)\b[^<>]*>"
    r"(?:(?!</?ac:\1\b).)*</ac:\1>",
    re.DOTALL,
)
_REPLACED = {"task-list": "ul", "task": "li", "rich-text-body": "div", "layout-cell": "div", "caption": "p"}
_TAG = re.compile(r"<(/?)(?:ac|ri|at):([\w-]+)\b[^<>]*>")


def html_of_storage(text: str) -> str:
    """
    Return the storage format of Confluence as HTML. Other HTML stays as it is.

    Code, titles of panels, texts of labels and of links, and captions stay; parameters of macros are removed.
    """
    if "<ac:" not in text and "<ri:" not in text:
        return text
    first, *others = text.split("<![CDATA[")
    parts = [first]
    for other in others:
        content, _, rest = other.partition("]]>")
        written = html.escape(content, quote=False)
        if parts[-1].endswith("<ac:plain-text-body>"):
            written = f"<pre>{written}</pre>"
        parts += [written, rest]
    text = _REMOVED.sub("", "".join(parts))
    text = _PARAMETER.sub(_shown_parameter, text)
    text = _LINK.sub(_shown_link, text)
    return _TAG.sub(_replaced_tag, text)


def _shown_parameter(parameter: re.Match[str]) -> str:
    return f"<b>{parameter[2]}</b>" if 'ac:name="title"' in parameter[1] else ""


def _shown_link(link: re.Match[str]) -> str:
    body = _LINK_BODY.search(link[1])
    if body:
        return body[1]
    target = _LINK_TARGET.search(link[1])
    return target[1] if target else ""


def _replaced_tag(tag: re.Match[str]) -> str:
    name = _REPLACED.get(tag[2])
    return f"<{tag[1]}{name}>" if name else ""
