"""
HTML files and pages of websites as Markdown: their main part, without what a selector of CSS removes.

For some pages, the parser takes a time that grows with the square of the size, and only the end of the process stops
it.
"""

from __future__ import annotations

import codecs
import contextlib
import re
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urljoin

from airflow_provider_assistant.parsing.pages import Fields, Note, Page

if TYPE_CHECKING:
    from bs4 import BeautifulSoup, Tag

# What is not content, as selectors of CSS. Words of a class are complete names, and none is an ordinary word.
DEFAULT_REMOVE = """
nav, search, dialog, noscript, template, svg, canvas, iframe, object, audio, video, map, select, textarea, datalist, relative-time,
time-ago, [role=navigation], [role=search], [role=menu], [role=menubar], [role=toolbar], [role=dialog],
[role=alertdialog], [role=contentinfo], [role=banner]:not(:has(h1)),
:is(header, footer, aside):not(:has(h1), article *, blockquote *, figure *, main *, section *),
aside:has(a):not(:has(p)),
#header:not(:has(h1)), #footer, #sidebar, #nav, #navigation, #toc, #breadcrumbs, .site-header, .site-footer,
.page-footer, .footer, .navbar, .nav, .sidebar, .sidenav, .topbar, .topnav, .breadcrumb, .breadcrumbs, .pagination,
.pagination-nav, .prev-next, .prev-next-area, .toc, .table-of-contents, .toctree-wrapper, .headerlink, .hash-link,
.sl-anchor-link, .skip-link, .skip-to-content, .skip-nav, .back-to-top, .edit-this-page, .theme-edit-this-page,
.language-switcher, .cookie-banner, .cookie-consent, .cookie-notice, #cookie-banner, #onetrust-consent-sdk,
#CybotCookiebotDialog, .related-articles, .related-posts, .recommended-articles, .article-votes, .helpful-count,
.social-share, .share-buttons, .sharedaddy, .addthis_inline_share_toolbox, .comments-area, .comment-list,
#disqus_thread, .post-tags, .tags:has(> a), .star-rating, .last-updated, .theme-last-updated, .VPLastUpdated,
.git-revision-date-localized-plugin, .timestamp, .time-ago, [itemprop=comment], [itemprop=upvoteCount],
[itemprop=interactionStatistic], [itemprop=aggregateRating], [itemprop=dateModified],
[itemtype$="/BreadcrumbList"], [itemtype$="/SiteNavigationElement"], a[rel~=next], a[rel~=prev], a[rel~=edit],
a[href*="/edit/"][href*="//github.com/"], pre button, .copy-btn, button[aria-label^=Copy], .linenos, .lineno,
.linenodiv, .line-numbers-rows, .hljs-ln-numbers, .blob-num, .material-icons, .material-symbols-outlined,
.katex-html, .MathJax_Preview, mjx-assistive-mml, semantics:has(> annotation) > :not(annotation),
form:has(input:not([type=hidden], [type=checkbox]), textarea, select):not(:has(h1, h2, h3, p, li, table))
"""
# What browsers take if a page does not name its charset.
DEFAULT_CHARSET = "windows-1252"
# Python's codec, where that of the same name knows fewer characters.
_WIDER = {"big5": "big5hkscs", "euc-kr": "cp949", "gbk": "gb18030", "shift_jis": "cp932", "iso-2022-jp": "iso2022_jp_ext"}
_CHARSET = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([\w.:-]{1,40})|^\s*<\?xml[^>]{0,200}?encoding\s*=\s*[\"']([\w.:-]{1,40})", re.IGNORECASE)
# Browsers look for the charset in the first 1,024 bytes, and pages exceed them.
_SEARCHED_BYTES = 2048
_NOT_TEXT = ("script", "style", "title", "link", "meta")
# Browsers do not nest deeper. The time of some steps grows with the square of the depth.
_DEEPEST = 500
_TITLES = ("h1", "h2", "h3", "h4", "h5", "h6", "summary", "dt", "legend")
_IN_LINE = ("span", "small", "em", "i", "b", "strong")
_LINES = ("p", "div", "header", "footer", "section", "article", "main", "body")
_WORD = re.compile(r"\w+")
# Words: a page with more of them has content.
_LONGEST_NOTICE = 40
# After at most five seconds. A page that is shown longer may be loaded again.
_REDIRECT = re.compile(r"[0-5]?(?:\.\d*)?\s*[;,]\s*url\s*=\s*['\"]?([^'\"\s]+)", re.IGNORECASE)
# Names of the meta tags with the date, best first.
_DATES = ("article:modified_time", "dcterms.modified", "last-modified", "article:published_time", "date")


def page(content: bytes, *, encoding: str = "", remove: str = DEFAULT_REMOVE, select: str = "") -> Page:
    """
    Return what a page says.

    The main part is what ``select`` names, else the tag or the role ``main``, else the one article that has most of the
    text, else the body.

    :param encoding: Charset that the header ``Content-Type`` names; empty if none.
    :param remove: Selectors of CSS for parts that are not content.
    :param select: Selector of CSS for the main part; empty to look for it.
    :return: The fields ``title``, ``category``, ``date``, ``language``, ``canonical`` (an address), ``robots`` (what the
        page tells search engines), ``redirect`` (the address to which it leads at once) and ``obstacle`` (why it shows no
        content, as a predicate), if the page has them. The notes count the words that the text does not have.
    """
    from bs4 import BeautifulSoup

    from airflow_provider_assistant.parsing import writer

    notes: list[Note] = []
    left_out: Counter[str] = Counter()
    soup = BeautifulSoup(_decoded(content, encoding, notes), "lxml")
    fields = _fields_of_head(soup)
    body = soup.body or soup
    _flatten(body)
    for tag in body.find_all(_NOT_TEXT):
        tag.decompose()
    _clean_headings(body, left_out)
    main = _marked_part(soup, body, select, left_out)
    has_password = main.select_one('input[type="password" i]') is not None
    notice = " ".join(tag.get_text(" ") for tag in main.find_all("noscript"))
    _remove(main, remove, left_out)
    if main is body and not select:
        main = _article(body, left_out)
    _remove_times(main, left_out)
    _replace_codes(main)
    base = soup.find("base", href=True)
    if base is not None:
        _join_links(main, str(base["href"]))
    _add_title(fields, main)
    size, has_code = _size(main), main.find(["code", "pre"]) is not None
    text = writer.markdown(main)
    if not any(map(str.isprintable, set(text) - {" ", "\ufffd"})):
        text = ""
    if size <= _LONGEST_NOTICE and has_password:
        fields["obstacle"] = "asks to log in"
    elif size <= _LONGEST_NOTICE and not has_code and "javascript" in (text or notice).lower():
        fields["obstacle"] = "has no text without JavaScript"
    notes += [Note("word", reason, True, count) for reason, count in left_out.items() if count]
    return Page(fields, text, notes)


def _decoded(content: bytes, encoding: str, notes: list[Note]) -> str:
    """
    Return a page as text.

    UTF-8 is tried before the charset that the page names: text in another charset is hardly ever valid UTF-8, but pages
    in UTF-8 often name another charset.
    """
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return content.decode("utf-16", "replace")
    named = _CHARSET.search(content[:_SEARCHED_BYTES])
    names = [encoding]
    if named:
        names.append((named[1] or named[2]).decode())
    with contextlib.suppress(UnicodeDecodeError):
        text = content.decode("utf-8-sig")
        # iso-2022-jp is ASCII with this character.
        if "\x1b" not in text:
            return text
    text = content.decode(_codec([*names, DEFAULT_CHARSET]), "replace")
    unknown = text.count("\ufffd")
    if unknown:
        notes.append(Note("character", "cannot be decoded", False, unknown))
    return text


def _codec(names: Iterable[str]) -> str:
    """Return the first codec of Python for one of the names of charsets, as browsers know them."""
    import webencodings

    for name in names:
        charset = webencodings.lookup(name)
        # What is not UTF-8 is not in UTF-16 either, in which the name could not be read.
        if charset is not None and not charset.name.startswith(("utf", "replacement", "x-user", "hz-")):
            return _WIDER.get(charset.name, str(charset.codec_info.name))
    return DEFAULT_CHARSET


def _fields_of_head(soup: BeautifulSoup) -> Fields:
    contents: dict[str, str] = {}
    for tag in soup.find_all("meta"):
        name = _line(tag.get("property") or tag.get("name") or tag.get("http-equiv")).lower()
        contents.setdefault(name, _line(tag.get("content")))
    canonical = soup.find("link", rel="canonical")
    redirect = _REDIRECT.match(contents.get("refresh", ""))
    fields = {
        "title": _line(soup.title and soup.title.get_text()),
        "category": contents.get("category") or contents.get("article:section"),
        "date": next((contents[name] for name in _DATES if contents.get(name)), ""),
        "language": _line(soup.html and (soup.html.get("lang") or soup.html.get("xml:lang"))),
        "canonical": _line(canonical and canonical.get("href")),
        "robots": ", ".join(contents[name] for name in ("robots", "googlebot") if contents.get(name)),
        "redirect": redirect and redirect[1],
    }
    return {name: value for name, value in fields.items() if value}


def _add_title(fields: Fields, main: Tag) -> None:
    """Take the first heading if the title contains it: many titles also name the website."""
    first = main.find("h1")
    heading = _line(first and first.get_text())
    if heading and heading in fields.get("title", heading):
        fields["title"] = heading


def _line(value: Any) -> str:
    return " ".join(str(value or "").split())


def _size(tag: Tag) -> int:
    """Return the number of words."""
    return len(_WORD.findall(tag.get_text(" ")))


def _flatten(body: Tag) -> None:
    depths = {id(body): 0}
    for tag in body.find_all(True):
        depths[id(tag)] = depth = depths.get(id(tag.parent), _DEEPEST) + 1
        if depth == _DEEPEST:
            tag.string = tag.get_text(" ")


def _clean_headings(body: Tag, left_out: Counter[str]) -> None:
    """Make headings of what has their role, and remove the marks and links with which a heading links to itself."""
    for tag in body.find_all(role="heading"):
        level = str(tag.get("aria-level"))
        tag.name = f"h{min(int(level), 6)}" if level.isdecimal() and int(level) else "h2"
    for title in body.find_all(_TITLES):
        ids = {tag.get(name) for tag in (title, title.parent, *title.find_all(True)) for name in ("id", "name")}
        for link in title.find_all("a", href=True):
            address, mark, fragment = str(link["href"]).partition("#")
            is_own = unquote(fragment) in ids or not _size(link)
            if not mark or (address and not is_own):
                continue
            if is_own and _size(link) < _size(title):
                left_out["in the anchor mark of a heading"] += _size(link)
                link.decompose()
            else:
                link.unwrap()


def _marked_part(soup: BeautifulSoup, body: Tag, select: str, left_out: Counter[str]) -> Tag:
    """Return the parts that the selector or a landmark names, or the body if there is no landmark."""
    parts = _outermost(body.select(select or "main, [role=main]"))
    if not select and not any(map(_size, parts)):
        return body
    main = soup.new_tag("div")
    for part in parts:
        main.append(part.extract())
    left_out[f"outside {select!r}" if select else "outside <main>"] += _size(body)
    return main


def _article(body: Tag, left_out: Counter[str]) -> Tag:
    articles = _outermost(body.find_all("article"))
    if len(articles) != 1 or 2 * _size(articles[0]) <= _size(body):
        return body
    left_out["outside <article>"] += _size(body) - _size(articles[0])
    return articles[0]


def _outermost(tags: Iterable[Tag]) -> list[Tag]:
    """Return the tags that are in no other one of them."""
    found: list[Tag] = []
    known: set[int] = set()
    for tag in tags:
        if not any(id(parent) in known for parent in tag.parents):
            known.add(id(tag))
            found.append(tag)
    return found


def _remove(main: Tag, remove: str, left_out: Counter[str]) -> None:
    import soupsieve

    selectors = _selectors(remove)
    if not selectors:
        return
    for tag in main.select(", ".join(selectors)):
        if tag.decomposed:
            continue
        rule = next(selector for selector in selectors if soupsieve.match(selector, tag))
        left_out[f"removed by {rule!r}"] += _size(tag)
        tag.decompose()


@lru_cache
def _selectors(css: str) -> list[str]:
    """Return the selectors of a list, between which are commas."""
    selectors, depth = [""], 0
    for token in re.findall(r""""[^"]*"|'[^']*'|.""", css, re.DOTALL):
        depth += (token in "([") - (token in ")]")
        if token == "," and not depth:
            selectors.append("")
        else:
            selectors[-1] += token
    return [" ".join(selector.split()) for selector in selectors if selector.strip()]


def _remove_times(main: Tag, left_out: Counter[str]) -> None:
    """Remove the times that are alone in their line: most of them say when the page was published or built."""
    for time in main.find_all("time"):
        line = time
        while line.parent.name in _IN_LINE and not _is_beside_text(line):
            line = line.parent
        if line.parent.name in _LINES and not _is_beside_text(line):
            left_out["in a <time> alone in its line"] += _size(time)
            line.decompose()


def _is_beside_text(tag: Tag) -> bool:
    """Return whether a part of a line has text beside it in the same tag."""
    from airflow_provider_assistant.parsing.writer import BLOCKS

    siblings: list[Any] = [*tag.previous_siblings, *tag.next_siblings]
    return any(sibling.name not in BLOCKS and sibling.get_text().strip() for sibling in siblings)


def _replace_codes(main: Tag) -> None:
    """Write formulas as their source, and addresses that a script decodes. Each response codes them anew."""
    for formula in main.find_all("math"):
        source = formula.find("annotation")
        if source is not None:
            formula.replace_with(source.get_text().strip())
    for tag in main.find_all(attrs={"data-cfemail": True}):
        with contextlib.suppress(ValueError):
            key, *characters = bytes.fromhex(str(tag["data-cfemail"]))
            tag.string = bytes(character ^ key for character in characters).decode()
    for link in main.select('a[href*="/cdn-cgi/l/email-protection"]'):
        link.unwrap()


def _join_links(main: Tag, base: str) -> None:
    for link in main.find_all("a", href=True):
        with contextlib.suppress(ValueError):  # such as "http://["
            link["href"] = urljoin(base, str(link["href"]).strip())
