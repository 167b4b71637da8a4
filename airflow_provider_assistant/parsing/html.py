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
from functools import lru_cache
from html import escape
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urljoin

from airflow_provider_assistant.parsing.pages import Fields, Note, Page, count_words

if TYPE_CHECKING:
    from bs4 import BeautifulSoup, Tag

# What is not content, as selectors of CSS. A class that is an ordinary word needs more than its name.
DEFAULT_REMOVE = """
nav, search, dialog, noscript, template, svg, canvas, iframe, object, audio, video, map, select, textarea, datalist,
[role=navigation], [role=search], [role=menu], [role=menubar], [role=toolbar], [role=dialog], [role=alertdialog],
[role=contentinfo], :is(header, div)[role=banner]:not(:has(h1)),
:is(body, body > div) > header:not(:has(h1)), :is(body, body > div) > footer, aside:has(a):not(:has(p)),
#header:not(:has(h1)), #footer, .footer:not(td, th), .site-header, .site-footer, .page-footer, .printfooter,
#nav, #navigation, .nav:not(.nav-tabs, .nav-pills), .navbar, .sidenav, #sidebar, .sidebar:has(a):not(:has(p)),
.sphinxsidebar, div.related:has(> h3 + ul), .topbar, .topnav, .topNav, .subNav, .bottomNav, .skipNav,
.skip-link, .skip-to-content, .skip-nav, .back-to-top, .breadcrumb, .breadcrumbs, #breadcrumbs,
.pagination, .pagination-nav, .prev-next, .prev-next-area, .toc, #toc, .table-of-contents,
.headerlink, .hash-link, .sl-anchor-link, #jump-to-nav, .mw-jump-link, .mw-editsection, #catlinks, .language-switcher,
.edit-this-page, .theme-edit-this-page,
a:is([rel~=next], [rel~=prev], [rel~=edit], [href*="/edit/main/"], [href*="/edit/master/"]):not(p *, li *, dd *, td *),
.cookie-banner, .cookie-consent, .cookie-notice, #cookie-banner, #onetrust-consent-sdk, #CybotCookiebotDialog,
.related-articles, .related-posts, .recommended-articles, .article-votes, .helpful-count, .star-rating,
.social-share, .share-buttons, .sharedaddy, .addthis_inline_share_toolbox,
.comments-area, .comment-list, #disqus_thread, .post-tags, div.tags:has(> a),
.last-updated, .theme-last-updated, .VPLastUpdated, .git-revision-date-localized-plugin, .time-ago,
[itemprop=comment], [itemprop=upvoteCount], [itemprop=interactionStatistic], [itemprop=aggregateRating],
[itemprop=dateModified], [itemtype$="/BreadcrumbList"], [itemtype$="/SiteNavigationElement"],
pre button, .copy-btn, button[aria-label^=Copy],
.linenos, .lineno, .linenodiv, .line-numbers-rows, .hljs-ln-numbers, .blob-num,
.material-icons, .material-symbols-outlined,
.katex-html, .MathJax_Preview, mjx-assistive-mml, semantics:has(> annotation) > :not(annotation),
form:has(input:not([type=hidden], [type=checkbox]), textarea, select):not(:has(h1, h2, h3, p, li, table))
"""
# What browsers take if a page does not name its charset.
DEFAULT_CHARSET = "windows-1252"
# Python's codec, where that of the same name knows fewer characters than browsers.
_WIDER = {
    "big5": "big5hkscs",
    "euc-kr": "cp949",
    "gbk": "gb18030",
    "shift_jis": "cp932",
    "iso-2022-jp": "iso2022_jp_ext",
}
# Pages in Unicode are recognized without these names. The others are not read by browsers.
_NOT_CHARSETS = ("utf", "hz-gb-2312", "replacement", "x-user-defined")
_CHARSET = re.compile(
    rb"(?:<meta[^>]{0,200}?charset|<\?xml[^>]{0,200}?encoding)\s*=\s*[\"']?\s*([\w.:-]{1,40})", re.IGNORECASE
)
# Browsers look for the charset in the first 1,024 bytes, and pages exceed them.
_SEARCHED_BYTES = 2048
# Levels of tags; browsers do not read more. The time of some steps grows with the square of the depth.
_DEEPEST = 500
_HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")
# Text of XHTML, which the parser would drop. In a script, it ends with the script.
_CDATA = re.compile(r"<!\[CDATA\[((?:(?!<!\[CDATA\[|(?i:</script)).)*?)\]\]>", re.DOTALL)
# A tag, a class, an id or the value of an attribute.
_NAME = re.compile(r"[.#]?[\w-]+|\[[\w-]+=\w+\]")
# Characters without white space: a page with more text has content.
_LONGEST_NOTICE = 300
# After at most five seconds. A page that is shown longer may be loaded again.
_REDIRECT = re.compile(r"[0-5]?(?:\.\d*)?\s*[;,]\s*url\s*=\s*['\"]?([^'\"\s]+)", re.IGNORECASE)
_DATE = re.compile(r"(\d{4})-\d\d-(\d\d)")
# Such as 9:30, 19.30, 7 pm or 7 a.m., which is not relative to the day on which it is read.
_CLOCK = re.compile(r"\d[:.]\d\d|\d\s*[ap]\.?\s?m\b", re.IGNORECASE)
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
    :return: The fields ``title``, ``category``, ``date``, ``canonical`` (an address), ``robots`` (what
        the page tells search engines), ``redirect`` (where it leads at once) and ``obstacle`` (why it shows no content,
        as a predicate), if the page has them. The notes count the words that are left out.
    """
    from bs4 import BeautifulSoup

    from airflow_provider_assistant.parsing import writer

    notes: list[Note] = []
    left_out: Counter[str] = Counter()
    # Text is text: some containers, such as template, would hide theirs.
    text = _CDATA.sub(lambda found: escape(found[1], quote=False), _decoded(content, encoding, notes))
    soup = BeautifulSoup(text, "lxml", string_containers={})
    fields = _fields_of_head(soup)
    base = _one_line(soup.base and soup.base.get("href"))
    for tag in soup.find_all(["script", "style", "title"]):
        tag.decompose()
    _flatten(soup)
    _clean_headings(soup, left_out)
    main = _marked_part(soup, select, left_out)
    has_password = main.find("input", type=re.compile("password", re.IGNORECASE)) is not None
    notice = " ".join(tag.get_text(" ") for tag in main.find_all("noscript"))
    _remove(main, remove, left_out)
    if main is soup:
        main = _article(soup, left_out)
    _clean_times(main, left_out)
    _decode_addresses(main, left_out)
    for link in main.find_all("a", href=True) if base else ():
        with contextlib.suppress(ValueError):  # such as "http://["
            link["href"] = urljoin(base, _one_line(link["href"]))
    heading = _one_line(main.h1 and main.h1.get_text())
    # Many titles also name the website.
    if heading and heading in fields.get("title", heading):
        fields["title"] = heading
    has_content = main.find(["code", "li", "pre", "table"]) is not None
    text = writer.written(main)
    if not any(map(str.isprintable, set(text) - {" ", "\ufffd"})):
        text = ""
    if not has_content and len("".join(text.split())) <= _LONGEST_NOTICE:
        if has_password:
            fields["obstacle"] = "asks to log in"
        elif "javascript" in (text or notice).lower():
            fields["obstacle"] = "has no text without JavaScript"
    notes += [Note("word", reason, True, count) for reason, count in left_out.items() if count]
    return Page(fields, text, notes)


def check_selectors(**selectors: str) -> None:
    """
    Check selectors of CSS, by the names of their parameters, before a page is read with them.

    :raises AssistantInputError: One is invalid.
    """
    for name, selector in selectors.items():
        # The default, and no selector, need no library.
        if selector in {"", DEFAULT_REMOVE}:
            continue
        import soupsieve

        # It imports Airflow, which the process that parses files must not load.
        from airflow_provider_assistant.exceptions import AssistantInputError

        try:
            soupsieve.compile(selector)
        except soupsieve.SelectorSyntaxError as error:
            raise AssistantInputError(
                f"{name}={selector!r} is not a selector of CSS: {str(error).splitlines()[0]}", field=name
            ) from None


def _decoded(content: bytes, encoding: str, notes: list[Note]) -> str:
    """
    Return a page as text.

    UTF-8 is tried before the charset that the page names: text in another charset is hardly ever valid UTF-8, but pages
    in UTF-8 often name another charset.
    """
    import webencodings

    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return content.decode("utf-16", "replace")
    with contextlib.suppress(UnicodeDecodeError):
        text = content.decode("utf-8-sig")
        # iso-2022-jp is ASCII with this character.
        if "\x1b" not in text:
            return text
    named = _CHARSET.search(content[:_SEARCHED_BYTES])
    found = [webencodings.lookup(name) for name in (encoding, named[1].decode() if named else "", DEFAULT_CHARSET)]
    charset = next(charset for charset in found if charset and not charset.name.startswith(_NOT_CHARSETS))
    text = content.decode(_WIDER.get(charset.name, charset.codec_info.name), "replace")
    unknown = text.count("\ufffd")
    if unknown:
        notes.append(Note("character", f"not in the charset {charset.name}", False, unknown))
    return text


def _fields_of_head(soup: BeautifulSoup) -> Fields:
    contents: dict[str, str] = {}
    # Browsers that run scripts do not read what is in <noscript>.
    for tag in soup.select(":not(noscript) > meta"):
        name = _one_line(tag.get("property") or tag.get("name") or tag.get("http-equiv")).lower()
        contents.setdefault(name, _one_line(tag.get("content")))
    canonical = soup.find("link", rel="canonical")
    redirect = _REDIRECT.match(contents.get("refresh", ""))
    fields = {
        "title": _one_line(soup.title and soup.title.get_text()),
        "category": contents.get("category") or contents.get("article:section"),
        "date": next((contents[name] for name in _DATES if contents.get(name)), ""),
        "canonical": _one_line(canonical and canonical.get("href")),
        "robots": ", ".join(contents[name] for name in ("robots", "googlebot") if contents.get(name)),
        "redirect": redirect and redirect[1],
    }
    return {name: value for name, value in fields.items() if value}


def _one_line(value: Any) -> str:
    return " ".join(str(value or "").split())


def _word_count(tag: Tag) -> int:
    return count_words(tag.get_text(" "))


def _drop(tag: Tag, reason: str, left_out: Counter[str]) -> None:
    left_out[reason] += _word_count(tag)
    tag.decompose()


def _flatten(whole: Tag) -> None:
    """Make text of the tags that are nested too deeply."""
    depths = {id(whole): 0}
    for tag in whole.find_all(True):
        depths[id(tag)] = depth = depths.get(id(tag.parent), _DEEPEST) + 1
        if depth == _DEEPEST:
            tag.string = tag.get_text(" ")


def _clean_headings(whole: Tag, left_out: Counter[str]) -> None:
    """Make headings of what has their role, and remove the marks and links with which a heading links to itself."""
    for tag in whole.find_all(role="heading"):
        level = str(tag.get("aria-level"))
        tag.name = f"h{min(int(level), 6)}" if level.isdecimal() and int(level) else "h2"
    for title in whole.find_all([*_HEADINGS, "summary", "dt"]):
        if title.parent is None:  # removed
            continue
        around = [title, *title.find_all(True), *title.find_parents(limit=1)]
        ids = {tag.get(name) for tag in around for name in ("id", "name")}
        for button in title.find_all("button"):
            if not _word_count(button):
                button.decompose()
        for link in title.find_all("a", href=re.compile("#")):
            address, _, fragment = str(link["href"]).partition("#")
            is_own = unquote(fragment) in ids or not _word_count(link)
            if is_own and _word_count(link) < _word_count(title):
                _drop(link, "in the anchor mark of a heading", left_out)
            elif is_own or not address:
                link.unwrap()


def _marked_part(soup: BeautifulSoup, select: str, left_out: Counter[str]) -> Tag:
    """Return the parts that the selector or a landmark names, or the whole page if there is no landmark."""
    parts = _outermost(soup, select or "main, [role=main]")
    if not select and not any(map(_word_count, parts)):
        return soup
    main = soup.new_tag("div")
    for part in parts:
        main.append(part.extract())
    left_out[f"outside {select!r}" if select else "outside <main>"] += _word_count(soup)
    return main


def _article(whole: Tag, left_out: Counter[str]) -> Tag:
    articles = _outermost(whole, "article")
    if len(articles) != 1 or 2 * _word_count(articles[0]) <= _word_count(whole):
        return whole
    left_out["outside <article>"] += _word_count(whole) - _word_count(articles[0])
    return articles[0]


def _outermost(whole: Tag, selector: str) -> list[Tag]:
    tags = whole.select(selector)
    ids = set(map(id, tags))
    return [tag for tag in tags if not any(id(parent) in ids for parent in tag.parents)]


def _remove(main: Tag, remove: str, left_out: Counter[str]) -> None:
    import soupsieve

    selectors = _selectors(remove)
    # Looking up a name takes a tenth of the time.
    names = {selector for selector in selectors if _NAME.fullmatch(selector)}
    others = [selector for selector in selectors if selector not in names]
    for tag in main.find_all(True):
        if tag.parent is None:  # removed
            continue
        own = [tag.name, f"#{tag.get('id')}", *(f".{name}" for name in tag.get_attribute_list("class"))]
        own += [f"[{name}={value}]" for name, value in tag.attrs.items()]
        rule = next((name for name in own if name in names), "")
        if rule:
            _drop(tag, f"removed by {rule!r}", left_out)
    for tag in main.select(", ".join(others)) if others else ():
        if not tag.decomposed:
            rule = next(selector for selector in others if soupsieve.match(selector, tag))
            _drop(tag, f"removed by {rule!r}", left_out)


@lru_cache
def _selectors(css: str) -> list[str]:
    """Return the selectors of a list, between which are commas."""
    selectors, depth = [""], 0
    for part in re.findall(r"""/\*.*?\*/|"[^"]*"|'[^']*'|.""", css, re.DOTALL):
        depth += (part in "([") - (part in ")]")
        if part == "," and not depth:
            selectors.append("")
        else:
            selectors[-1] += part
    return [selector for selector in map(_one_line, selectors) if selector]


def _clean_times(main: Tag, left_out: Counter[str]) -> None:
    """Write the date of a time that does not say its day: "5 days ago" is another text on each day."""
    for time in main.find_all(["time", "relative-time", "time-ago"]):
        text = time.get_text()
        date = _DATE.match(str(time.get("datetime")))
        numbers = {number.zfill(2) for number in re.findall(r"\d+", text)}
        # Not with the year or the day.
        if date and numbers.isdisjoint(date.groups()) and not _CLOCK.search(text):
            left_out["in a relative <time>, written as its date"] += _word_count(time)
            time.string = date[0]


def _decode_addresses(main: Tag, left_out: Counter[str]) -> None:
    """Write e-mail addresses that a script decodes. Each response of the website codes them differently."""
    for tag in main.find_all(None, {"data-cfemail": True}):
        with contextlib.suppress(ValueError):
            key, *characters = bytes.fromhex(str(tag["data-cfemail"]))
            address = bytes(character ^ key for character in characters).decode()
            left_out["in an e-mail address, written decoded"] += _word_count(tag)
            tag.string = address
    for link in main.find_all("a", href=re.compile("/cdn-cgi/l/email-protection")):
        link.unwrap()
