"""
What the classes and the id of a tag say about a part of a page.

A name counts only if each of its words is known here: ``related-articles`` is a list of other pages,
``related-rates`` may be the subject of this one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from airflow_provider_assistant.parsing.html_tags import attribute, class_names, set_of, words_of

if TYPE_CHECKING:
    from bs4 import Tag


# Words that say nothing about the purpose.
_NEUTRAL = set_of("""
    site page main global local side sub top left right bottom primary secondary wrapper wrap container
    inner outer box block area section region list group widget module component link links item
    items js wp mw md td hs bd wy sl c l o u theme desktop mobile sticky fixed floating bar
    panel body layout column col row div ul ol nav the on in this doc docs article articles post
    posts content contents entry blog topic topics help kb vertical horizontal small large
    inline plugin default collection view app web simple custom my x icons buttons button text
    label count counter
""")
_COMMENTS = set_of("""
    comments disqus disqusthread utterances giscus commento cusdis commentlist commentform
    commentarea commentsection commentthread commentrespond commentreply commentreplies
    commentbox commentbody commentauthor commentmeta commentitem
""")
_CONSENT = set_of("""
    gdpr cookiebanner cookiebar cookieconsent cookiedialog cookiemessage cookiemodal
    cookienotice cookieoverlay cookiepopup cookiesbanner cookiesbar cookiesnotice cookiealert
    consentbanner consentbar consentmodal consentpopup
""")
_ADVERTISING = set_of("ad ads advert advertisement sponsored adsense")
_SKIP = set_of("skip skiplink skiplinks mwjumplink jumptonav")
_RELATED = set_of(
    "related youmayalsolike readnext morearticles moreposts upnext recommended recommendations"
    " similar popular trending recent suggested suggestions"
)
_HEADER = set_of("header footer")
_AROUND = set_of("sidebar footer masthead topbar")
_NAVIGATION = set_of("""
    nav navi navbar navigation menu submenu megamenu breadcrumb breadcrumbs crumbs toc
    tableofcontents pagination pager paginator paging prevnext sidenav subnav topnav tags
    taglist categories languages toolbar readmore prev previous next social sitemap sidebar
    masthead topbar catlinks printfooter onthispage inthisarticle inthispage languageswitcher
    languageselector languagepicker langswitcher versionswitcher localeswitcher
""")
_WIDGETS = set_of("""
    vote votes voting voter upvote upvotes downvote downvotes helpful helpfulness share sharing
    shares sharer social subscribe newsletter backtotop totop timeago ago viewcount articleviews
    postviews pageviews readingtime readtime clipboard editsection sitesub
""")
_DATES = set_of("""
    updated lastmod modified revision lastupdate mdsourcefile gitrevisiondatelocalizedplugin
    gitrevisiondatelocalizedplugindate
""")
# These may also be subjects.
_INTERACTIVE = set_of("""
    feedback rating ratings stars like likes reaction reactions follow print edit search
    searchbox login signin survey poll
""")
# Further words of the names of widgets: "was-this-helpful", "edit-this-page", "last-updated".
_OF_WIDGETS = set_of(
    "was is it me us git revision date localized time last author up down back yes no user media signup form star"
)
# The kinds, each with the words of which one must be in a name, and the further words that may be.
_KINDS = {
    "comments": (_COMMENTS, _NEUTRAL | {"user", "reader", "customer", "discussion"}),
    "consent": (_CONSENT, _NEUTRAL),
    "advertising": (_ADVERTISING, _NEUTRAL),
    "skip link": (_SKIP, _NEUTRAL | {"to", "navigation"}),
    "date": (_DATES, _NEUTRAL | _OF_WIDGETS),
    "widget": (_WIDGETS, _NEUTRAL | _INTERACTIVE | _OF_WIDGETS),
    "interactive widget": (_INTERACTIVE, _NEUTRAL | _OF_WIDGETS),
    "related": (_RELATED, _NEUTRAL),
    "navigation": (_NAVIGATION, _NEUTRAL | _HEADER),
    "header": (_HEADER, _NEUTRAL | _NAVIGATION),
    "around": (_AROUND, _NEUTRAL | _NAVIGATION | _HEADER),
}
# Services whose parts of a page have many names.
_SERVICES = set_of(
    "addthis sharethis addtoany cookiebot didomi klaro onetrust osano quantcast truste usercentrics cookiefirst iubenda"
)
_COOKIES = set_of("cookie cookies consent")
_BANNERS = set_of("banner notice popup modal overlay dialog bar consent message alert")


def kinds_of(tag: Tag) -> set[str]:
    """Return the kinds of parts that the names of a tag mean: keys of ``_KINDS``."""
    kinds = set()
    for name in _names(tag):
        words = words_of(name)
        # Such as "table-of-contents" and "back-to-top".
        for spelled in (set(words), {"".join(words)}):
            for kind, (core, further) in _KINDS.items():
                if not core.isdisjoint(spelled) and (core | further).issuperset(spelled):
                    kinds.add(kind)
        if not _SERVICES.isdisjoint(words):
            kinds.add("consent")
        cookies = _COOKIES.intersection(words)
        if cookies and not _BANNERS.isdisjoint(set(words) - cookies):
            kinds.add("consent")
    return kinds


def _names(tag: Tag) -> Iterator[str]:
    """Return classes and id. The id of a section is often made of its heading, and says what it is about."""
    names = class_names(tag)
    yield from names
    if tag.name not in {"section", "article"} and "section" not in names:
        yield attribute(tag, "id")
