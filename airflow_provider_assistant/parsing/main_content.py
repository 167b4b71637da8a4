"""The part of a page that holds its content."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_assistant.parsing.boilerplate import remove_boilerplate
from airflow_provider_assistant.parsing.html_tags import length, outermost, remove
from airflow_provider_assistant.parsing.markup import plain_headings, plain_markup

if TYPE_CHECKING:
    from bs4 import BeautifulSoup, Tag

_NOT_TEXT = ("script", "style", "title", "noscript", "svg", "iframe", "object", "canvas", "audio", "map")
_DEEPEST = 500
# An article that holds this share of the text is the content of its page.
_SHARE_OF_ARTICLE = 0.6


def main_content(soup: BeautifulSoup, *, select: str = "", removed: str = "") -> Tag:
    """
    Return the main part of a page without boilerplate, with tags that have a counterpart in Markdown.

    It is what the tags ``main`` or the role ``main`` mark, else an article with most of the text, else the body without
    what is around its content.

    :param soup: The page. It is changed.
    :param select: Selector of CSS for the main part, instead of these.
    :param removed: Selector of what is removed in addition.
    """
    _flatten(soup)
    if removed:
        remove(soup.select(removed))
    remove(soup.find_all(_NOT_TEXT))
    remove([tag for tag in soup.find_all("template") if not tag.has_attr("shadowrootmode")])
    body = soup.body or soup
    plain_headings(body)
    if select:
        main = _joined(soup, outermost(body.select(select)))
        plain_markup(main)
        return main
    landmarks = outermost(body.find_all(_is_main))
    is_whole_page = not length(landmarks)
    main = body if is_whole_page else _joined(soup, landmarks)
    remove_boilerplate(main, is_whole_page=is_whole_page)
    if is_whole_page:
        articles = outermost(body.find_all("article"))
        if len(articles) == 1 and length(articles) >= _SHARE_OF_ARTICLE * length([body]):
            main = articles[0]
    plain_markup(main)
    return main


def _flatten(soup: BeautifulSoup) -> None:
    """Limit the depth, as browsers do: the time of some steps grows with its square."""
    depths = {id(soup): 0}
    for tag in soup.find_all(True):
        depths[id(tag)] = depth = depths.get(id(tag.parent), _DEEPEST) + 1
        if depth == _DEEPEST:
            tag.string = tag.get_text(" ")


def _is_main(tag: Tag) -> bool:
    return tag.name == "main" or tag.get("role") == "main"


def _joined(soup: BeautifulSoup, parts: list[Tag]) -> Tag:
    if len(parts) == 1:
        return parts[0]
    whole = soup.new_tag("div")
    for part in parts:
        whole.append(part.extract())
    return whole
