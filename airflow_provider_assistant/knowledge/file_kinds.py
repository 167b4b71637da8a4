"""Which files of a folder are pages, by their names alone."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import NamedTuple

from airflow_provider_assistant.parsing.child import LIBRARIES, is_installed


class Reason(NamedTuple):
    """
    Why a file is not read.

    :param text: For the account.
    :param is_expected: Whether it cannot hold content.
    """

    text: str
    is_expected: bool


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


MARKDOWN = _words(".markdown .md .mdoc .mdown .mdwn .mdx .mkd .mkdn .qmd .rmd .text .txt")

# Folders in which programs keep what is not a page: site generators templates, their output and its parts, and package
# managers what they have downloaded. Other names with an underscore, such as _posts and _index.md, are content.
_FOLDERS = _words(
    "__macosx __pycache__ _assets _book _build _data _downloads _extensions _ext _freeze _images _includes _layouts "
    "_modules _plugins _sass _site _sources _static _templates _theme _themes bower_components node_modules"
)
# Files without text: pictures, sound, fonts, programs, settings, archives and copies.
_NO_TEXT = _words(
    ".apng .avif .bmp .cur .drawio .eps .excalidraw .gif .heic .ico .icns .jpeg .jpg .jxl .png .psd .puml .svg .svgz "
    ".tif .tiff .webp .xcf .fig .sketch .ai .mmd .dot .gv .plantuml "
    ".aac .avi .flac .m4a .m4v .mkv .mov .mp3 .mp4 .mpeg .mpg .ogg .ogv .opus .wav .webm "
    ".eot .otf .ttf .woff .woff2 "
    ".bash .bat .c .cc .cjs .class .cpp .cs .css .cts .dll .dylib .exe .go .h .hpp .jar .java .js .jsx .kt .less .lua "
    ".mjs .mts .php .pl .ps1 .py .pyc .pyi .r .rb .rs .sass .scala .scss .sh .so .sql .styl .swift .ts .tsx .vue .wasm "
    ".ejs .erb .haml .hbs .j2 .jinja .jinja2 .liquid .mustache .njk .pug .slim .tmpl .tpl .twig "
    ".cfg .conf .editorconfig .env .ini .properties .toml .cff .bib .csl .bst .sty .cls "
    ".7z .bz2 .gz .rar .tar .tgz .whl .xz .zip .zst "
    ".bak .crt .db .in .lnk .lock .log .map .md5 .orig .pem .pid .sha256 .sqlite .sqlite3 .swp .sum .mod .tmp .url"
)
_SETTINGS = _words(
    "_category_.json _category_.yml _category_.yaml _config.yml _config.yaml _meta.json _quarto.yml _toc.yml "
    "antora.yml book.json cname codeowners copying desktop.ini docker-compose.yml dockerfile docs.json gemfile "
    "jenkinsfile jsconfig.json lerna.json license licence makefile manifest.json meta.json mint.json mkdocs.yml notice "
    "package-lock.json package.json pnpm-lock.yaml procfile rakefile readthedocs.yml robots.txt sidebars.json "
    "sitemap.xml summary.yml thumbs.db toc.yml tsconfig.json turbo.json versions.json vercel.json _redirects _headers "
    "llms.txt llms-full.txt requirements.txt constraints.txt"
)
# What is not such a suffix is a part of the name, as in "Plan v1.5 final".
_SUFFIX = re.compile(r"\.[a-z0-9_+-]{1,10}")


def reason_hidden(name: str) -> str | None:
    """
    Return why a file is not a page, for its folders and the way its name begins; None if it may be a page.

    :param name: Path below the source.
    """
    *folders, file = name.lower().split("/")
    if any(part.startswith(".") for part in (*folders, file)):
        return "is hidden, as its name or a folder begins with a dot"
    if not _FOLDERS.isdisjoint(folders):
        return "is in a folder of a program, such as _templates or node_modules"
    if "_drafts" in folders:
        return "is a draft"
    if file.startswith("~$") or file.endswith("~"):
        return "is the lock or the copy of a file that somebody edits"
    return None


def reason_unread(name: str) -> Reason | None:
    """Return why a file of this kind is not read; None if it is."""
    path = PurePosixPath(name.lower())
    suffix = path.suffix
    if path.name in _SETTINGS:
        return Reason("holds settings or a list, not a page", is_expected=True)
    # The format whose library is part of an extra: a folder with such files was read without it.
    if suffix in MARKDOWN or (suffix in LIBRARIES and (suffix != ".rst" or is_installed(suffix))):
        return None
    if suffix in _NO_TEXT:
        return Reason(f"has a suffix of files without text ({suffix})", is_expected=True)
    if _SUFFIX.fullmatch(suffix):
        return Reason(f"has a suffix that is not read ({suffix})", is_expected=False)
    return Reason("has no suffix", is_expected=False)
