"""A folder of files as other people write them, with what a load must keep of each and what it must leave out."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from tests.unit.parsing.samples import docx, pptx, xlsx


@dataclass(frozen=True, slots=True)
class Trap:
    """
    Describe one file.

    :param kept: Words that must be in the loaded documents, each once.
    :param dropped: Words that must not be there.
    """

    path: str
    content: bytes
    kept: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()


@dataclass(slots=True)
class Traps:
    """All files of a folder."""

    traps: list[Trap] = field(default_factory=list)

    def text(self, path: str, text: str, encoding: str = "utf-8") -> None:
        """Add a text, in which ``keep…`` and ``drop…`` are the words to look for."""
        self.file(path, text.encode(encoding), text)

    def file(self, path: str, content: bytes, text: str) -> None:
        """Add a file, and the text that a reader sees in it."""
        words = "".join(char if char.isalnum() else " " for char in text).split()
        kept = tuple(word for word in words if word.startswith("keep"))
        dropped = tuple(word for word in words if word.startswith("drop"))
        self.traps.append(Trap(path, content, kept, dropped))

    def write(self, folder: Path) -> None:
        """Write all files."""
        for trap in self.traps:
            path = folder / trap.path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(trap.content)

    @property
    def kept(self) -> list[str]:
        """All words to keep."""
        return [word for trap in self.traps for word in trap.kept]

    @property
    def dropped(self) -> list[str]:
        """All words to leave out."""
        return [word for trap in self.traps for word in trap.dropped]


def knowledge_traps() -> Traps:
    """Return one of each trap that folders of knowledge have."""
    traps = Traps()
    _drafts(traps)
    _markdown(traps)
    _html(traps)
    _names(traps)
    _office(traps)
    return traps


def _drafts(traps: Traps) -> None:
    headers = {
        "plain": "---\ndraft: true\n---\n",
        "blank_line": "\n---\ndraft: true\n---\n",
        "quoted": '---\n"draft": yes\n---\n',
        "spaced": "---\ntitle: x\ndraft : True\n---\n",
        "toml": '+++\ntitle = "x"\ndraft = true\n+++\n',
        "unpublished": "---\npublished: false\n---\n",
        "expired": "---\nexpiryDate: 2001-01-31\n---\n",
        "noindex": "---\nrobots: noindex\n---\n",
    }
    for name, header in headers.items():
        traps.text(f"drafts/{name}.md", f"{header}# Plan\n\ndrop{name.replace('_', '')} is not public.\n")
    traps.text("drafts/bom.md", "\ufeff---\ndraft: true\n---\n\ndropbom\n")
    traps.text("news/published.md", "---\ndraft: false\ndate: 2026-01-02\n---\n# News\n\nkeeppublished\n")
    traps.text("news/question.md", "---\nquestion: keepasked?\n---\nkeepanswered\n")
    traps.text("news/toml.md", '+++\ntitle = "News"\n+++\n\nkeeptoml\n')


def _markdown(traps: Traps) -> None:
    traps.text("comments.md", "# Page\n\nkeepvisible\n\n<!-- ## Old\n\ndropcomment -->\n\n`<!-- keepcode -->`\n")
    traps.text("targets.md", "# Page\n\n[//]: # (droptarget)\n\nkeepbetween {/* dropbraces */} `{/* keepbraces */}`\n")
    traps.text("questions.md", "# FAQ\n\n## keepsunday: do you ship on Sunday? No.\n\n## Prices\n\nkeepprice\n")
    traps.text("only_headings.md", "# keephead1\n\n## keephead2\n")
    traps.text("fence.md", "# Code\n\n```npm i``` keepinline\n\n## Next\n\n~~~python\n# keepincode\n~~~\n\nkeepafter\n")
    traps.text("formula.md", "# Sum\n\n$$\n# keepformula\n$$\n\n<pre>\n# keeppre\n</pre>\n")
    traps.text("windows.md", "# Windows\r\n\r\nkeepcrlf   \r\n\r\n\r\nkeepspaces\r\n")
    rows = "".join(f"| key {number} | keepcell{number} |\n" for number in range(120))
    traps.text("table.md", f"# Table\n\n| Name | Value |\n|---|---|\n{rows}")


def _html(traps: Traps) -> None:
    traps.text(
        "faq.html",
        "<html><head><title>FAQ</title></head><body><nav>dropnav</nav><main><h1>FAQ</h1>"
        "<h2><button>keepquestion1?</button></h2><div hidden>keepanswer1</div>"
        "<details><summary>keepquestion2?</summary>keepanswer2</details>"
        '<h2>Links<a class="hash-link" href="#links">#</a></h2><ul><li><a href="/a">keeplink</a></li></ul>'
        "<pre># keepshell</pre></main></body></html>",
    )
    traps.text("form.html", "<body><form><h1>Form</h1><p>keepform</p><select><option>dropoption</select></form></body>")
    traps.text("hash.html", "<body><main><h1>Hash</h1><p># keephash is no heading</p></main></body>")
    traps.text("hidden.html", '<head><meta name="robots" content="noindex"></head><body><p>dropnoindex</p></body>')
    traps.text(
        "latin.html", '<head><meta charset="iso-8859-1"></head><body><p>keeplatin “quoted” €</p></body>', "cp1252"
    )


def _names(traps: Traps) -> None:
    traps.text("_index.md", "# Index\n\nkeepindex\n")
    traps.text("_posts/2026-01-01-hello.md", "# Hello\n\nkeeppost\n")
    traps.text("What is it? [new].md", "# What\n\nkeepglob\n")
    traps.text("UPPER.MD", "# Upper\n\nkeepupper\n")
    traps.text("page.mdx", "import Tabs from 'x';\n\n# MDX\n\n<Tabs>\n\nkeepmdx\n\n</Tabs>\n")
    traps.text("notes.txt", "# keeptext\n---\n<keepangle>\n")
    traps.text(".hidden/secret.md", "drophidden\n")
    traps.text("empty.md", "")


def _office(traps: Traps) -> None:
    def hidden_text(document: object) -> None:
        document.add_heading("Word")  # type: ignore[attr-defined]
        paragraph = document.add_paragraph("keepword ")  # type: ignore[attr-defined]
        paragraph.add_run("drophiddenword").font.hidden = True

    traps.file("word.docx", docx(hidden_text), "keepword drophiddenword")
    traps.file("slides.pptx", pptx(("keeptitleonly", "")), "keeptitleonly")
    traps.file("sheet.xlsx", xlsx(Prices=[["Name", "Price"], ["keepsheet", 7]]), "keepsheet")
