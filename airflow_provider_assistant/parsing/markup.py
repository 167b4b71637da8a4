"""Tags that people see in another way than Markdown would write them: anchors, panels, code, tables and forms."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urljoin

from airflow_provider_assistant.parsing.html_tags import (
    HEADINGS,
    attribute,
    class_names,
    length,
    remove,
    set_of,
    words_of,
)
from airflow_provider_assistant.texts import has_words

if TYPE_CHECKING:
    from bs4 import Tag

# An address that holds the content itself, and does not lead to a file.
_INLINE_CONTENT = re.compile(r"\s*(?:data|javascript|blob|vbscript):", re.IGNORECASE)
# Characters without width, at which browsers may break a line.
_INVISIBLE = re.compile("[\u200b\u2060\ufeff]")
_CODED_LINK = "/cdn-cgi/l/email-protection"
_CODED_EMAIL = "data-cfemail"
_TITLES = (*HEADINGS, "summary", "dt", "caption", "legend")
_TOP = frozenset(("top", "page-top", "totop"))
_ANCHORS = frozenset(("anchor", "anchors", "permalink", "headerlink", "headinglink", "hashlink", "anchorjs"))
_SIGNS = set_of("icon icons fa fas far bi mdi arrow caret chevron toggle toggler plus indicator marker expand")
_ANCHOR_LABEL = re.compile(
    r"permalink|permanent|(?:copy|direct)? ?link (?:to|for)|section titled|anchor", re.IGNORECASE
)
_LINE_NUMBERS = set_of("linenos lineno linenodiv line-numbers-rows rouge-gutter hljs-ln-numbers gutter blob-num")
# Their text is the name of a picture.
_ICONS = set_of(
    "material-icons material-icons-outlined material-icons-round material-icons-sharp material-symbols-outlined"
    " material-symbols-rounded material-symbols-sharp"
)
_SCREEN_READER = frozenset(("sr-only", "visually-hidden", "screen-reader-text", "visuallyhidden"))
_FORMULA_IMAGES = frozenset(("katex-html", "MathJax_Preview"))
_CONTROLS = ("input", "select", "textarea", "option", "datalist", "progress", "meter")
# What opens a panel.
_TOGGLES = "aria-expanded", "aria-controls", "data-toggle", "data-bs-toggle", "data-target", "data-bs-target"
_TOGGLE_WORDS = frozenset(("accordion", "collapse", "collapsible", "faq", "question", "toggle", "trigger", "tab"))
_PANEL_WORDS = set_of("answer collapse collapsed collapsible panel")
_QUESTION_MARKS = ("?", "\uff1f", "\u061f", "\u037e")
_BLOCKS = ("article", "blockquote", "div", "dl", *HEADINGS, "ol", "p", "pre", "section", "table", "ul")
# Characters of a form that is not content, apart from labels; of the text before the buttons of a vote; and of a button
# that is a sentence.
_LONGEST_FORM, _LONGEST_VOTE, _SENTENCE = 200, 60, 25
# Share of the text of a menu that is in links.
_MENU = 0.8


# -- headings --------------------------------------------------------------------------------------


def plain_headings(body: Tag) -> None:
    """Remove the marks that link to a heading, also around it, and the links that are a heading."""
    for tag in body.find_all(role="heading"):
        level = attribute(tag, "aria-level")
        tag.name = f"h{min(int(level), 6)}" if level.isdigit() and int(level) else "h2"
    for link in body.find_all("a"):
        if not link.decomposed:
            _plain_link(link)
    for title in body.find_all(_TITLES):
        remove(tag for tag in title.find_all(True) if _is_mark(tag, title))
        for string in title.find_all(string=_INVISIBLE):
            string.replace_with(_INVISIBLE.sub("", string))


def _is_mark(tag: Tag, title: Tag) -> bool:
    """Return whether a part of a title is a sign, such as a plus before a panel, or a button beside it."""
    if tag.decomposed or not _is_only_part(tag, title):
        return False
    if _is_hidden(tag):
        return True
    if not has_words(tag.get_text()):
        return tag.name == "button" or not (_SIGNS | _ANCHORS).isdisjoint(_all_words(tag))
    return tag.name == "button" and not _has_toggle(tag) and 2 * length([tag]) < length([title])


def _is_hidden(tag: Tag) -> bool:
    return attribute(tag, "aria-hidden") == "true"


def _plain_link(link: Tag) -> None:
    href = attribute(link, "href").strip()
    if not href and link.get("href") is None and not _is_hidden(link):
        return  # a place that others link to
    _, mark, fragment = href.partition("#")
    fragment = unquote(fragment)
    title = link.find_parent(_TITLES)
    if not has_words(link.get_text()) and link.find("img", alt=True) is None:
        if mark or not href:
            link.decompose()
        return
    if not mark:
        return
    is_part = title is None or _is_only_part(link, title)
    label = attribute(link, "aria-label") or attribute(link, "title")
    is_mark = bool(
        _ANCHORS & _all_words(link)
        or fragment in _TOP
        or (title is not None and _ANCHOR_LABEL.match(label))
        or _is_hidden(link)
        or (title is not None and fragment and fragment in _ids(title))
    )
    if is_mark and is_part:
        link.decompose()
    elif title is not None and (is_mark or href.startswith("#")):
        link.unwrap()


def _all_words(tag: Tag) -> set[str]:
    """Return the words of the classes, also joined, as in ``hash-link``."""
    words: set[str] = set()
    for name in class_names(tag):
        parts = words_of(name)
        words.update(parts)
        words.add("".join(parts))
    return words


def _ids(title: Tag) -> set[str]:
    parent = title.parent
    ids = {attribute(title, "id"), attribute(parent, "id") if parent is not None else ""}
    ids.update(attribute(tag, "id") or attribute(tag, "name") for tag in title.find_all(True))
    return ids


def _is_only_part(tag: Tag, title: Tag) -> bool:
    """Return whether the title has other text as well."""
    return _letters(tag) < _letters(title)


def _letters(tag: Tag) -> int:
    return sum(map(str.isalnum, tag.get_text()))


# -- everything else -------------------------------------------------------------------------------


def plain_markup(main: Tag) -> None:
    """Change the tags of the main part whose text would be lost, repeated or glued to another one."""
    _remove_by_class(main)
    _plain_formulas(main)
    _plain_code(main)
    _place_tabs(main)
    _remove_votes(main)
    for button in main.find_all("button"):
        if not _is_kept(button):
            button.decompose()
    _plain_forms(main)
    remove(main.find_all(_CONTROLS))
    _unwrap_layout_tables(main)
    _plain_links(main)


def _remove_by_class(main: Tag) -> None:
    """Remove what readers do not see as text."""
    for tag in main.find_all(class_=True):
        if tag.decomposed:
            continue
        names = class_names(tag)
        is_removed = not (_ICONS | _LINE_NUMBERS | _FORMULA_IMAGES).isdisjoint(names)
        if not _SCREEN_READER.isdisjoint(names) and tag.parent is not None:
            is_removed = _is_only_part(tag, tag.parent)
        if is_removed:
            tag.decompose()


def _plain_formulas(main: Tag) -> None:
    """Keep the source of a formula, which pages also have as MathML and as a drawing of its characters."""
    remove(main.find_all("mjx-assistive-mml"))
    for formula in main.find_all("math"):
        source = formula.find("annotation")
        if source is not None:
            formula.replace_with(source.get_text().strip())


def _plain_code(main: Tag) -> None:
    for code in main.find_all("pre"):
        remove(code.find_all(["button", "select"]))
        for line_break in code.find_all("br"):
            line_break.replace_with("\n")
        for line in code.find_all(["div", "li", "p"]):
            if not line.get_text().endswith("\n"):
                line.append("\n")
        code.string = code.get_text()


def _place_tabs(main: Tag) -> None:
    """Put the label of a tab before its panel."""
    by_id = {attribute(tag, "id"): tag for tag in main.find_all(id=True)}
    for tabs in main.find_all(_is_tab_list):
        labels = tabs.find_all(_is_tab_label)
        panels: list[Tag] = []
        if tabs.parent is not None:
            panels = [*tabs.parent.find_all(_is_tab_panel)]
        named = [by_id[target] for target in map(_target, labels) if target in by_id]
        if len(named) == len(labels):
            panels = named
        if len(panels) != len(labels):
            continue
        for label, panel in zip(labels, panels, strict=True):
            if label.find(_BLOCKS) is None and panel not in label.parents and label not in panel.parents:
                label.name = "p"
                panel.insert_before(label.extract())


def _is_tab_list(tag: Tag) -> bool:
    return attribute(tag, "role") == "tablist" or "tabbed-labels" in class_names(tag)


def _is_tab_label(tag: Tag) -> bool:
    return attribute(tag, "role") == "tab" or (tag.name == "label" and tag.has_attr("for"))


def _is_tab_panel(tag: Tag) -> bool:
    return attribute(tag, "role") == "tabpanel" or "tabbed-block" in class_names(tag)


def _target(tab: Tag) -> str:
    """Return the id of the panel that a tab shows; empty if it does not say."""
    names = ("aria-controls", "data-bs-target", "href")
    targets = [attribute(tab, name).removeprefix("#") for name in names]
    return next(filter(None, targets), "")


def _remove_votes(main: Tag) -> None:
    """Remove a short question with several buttons, such as "Was this helpful?"."""
    for button in main.find_all("button"):
        if button.decomposed or _is_toggle(button) or button.parent is None:
            continue
        vote = button.parent
        if vote is not main and len(vote.find_all("button")) == 1 and vote.parent is not None:
            vote = vote.parent
        buttons = vote.find_all("button")
        rest = length([vote]) - length(buttons)
        is_short = rest <= _LONGEST_VOTE and length(buttons) <= _LONGEST_VOTE
        is_vote = len(buttons) > 1 and is_short and vote.find(HEADINGS[:2]) is None
        if is_vote and vote is not main and _is_question(vote, buttons):
            vote.decompose()


def _is_question(vote: Tag, buttons: Sequence[Tag]) -> bool:
    """Return whether nothing follows its buttons, and none of them opens a panel."""
    if any(map(_is_toggle, buttons)):
        return False
    has_begun = False
    for string in filter(has_words, vote.find_all(string=True)):
        is_in_button = string.find_parent("button") is not None
        if has_begun and not is_in_button:
            return False
        has_begun = is_in_button
    return True


def _is_toggle(button: Tag) -> bool:
    if attribute(button, "aria-haspopup"):
        return False
    if _has_toggle(button):
        return True
    if button.find_parent(_TITLES) is not None or button.find(HEADINGS) is not None:
        return True
    return bool(_TOGGLE_WORDS & _all_words(button))


def _has_toggle(tag: Tag) -> bool:
    return attribute(tag, "role") == "tab" or any(tag.has_attr(name) for name in _TOGGLES)


def _is_kept(button: Tag) -> bool:
    """Return whether a button is a title, or a part of a sentence."""
    text = button.get_text().strip()
    if _is_toggle(button) or len(text) >= _SENTENCE or text.endswith(_QUESTION_MARKS):
        return True
    if _is_panel(button.find_next_sibling()) or button.find_parent("td") is not None:
        return True
    line = button.find_parent(["p", "li", "dd"])
    return line is not None and length(line.find_all("button")) < length([line])


def _is_panel(tag: Tag | None) -> bool:
    """Return whether it is hidden until a button opens it."""
    if tag is None:
        return False
    is_hidden = tag.has_attr("hidden") or _is_hidden(tag) or "display:none" in _style(tag)
    return is_hidden or not _PANEL_WORDS.isdisjoint(_all_words(tag))


def _style(tag: Tag) -> str:
    return attribute(tag, "style").replace(" ", "").lower()


def _plain_forms(main: Tag) -> None:
    """Remove the forms that ask for something; some pages are inside of a form."""
    for form in main.find_all("form"):
        if form.decomposed:
            continue
        labels = form.find_all(["label", "legend", "button"])
        asks = form.select_one('textarea, select, input:not([type="hidden"], [type="checkbox"])')
        holds_most = 2 * length([form]) > length([main])
        is_content = holds_most or form.find(["h1", "main", "article"]) is not None
        if asks is not None and not is_content and length([form]) - length(labels) <= _LONGEST_FORM:
            form.decompose()
    for label in main.find_all("label"):
        control = label.select_one('input:not([type="checkbox"], [type="radio"]), select, textarea')
        if control is not None and len(label.get_text().strip()) < _SENTENCE:
            label.decompose()


def _unwrap_layout_tables(main: Tag) -> None:
    """Replace tables that place parts of a page, such as code and its line numbers, by these parts."""
    for table in reversed(main.find_all("table")):
        is_layout = attribute(table, "role") in {"presentation", "none"}
        if is_layout or table.find([*HEADINGS, "table", "article"]) is not None or _has_long_code(table):
            _unwrap_table(table)


def _unwrap_table(table: Tag) -> None:
    has_title = table.find("h1") is not None
    parts = table.find_all(["thead", "tbody", "tfoot", "tr", "td", "th", "caption"])
    own_parts = [part for part in parts if part.find_parent("table") is table]
    for part in own_parts:
        part.name = "div"
        if has_title and _is_menu(part):
            part.clear()
    table.name = "div"


def _is_menu(cell: Tag) -> bool:
    """Return whether a cell beside the title of the page has nothing but links."""
    links = cell.find_all("a")
    return len(links) > 1 and cell.find(HEADINGS) is None and length(links) >= _MENU * length([cell])


def _has_long_code(table: Tag) -> bool:
    return any("\n" in code.get_text().strip() for code in table.find_all("pre"))


def _plain_links(main: Tag) -> None:
    # The content of a data: address is not text, and a script is not an address.
    for image in main.find_all("img"):
        image.replace_with(f" {' '.join(attribute(image, 'alt').split())} ")
    for tag in main.find_all(lambda tag: tag.has_attr(_CODED_EMAIL)):
        tag.replace_with(_decoded_email(attribute(tag, _CODED_EMAIL)) or tag.get_text())
    for link in main.find_all("a"):
        if _leads_nowhere(link) or link.find(_BLOCKS) is not None:
            link.unwrap()


def _decoded_email(coded: str) -> str:
    """Return an address that a script shows. Each response codes it with another number, its first byte."""
    try:
        key, *characters = bytes.fromhex(coded)
        return bytes(character ^ key for character in characters).decode()
    except ValueError:
        return ""


def _leads_nowhere(link: Tag) -> bool:
    """Return whether a link runs a script, opens a panel, or has no target."""
    href = attribute(link, "href").strip()
    if _INLINE_CONTENT.match(href) or _CODED_LINK in href or href in {"", "#", "#!", "#0"}:
        return True
    is_toggle = _has_toggle(link) or not _TOGGLE_WORDS.isdisjoint(_all_words(link))
    return href.startswith("#") and is_toggle


def absolute_links(main: Tag, base: str) -> None:
    """Make the targets of links absolute."""
    for link in main.find_all("a", href=True):
        href: Any = link["href"]
        try:
            link["href"] = urljoin(base, href.strip())
        except ValueError:  # such as "http://["
            link.unwrap()
