"""Times on a page that change every day, such as "5 days ago" and when the page was built."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from airflow_provider_assistant.parsing.html_tags import HEADINGS, attribute

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
_LONGEST_LABEL = 30
_LINES = ("p", "div", "span", "small", "footer", "header")


def remove_times(main: Tag) -> None:
    """Remove relative times, and when the page was changed; with the line, if nothing but a label is left of it."""
    for tag in main.find_all("time"):
        if tag.decomposed or tag.find_parent("pre") is not None:
            continue
        text = " ".join(tag.get_text(" ").split())
        line = tag.find_parent([*_LINES, "li"])
        label = ""
        if line is not None:
            words = " ".join(line.get_text(" ").split()).replace(text, " ", 1)
            label = re.sub(r"^\W+|\W+$", "", words)
        if _is_relative(attribute(tag, "datetime"), text):
            tag.decompose()
            is_line = len(label) <= _LONGEST_LABEL
        else:
            is_line = _LABEL.fullmatch(label) is not None
        if is_line and line is not None and line is not main and _is_plain_line(line):
            line.decompose()


def _is_plain_line(line: Tag) -> bool:
    return line.name in _LINES and line.find([*HEADINGS, "p", "table", "ul", "ol"]) is None


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
