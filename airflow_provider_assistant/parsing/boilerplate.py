"""
What of a page is not its content: navigation, votes, comments, sharing, and times that change every day.

Roles, item properties and the names of classes tell it, not the words of a language. What is named navigation must also
consist of links, and a widget must be short.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from airflow_provider_assistant.parsing.html_tags import HEADINGS, attribute, length, set_of
from airflow_provider_assistant.parsing.part_names import kinds_of
from airflow_provider_assistant.parsing.times import remove_times
from airflow_provider_assistant.texts import has_words

if TYPE_CHECKING:
    from bs4 import Tag

# The tags that such a part of a page has.
_PARTS = frozenset(
    ("div", "section", "ul", "ol", "aside", "header", "footer", "p", "article", "dl", "form", "a", "span")
)
_TAGS = frozenset(("nav", "search", "relative-time", "time-ago"))
_AROUND = frozenset(("aside", "footer", "header"))
_ROLES = frozenset(("navigation", "search", "menu", "menubar", "toolbar"))
_ROLES_AROUND = frozenset(("banner", "contentinfo", "complementary", "dialog", "alertdialog"))
_RELATIONS = frozenset(("prev", "next", "edit"))
_PROPERTIES = set_of(
    "breadcrumb comment upvoteCount downvoteCount commentCount answerCount interactionStatistic interactionCount"
    " userInteractionCount aggregateRating dateModified datePublished relatedLink"
)
_TYPES = ("SiteNavigationElement", "WPSideBar", "WPHeader", "WPFooter", "BreadcrumbList", "Comment")
_EDITED = re.compile(r"https?://(?:[\w.-]*\.)?(?:github|gitlab|bitbucket|codeberg)\.[\w.]+/.+/(?:edit|-/edit)/")
_YEAR = re.compile(r"\b(?:19|20)\d\d\b")
_CONTROLS = ("a", "button", "form", "input", "label", "select", "textarea")
_LONGEST_WIDGET, _LONGEST_NAVIGATION, _LONGEST_LABEL = 300, 150, 60
# Share of the text in links. The rest is the heading of the list, and words between the links.
_LINKED, _PARTLY_LINKED = 0.5, 0.3


def remove_boilerplate(main: Tag, *, is_whole_page: bool) -> None:
    """
    Remove what is not content.

    :param main: The main part of the page, or its body.
    :param is_whole_page: Whether it is the body. Then the parts around the content are removed as well.
    """
    kept = {id(main)}
    title = main.find("h1")
    if title is not None:
        kept.update(map(id, [title, *title.parents]))
    for tag in main.find_all(True):
        if tag.decomposed or id(tag) in kept:
            continue
        is_removed = _is_marked(tag) or _has_other_purpose(tag)
        if is_whole_page and not is_removed:
            is_removed = _is_around(tag)
        if not is_removed and tag.name in _PARTS:
            is_removed = _is_named(tag, is_whole_page=is_whole_page)
        if is_removed:
            tag.decompose()
    remove_times(main)


def _is_marked(tag: Tag) -> bool:
    """Return whether its name or its role says that it is not content."""
    if tag.name in _TAGS or attribute(tag, "role") in _ROLES:
        return True
    return tag.name in {"aside", "footer"} and _is_linked(tag, _LINKED)


def _has_other_purpose(tag: Tag) -> bool:
    """Return whether one of its attributes says what it is instead of content."""
    if not tag.attrs:
        return False
    if not _PROPERTIES.isdisjoint(attribute(tag, "itemprop").split()):
        return True
    if attribute(tag, "itemtype").rstrip("/").endswith(_TYPES):
        return True
    if attribute(tag, "aria-label").lower().startswith("breadcrumb"):
        return True
    return tag.name == "a" and _is_link_of_page(tag)


def _is_link_of_page(link: Tag) -> bool:
    """Return whether a link leads to the next page, the one before, or a place to edit this one."""
    if not _RELATIONS.isdisjoint(attribute(link, "rel").split()):
        return True
    is_edited = _EDITED.match(attribute(link, "href")) is not None
    return is_edited and length([link]) < _LONGEST_NAVIGATION


def _is_around(tag: Tag) -> bool:
    """Return whether it is around the content of a page that does not mark its main part."""
    if tag.name == "dialog" or attribute(tag, "role") in _ROLES_AROUND:
        return True
    if tag.name not in _AROUND:
        return False
    # A note, or the source of a quotation, is a part of the text.
    if tag.find_parent(["article", "blockquote", "figure", "section"]) is not None:
        return False
    is_in_body = tag.parent is None or tag.parent.name == "body"
    return is_in_body or tag.find_previous_sibling(["p", *HEADINGS]) is None


def _is_named(tag: Tag, *, is_whole_page: bool) -> bool:
    """Return whether its classes or its id say that it is not content, and its text does not contradict."""
    kinds = kinds_of(tag)
    if not kinds or tag.find_parent(["pre", "code"]) is not None:
        return False
    if kinds & {"comments", "consent", "advertising", "skip link"}:
        return True
    size = length([tag])
    if size <= _LONGEST_WIDGET and _is_widget(tag, kinds, size):
        return True
    if tag.name in {"span", "p"} and size > _LONGEST_NAVIGATION:
        return False
    if "related" in kinds and _is_navigation(tag, _PARTLY_LINKED):
        return True
    return _is_named_navigation(tag, kinds, size, is_whole_page=is_whole_page)


def _is_widget(tag: Tag, kinds: set[str], size: int) -> bool:
    if tag.name == "a" or tag.find(_CONTROLS) is not None or attribute(tag, "role") == "img":
        return bool(kinds & {"widget", "interactive widget"})
    if size > _LONGEST_LABEL or tag.find(HEADINGS) is not None:
        return False
    text = tag.get_text()
    if "date" in kinds and _YEAR.search(text):
        return True
    return "widget" in kinds and (tag.find("p") is None or any(map(str.isdigit, text)))


def _is_named_navigation(tag: Tag, kinds: set[str], size: int, *, is_whole_page: bool) -> bool:
    if "around" in kinds and is_whole_page:
        # It may also have text that is not a link, but not most of the text.
        body = tag.find_parent("body") or tag
        return 2 * size < length([body]) or _is_navigation(tag, _LINKED)
    if "navigation" in kinds:
        return _is_navigation(tag, _LINKED)
    # The header of a section holds its heading.
    return "header" in kinds and tag.find(HEADINGS[:3]) is None and _is_navigation(tag, _LINKED)


def _is_navigation(tag: Tag, share: float) -> bool:
    """Return whether a part consists of links, or of a few words with links."""
    if tag.name == "a":
        return True
    is_short = length([tag]) <= _LONGEST_NAVIGATION and tag.find("a") is not None
    return is_short or _is_linked(tag, share)


def _is_linked(tag: Tag, share: float) -> bool:
    links = tag.find_all("a")
    if not links:
        return not has_words(tag.get_text())
    return length(links) >= share * length([tag])
