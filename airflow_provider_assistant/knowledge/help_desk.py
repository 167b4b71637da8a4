"""Rows of documents from the articles that a help desk or a wiki exports."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, Literal, TypeAlias

from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.knowledge.chunks import first_heading
from airflow_provider_assistant.knowledge.documents import (
    DocumentRow,
    DocumentRows,
    check_on_error,
    row_without_key,
    text_of,
)
from airflow_provider_assistant.knowledge.files import joined
from airflow_provider_assistant.knowledge.markdown import with_absolute_links
from airflow_provider_assistant.parsing.child import ChildParser
from airflow_provider_assistant.parsing.confluence import html_of_storage
from airflow_provider_assistant.parsing.limits import UnreadableFileError
from airflow_provider_assistant.source_account import AccountedRows, SourceAccount

Article: TypeAlias = Mapping[str, Any]
# A path of names, such as body.view.value, or a function of the article.
Field: TypeAlias = str | Callable[[Article], Any]

# Fields of Zendesk, Intercom, Freshdesk and Confluence, the best first.
TITLE = ("title", "name", "subject")
CONTENT = ("body.export_view.value", "body.view.value", "body.storage.value", "body", "description", "content", "html")
URL = ("html_url", "url", "_links.webui")
CATEGORY = ("category", "category.name", "section.name", "folder.name", "collection.name", "space.name")
DATE = ("edited_at", "updated_at", "version.when", "version.createdAt")
LOCALE = ("locale", "language", "default_locale")
STATE = ("state", "status")

# 2 and 1 are those of Freshdesk.
PUBLISHED = frozenset({"published", "publish", "current", "public", "active", "live", "2"})
DRAFTS = frozenset({"draft", "unpublished", "archived", "deleted", "trashed", "historical", "inactive", "1"})
YES = frozenset({"true", "yes", "1"})
NO = frozenset({"false", "no", "0"})

_HTML = re.compile(r"<[a-zA-Z!/]|&(?:#?\w+);")
_PAGE = "<!doctype html><meta charset=utf-8><main>{}</main>"
# Times as numbers: seconds, or milliseconds, since 1970.
_FIRST_SECOND, _FIRST_MILLISECOND = 10**8, 10**11


def article_documents(
    articles: Iterable[Article],
    *,
    key: Field | None = None,
    title: Field | None = None,
    content: Field | None = None,
    url: Field | None = None,
    category: Field | None = None,
    date: Field | None = None,
    locale: Field | None = None,
    is_draft: Field | None = None,
    locales: str | Iterable[str] | None = None,
    base_url: str | None = None,
    on_error: Literal["fail", "skip"] = "fail",
    strict: bool = False,
) -> DocumentRows:
    """
    Convert the articles of a help desk to rows. HTML becomes Markdown; drafts and other languages are left out.

    The fields of Zendesk, Intercom, Freshdesk and Confluence are known. For others, name the field by its path, such as
    ``"body.view.value"``, or pass a function of the article. Needs the extra ``files``, as HTML files do.

    :param articles: The articles as the API of the help desk returns them, such as the items of all its pages.
    :param key: Default: ``id``, and the language if the article names it, such as ``360001/en-us``.
    :param title: Default: ``title``, ``name`` or ``subject``.
    :param content: HTML, the storage format of Confluence, or Markdown. Default: ``body``, also of Confluence, or
        ``description``.
    :param url: The address that readers open. Default: ``html_url`` or ``url``, unless it is one of the API, or
        Confluence's ``_links.webui``.
    :param category: Default: ``category``, or the name of the section, folder, collection or space.
    :param date: Default: ``edited_at``, ``updated_at`` or the time of the version.
    :param locale: Language of the article. Default: ``locale``, ``language`` or ``default_locale``.
    :param is_draft: Whether the article is not for readers. Default: what ``draft``, ``state`` and ``status`` say; an
        article whose state is unknown is left out with a warning.
    :param locales: Languages to load, such as ``"en"``, which includes ``en-us``. An article that names no language is
        always loaded. Translations inside an article, as Intercom has them, are articles then. Default: all articles.
    :param base_url: Address of the website if the articles only have paths.
    :param on_error: What to do with an article that cannot be parsed. ``skip``: return a row without key, which a load
        rejects; its chunks do not become stale. Default: ``fail``.
    :param strict: Whether articles that are left out for an unknown state, without a text or by ``on_error`` are an
        error after the last row. Default: False, a warning.
    :return: The documents.
    :raises AssistantInputError: An article has no field with a text, or one in Atlassian's document format; it cannot
        be parsed; or the extra is not installed. The message names the article.
    """
    check_on_error(on_error)
    wanted = _Fields(key, title, content, url, category, date, locale, is_draft, base_url)
    languages: list[str] | None = None
    if locales is not None:
        given = [locales] if isinstance(locales, str) else locales
        languages = [_language(one) for one in given]

    def rows(account: SourceAccount) -> Iterator[DocumentRow]:
        with ChildParser() as parser:
            for number, article in enumerate(articles):
                _check(article, number)
                for translation in _translations(article, languages):
                    try:
                        row = _row(translation, wanted, languages, parser, account)
                    except _UnreadableArticleError as error:
                        if on_error == "fail":
                            raise
                        account.leave_out("article", "cannot be parsed", error.name, is_expected=False)
                        yield row_without_key(error.name)
                        continue
                    if row is not None:
                        account.read("article")
                        yield row

    return AccountedRows(rows, source=articles, strict=strict)


class _UnreadableArticleError(AssistantInputError):
    """The text of an article cannot be parsed."""

    def __init__(self, name: str | None, problem: str) -> None:
        super().__init__(
            f"article {name!r} {problem}",
            todo="Repair it, or leave it out. With on_error='skip', the others are loaded without it.",
            field="articles",
        )
        self.name = name or ""


@dataclass(frozen=True)
class _Fields:
    """Where the parts of a document are; None for the known names."""

    key: Field | None
    title: Field | None
    content: Field | None
    url: Field | None
    category: Field | None
    date: Field | None
    locale: Field | None
    is_draft: Field | None
    base_url: str | None


def _check(article: Any, number: int) -> None:
    if not isinstance(article, Mapping):
        raise AssistantInputError(
            f"article {number} is a {type(article).__name__}, not a mapping",
            todo="Pass the list of articles that the reply of the help desk contains.",
            field="articles",
        )


def _row(
    article: Article,
    fields: _Fields,
    languages: Sequence[str] | None,
    parser: ChildParser,
    account: SourceAccount,
) -> DocumentRow | None:
    """Return the row of an article; None if it is left out."""
    language = text_of(_value(article, fields.locale, LOCALE))
    name = text_of(_value(article, fields.key, ("id",)))
    if name and language and fields.key is None:
        name = f"{name}/{language}"
    reason = _reason_to_leave_out(article, fields.is_draft)
    if reason:
        account.leave_out("article", reason, name or "", is_expected=reason == "is a draft")
        return None
    if languages is not None and language and not _is_one_of(_language(language), languages):
        account.leave_out("article", "is in another language", name or "", is_expected=True)
        return None
    text = _markdown(_content(article, fields.content, name), name, parser)
    if not text.strip():
        account.leave_out("article", "has no text", name or "", is_expected=False)
        return None
    url = _address(article, fields)
    if url:
        text = with_absolute_links(text, partial(joined, url))
    return DocumentRow(
        key=name,
        parent=name,
        title=text_of(_value(article, fields.title, TITLE)) or first_heading(text),
        content=text,
        category=text_of(_value(article, fields.category, CATEGORY)),
        url=url,
        date=_moment(_value(article, fields.date, DATE)),
    )


def _value(article: Article, field: Field | None, names: Sequence[str]) -> Any:
    """Return the value of a field; without one, the first value of the names that is neither empty nor a mapping."""
    if callable(field):
        return field(article)
    if field is not None:
        return _at(article, field)
    for name in names:
        value = _at(article, name)
        if text_of(value):
            return value
    return None


def _at(article: Article, path: str) -> Any:
    """Return the value at a path of names and positions; None if there is none."""
    if path in article:
        return article[path]
    value: Any = article
    for name in path.split("."):
        if isinstance(value, Mapping):
            value = value.get(name)
        elif isinstance(value, list) and name.isdigit() and int(name) < len(value):
            value = value[int(name)]
        else:
            return None
    return value


def _reason_to_leave_out(article: Article, is_draft: Field | None) -> str | None:
    if is_draft is not None:
        return "is a draft" if _is_yes(_value(article, is_draft, ())) else None
    # Elsewhere, `published` is a date.
    is_published = str(article.get("published")).lower() not in NO
    if _is_yes(article.get("draft")) or not is_published:
        return "is a draft"
    state = text_of(_value(article, None, STATE))
    if state is None or state.lower() in PUBLISHED:
        return None
    if state.lower() in DRAFTS:
        return "is a draft"
    return f"has an unknown state ({state.lower()})"


def _is_yes(value: Any) -> bool:
    if isinstance(value, str):
        return value.strip().lower() in YES
    return bool(value)


def _translations(article: Article, languages: Sequence[str] | None) -> Iterator[Article]:
    """Yield an article, and with languages its translations instead, if it contains them."""
    translations = article.get("translated_content")
    contents = []
    if languages is not None and isinstance(translations, Mapping):
        contents = [(name, one) for name, one in translations.items() if isinstance(one, Mapping)]
    if not contents:
        yield article
    for name, translation in contents:
        yield {**article, **translation, "id": article.get("id"), "locale": name}


def _language(name: str) -> str:
    return name.strip().lower().replace("_", "-")


def _is_one_of(language: str, languages: Sequence[str]) -> bool:
    return any(language == one or language.startswith(f"{one}-") for one in languages)


def _content(article: Article, field: Field | None, name: str | None) -> str:
    value = _value(article, field, CONTENT)
    if isinstance(value, str):
        return value
    if field is None and any(isinstance(_at(article, path), str) for path in CONTENT):
        return ""
    body = article.get("body")
    if isinstance(body, Mapping) and field is None:
        problem = "a body without export_view, view or storage"
        if "atlas_doc_format" in body or body.get("type") == "doc":
            problem = "a body in Atlassian's document format, which is not read"
        raise AssistantInputError(
            f"article {name!r} has {problem}",
            todo="Ask for another format: expand=body.export_view in version 1 of the API, body-format=storage in "
            "version 2.",
            field="content",
        )
    known = {path.partition(".")[0] for path in CONTENT}
    if value is None and (field is not None or known.intersection(article)):
        return ""
    raise AssistantInputError(
        f"article {name!r} has no text: its fields are {', '.join(map(str, article))}",
        todo="Name the field with content=…, such as content='body.view.value'.",
        field="content",
    )


def _markdown(content: str, name: str | None, parser: ChildParser) -> str:
    if not _HTML.search(content):
        return content
    html = _PAGE.format(html_of_storage(content))
    try:
        parsed = parser.parse(".html", html.encode("utf-8", "replace"))
    except ModuleNotFoundError as error:
        raise AssistantInputError(
            f"article {name!r} cannot be read, because {error.name} is not installed",
            todo="Run pip install 'airflow-provider-assistant[files]'.",
            field="articles",
        ) from None
    except UnreadableFileError as error:
        raise _UnreadableArticleError(name, str(error)) from None
    return str(parsed.get("text", ""))


def _address(article: Article, fields: _Fields) -> str | None:
    """Return the address that readers open: absolute, and not one of the API."""
    base = fields.base_url or text_of(_at(article, "_links.base")) or ""
    names = URL if fields.url is None else (fields.url,)
    for name in names:
        address = text_of(_value(article, name, ())) or ""
        if address.startswith("/"):
            # Not urljoin, which would drop the path at the end of the base of Confluence.
            address = base.rstrip("/") + address
        is_of_api = fields.url is None and "/api/" in address
        if "://" in address and not is_of_api:
            return address
    return None


def _moment(value: Any) -> str | None:
    if isinstance(value, int | float) and value > _FIRST_SECOND:
        seconds = value / 1000 if value > _FIRST_MILLISECOND else value
        return datetime.fromtimestamp(seconds, UTC).isoformat()
    return text_of(value)
