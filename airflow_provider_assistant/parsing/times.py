"""Times on a page that change every day, such as "5 days ago" and when the page was built."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from airflow_provider_assistant.parsing.html_tags import HEADINGS, attribute, class_names, set_of

if TYPE_CHECKING:
    from bs4 import Tag

# Words of "5 days ago", "yesterday" and the like.
_RELATIVE = re.compile(
    r"\b(?:ago|yesterday|today|just now|in the last|gestern|heute|vorgestern|gerade eben"
    r"|vor \d+|vor ein\w*|il y a|hier|aujourd.hui|hace|ayer|hoy|há|atrás|ontem|hoje|\w+ fa"
    r"|ieri|oggi|geleden|gisteren|vandaag|sedan|siden|igår|i går|i dag|idag|sitten|eilen"
    r"|tänään|temu|wczoraj|dzisiaj|назад|вчера|сегодня|тому|önce|dün|bugün|yang lalu|kemarin"
    r"|trước|hôm qua|před|včera|dnes|ezelőtt|tegnap)\b|[前后後]\b|前$|昨[天日]|今[天日]|刚刚|剛剛|たった今|전$|어제"
    r"|오늘|ที่แล้ว|เมื่อวาน|วันนี้|قبل|منذ|أمس|לפני|אתמול",
    re.IGNORECASE,
)
# What is before the time at which a page was changed.
_LABEL = re.compile(
    r"(?:last |page |article )*(?:updated|modified|reviewed|edited|published|posted|created"
    r"|changed|generated|built|update|modification|revision)(?: on| at)?"
    r"|(?:zuletzt )?(?:aktualisiert|geändert|bearbeitet|veröffentlicht)(?: am)?"
    r"|letzte (?:änderung|aktualisierung)|stand|(?:dernière )?(?:mise à jour"
    r"|modification)(?: le)?|(?:mis à jour|publié|modifié)(?: le)?"
    r"|(?:última )?(?:actualización|modificación|atualização)|actualizado|atualizado|publicado"
    r"|(?:ultimo )?aggiornamento|aggiornato|pubblicato|(?:laatst )?bijgewerkt"
    r"|senast uppdaterad|sist oppdatert|sidst opdateret|ostatnia aktualizacja"
    r"|(?:последнее )?обновлен\w*|最[后終终後]更新|更新|最終更新日?|마지막 업데이트|업데이트|son güncelleme",
    re.IGNORECASE,
)
_DATE = re.compile(r"(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d))?")
_NUMBER = re.compile(r"\d+")
_CLASSES = set_of("relativetime relative-time timeago time-ago time_ago js-relative-date moment-from-now")
_LONGEST_LABEL = 30
_LINES = ("p", "div", "span", "small", "footer", "header")
_NOT_IN_LINES = (*HEADINGS, "p", "table", "ul", "ol", "pre", "div", "img")


def remove_times(main: Tag) -> None:
    """Remove relative times, and when the page was changed; with the line, if nothing but a label is left of it."""
    for tag in main.find_all(_is_time):
        if tag.decomposed or tag.find_parent("pre") is not None:
            continue
        line = tag.find_parent([*_LINES, "li"])
        if line is None or line is main:
            line = tag
        text = _text(tag)
        label = re.sub(r"^\W+|\W+$", "", _text(line).replace(text, " ", 1))
        if tag.name != "time" or _is_relative(attribute(tag, "datetime"), text):
            # What is left is a label, or a sentence.
            tag.string = ""
            if len(label) <= _LONGEST_LABEL:
                _remove_line(line, main)
        elif _LABEL.fullmatch(label):
            _remove_line(line, main)
    for string in main.find_all(string=_RELATIVE):
        is_short = len(string.strip()) <= _LONGEST_LABEL
        before: Any = string.previous_sibling
        is_line = before is None or before.name in _NOT_IN_LINES
        if is_short and is_line and _LABEL.match(string.strip()):
            string.extract()


def _is_time(tag: Tag) -> bool:
    """Return whether it is a time; one without a tag of its own must be a whole line, such as "Updated 5 days ago"."""
    if tag.name == "time" or not _CLASSES.isdisjoint(map(str.lower, class_names(tag))):
        return True
    if tag.name not in _LINES or tag.find(_NOT_IN_LINES) is not None:
        return False
    text = _text(tag)
    has_label = _LABEL.match(text) is not None
    is_short = len(text) <= _LONGEST_LABEL and (has_label or _NUMBER.search(text) is not None)
    return is_short and _RELATIVE.search(text) is not None and _is_whole_line(tag)


def _is_whole_line(tag: Tag) -> bool:
    parent = tag.parent
    if tag.name != "span" or parent is None:
        return True
    return len(_text(parent)) <= 2 * _LONGEST_LABEL and parent.name in _LINES


def _remove_line(line: Tag, main: Tag) -> None:
    """Remove a line, and what is around it as long as it has nothing but a label."""
    while line is not main and line.name in {*_LINES, "li", "ul", "ol"}:
        parent = line.parent
        if line.find(_NOT_IN_LINES) is not None:
            return
        line.decompose()
        words = "" if parent is None else re.sub(r"^\W+|\W+$", "", _text(parent))
        if parent is None or (words and not _LABEL.fullmatch(words)):
            return
        line = parent


def _text(tag: Tag) -> str:
    return " ".join(tag.get_text(" ").split())


def _is_relative(moment: str, text: str) -> bool:
    """
    Return whether a text says a moment relative to now.

    Without words of a known language, it is relative if it contains none of the numbers of the moment.
    """
    date = _DATE.match(moment)
    has_words = _RELATIVE.search(text) is not None
    numbers = {int(number) for number in _NUMBER.findall(text) if len(number) < 5}
    if date is None:
        # A time of the day has no date.
        return has_words and not moment.strip()[:1].isdigit()
    if not numbers:
        return has_words
    year, month, day, hour = (int(part or 0) for part in date.groups())
    if year in numbers or numbers >= {day, month}:
        return False
    return has_words or numbers.isdisjoint((day, hour, hour % 12 or 12, year % 100))
