"""
Generated pages of websites, with what a reader sees and what is not content.

Each word is made up and on a page only once, so a test knows which ones must be in the text.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

SYLLABLES = [start + end for start in "bdfgklmnprstvwxyz" for end in "aeiou"]


def _templates(text: str) -> tuple[str, ...]:
    """Return the templates in a text, between which are empty lines."""
    return tuple(text.strip().split("\n\n"))


ACCORDIONS = _templates("""
<h3><button>{q}</button></h3><div>{a}</div>

<div class="card"><div class="card-header" id="h{n}"><h5 class="mb-0"><button class="btn btn-link"
data-toggle="collapse" data-target="#c{n}">{q}</button></h5></div><div id="c{n}" class="collapse"><div
class="card-body">{a}</div></div></div>

<div class="panel panel-default"><div class="panel-heading" role="tab" id="h{n}"><h4 class="panel-title"><a
role="button" data-toggle="collapse" href="#c{n}" aria-controls="c{n}">{q}</a></h4></div><div id="c{n}"
class="panel-collapse collapse" role="tabpanel" aria-labelledby="h{n}"><div class="panel-body">{a}</div>
</div></div>

<button class="accordion">{q}</button><div class="panel" style="display:none"><p>{a}</p></div>

<details><summary>{q}</summary>{a}</details>

<input type="checkbox" id="i{n}"><label for="i{n}">{q}</label><div class="content">{a}</div>

<dl><dt>{q}</dt><dd>{a}</dd></dl>

<dl><dt><button type="button" aria-expanded="false" aria-controls="d{n}">{q}<span
aria-hidden="true"> +</span></button></dt><dd id="d{n}" hidden><p>{a}</p></dd></dl>

<div class="faq-item"><div class="faq-question" role="button" tabindex="0" aria-expanded="false">{q}</div>
<div class="faq-answer" aria-hidden="true">{a}</div></div>

<div role="tablist"><button role="tab" id="t{n}" aria-controls="p{n}">{q}</button></div><div
role="tabpanel" id="p{n}" aria-labelledby="t{n}" hidden>{a}</div>

<div role="heading" aria-level="3"><span>{q}</span></div><section hidden="until-found">{a}</section>

<h3 id="f{n}"><a class="header-anchor" href="#f{n}" aria-hidden="true">#</a>{q}</h3><p>{a}</p>

<div class="MuiPaper-root MuiAccordion-root"><h3 class="MuiAccordion-heading"><button
class="MuiButtonBase-root MuiAccordionSummary-root" tabindex="0" type="button"
aria-expanded="false"><span class="MuiAccordionSummary-content">{q}</span><span
class="MuiAccordionSummary-expandIconWrapper"><svg></svg></span></button></h3><div
class="MuiCollapse-root MuiCollapse-hidden" style="min-height:0px"><div
role="region"><div class="MuiAccordionDetails-root">{a}</div></div></div></div>

<p><strong>Q: {q}</strong><br>A: {a}</p>

<table class="faq"><tr class="q"><td>{q}</td></tr><tr class="a" hidden><td>{a}</td></tr></table>

<section class="faq-section"><header><h3>{q}</h3></header><footer>{a}</footer></section>

<summary>{q}</summary><p>{a}</p>

<form><fieldset><legend>{q}</legend><p>{a} is here</p></fieldset></form>
""")
# Fields {a}, {b}, {c} are words.
CONTENT = _templates("""
<p>{a} <b>{b}</b>, {c}.</p>

<p>{a} <button>{b}</button> {c}</p>

<ul><li><a href='/{a}'>{a}</a></li><li><a href='/{b}'>{b}</a></li><li><a
href='https://x.example/{c}'>{c}</a></ul>

<ol><li>{a}<pre><code># {b}&#10;  {c}</code></pre></li></ol>

<div class="highlight"><table class="highlighttable"><tr><td class="linenos"><pre>1&#10;2</pre></td><td
class="code"><pre><span>{a}</span>&#10;<span class='c1 comment'>{b}</span> {c}</pre></td></tr></table></div>

<table><tr><th>{a}</th></tr><tr><td><i class="fa fa-check" aria-hidden="true"></i> {b}</td></tr><tr><td>
<svg><title>yes</title></svg><span class="sr-only">{c}</span></td></tr></table>

<table><tr><td><img src="/i.png" alt="{a}"> {b}</td><td><code>{c}</code></td></tr></table>

<aside class="note"><p>{a} {b} {c}</p></aside>

<div class="menu"><h3>{a}</h3><p>{b} 9 €, {c} 12 €</p></div>

<section id="comments"><h2>{a}</h2><p>{b} {c}</p></section>

<div class="tocopherol navigation-lights"><a href="/{a}">{a}</a> {b} {c}</div>

<div class="no-sidebar has-comments voter-guide"><p>{a} {b} {c}</p></div>

<div class="section-header"><h2>{a}</h2></div><p>{b} {c}</p>

<div class="rating-guide feedback-form-howto"><p>{a} {b} {c} 12</p></div>

<p>{a} <time datetime='2026-12-24T19:00'>7 pm</time> {b}, <time
datetime='2020-02-03'>3 February</time> {c}</p>

<figure><img src='/a.png' alt='{a}'><figcaption>{b} {c}</figcaption></figure>

<a href='/card' class='card'><h3>{a}</h3><p>{b} {c}</p></a>

<blockquote><p>{a}</p><footer>{b} {c}</footer></blockquote>

<form><p>{a} {b} {c} {long}</p></form>

<div class="tabs"><div role="tablist"><a role="tab" href="#pane-{a}">{a}</a><a role="tab"
href="#pane-{b}">{b}</a></div><div role="tabpanel" id="pane-{a}">{c}</div><div role="tabpanel"
id="pane-{b}">other</div></div>

<dl class="field-list"><dt>{a}</dt><dd>{b}</dd><dd>{c}</dd></dl>

<ul class="article-list"><li><a href=/a>{a}</a></li><li><a href=/b>{b}</a></li></ul>

<div class="feedback"><p>{a} We read all your comments and answer.</p></div>

<div class="newsletter"><h2>{a}</h2><p>Our newsletter {b} appears monthly, and it is free.</p></div>

<div class="login"><h2>{a}</h2><ol><li>{b} open</li><li>{c} enter</li></ol></div>

<aside class="admonition tip"><p>{a} <a href=/x>{b}</a> and more words to read here, so it is prose.</p></aside>

<div class="prevention next-steps"><h2>{a}</h2><ul><li><a href=/x>{b}</a></li></ul></div>

<div class="social-security"><p>{a}</p></div>

<p>You <button type="button">{a}</button> then <kbd>{b}</kbd></p>

<p>Press <button>Save</button> {a} and <button>Close</button> {b} to end the whole procedure that was begun before.</p>

<li><label>{a}</label> text</li>

<table><tr><td><button>{a} Save</button></td><td>saves</td></tr></table>
""")
HEADINGS = _templates("""
<h2 id="{i}">{a}<a class="headerlink" href="#{i}" title="Permalink to this heading">¶</a></h2>

<h2 class="anchor" id="{i}">{a}<a href="#{i}" class="hash-link" aria-label="Direct link to {a}">&#8203;</a></h2>

<h2 id="{i}"><a class="anchor" aria-hidden="true" href="#{i}"><span class="octicon octicon-link"></span>
</a>{a}</h2>

<div class="markdown-heading"><h2 id="{i}">{a}</h2><a id="u{i}" class="anchor" href="#{i}"
aria-label="Permalink: {a}"><svg></svg></a></div>

<h2 id="{i}">{a} <a href="#{i}" aria-label="Permalink">🔗</a></h2>

<h2 id="{i}">{a} <a href="https://x.example/p#{i}">link</a></h2>

<div class="sl-heading-wrapper"><h2 id="{i}">{a}</h2><a class="sl-anchor-link" href="#{i}"><span
aria-hidden="true">#</span><span class="sr-only">Section titled {a}</span></a></div>

<h2><a name="{i}"></a>{a} <a href="#{i}">#</a></h2>

<h2 id="{i}">{a}&#8203;</h2>

<h2><a class="toc-backref" href="#id{i}">{a}</a></h2>

<h2 id="{i}">{a}<sup><a href="https://x.example/p#{i}">§</a></sup></h2>

<h2 id="{i}">{a} <button class="copy" title="Copy link">&#128279;</button></h2>

<h2 id="{i}-ü">{a} <a href="#{i}-%C3%BC">link</a></h2>

<h2 id="{i}">{a}<a href="#{i}"><img src="/link.svg" alt="link"></a></h2>
""")
# Fields {a}, {b}, {c} are words that are not content.
NOISE = _templates("""
<div class="article-votes"><span class="article-votes-question">{a}?</span><div role="group">
<button>{b}</button><button>{c}</button></div></div>

<p>{a}? <button>{b}</button> <button>{c}</button></p>

<div itemprop="interactionStatistic">12 {a} {b} {c}</div>

<div class="meta"><span class="time-ago">5 {a} {b} {c}</span></div>

<section class="comments-area" id="comments"><h2>2 {a}</h2><ol class="comment-list"><li
class="comment">{b} {c}</ol></section>

<article itemprop="comment" itemscope><p>{a} {b} {c}</p></article>

<div class="related-articles"><h2>{a}</h2><ul><li><a href="/r">{b}</a></li><li><a href="/s">{c}</a></li>
</ul></div>

<aside><h3>{a}</h3><a href="/r">{b}</a> <a href="/s">{c}</a></aside>

<div class="social-share"><span>{a}</span> <a href="https://s.example">{b}</a> <a href="/t">{c}</a></div>

<a class="edit-this-page" href="/edit">{a} {b} {c}</a>

<p><a href="https://github.com/x/y/edit/main/docs/p.md">{a} {b} {c}</a></p>

<nav class="pagination-nav"><a href="/p">{a}</a><a href="/n">{b} {c}</a></nav>

<div class="prev-next"><a rel="prev" href="/p">{a}</a> <a rel="next" href="/n">{b} {c}</a></div>

<a rel="next" href=/n>{a}</a>

<ol class="breadcrumb"><li><a href="/">{a}</a></li><li><a href="/x">{b}</a></li><li>{c}</li></ol>

<div class="toc"><p>{a}</p><ul><li><a href="#b">{b}</a></li><li><a href="#c">{c}</a></li></ul></div>

<div id="cookie-banner" class="cookie-consent" style="display:none"><p>{a} {b}</p><button>{c}</button></div>

<form class="newsletter"><label>{a}</label><input type="email"><button>{b} {c}</button></form>

<script>{a}</script><style>.{b}</style><noscript>{c}</noscript>

<select><option>{a}<option>{b}<option>{c}</select>

<div class="tags"><span>{a}</span><a href="/t">{b}</a><a href="/u">{c}</a></div>

<p class="helpful-count">12 {a} found this helpful</p>

<span itemprop="upvoteCount">{a}</span>

<div class="timestamp"><relative-time datetime="2026-11-20T10:00">{a} ago</relative-time></div>

<div id="disqus_thread"><p>{a}</p></div>

<div class="addthis_inline_share_toolbox">{a}</div>

<ul itemtype="https://schema.org/BreadcrumbList" itemscope><li>{a}</li></ul>

<div id="onetrust-consent-sdk"><p>{a}</p></div>

<div class="back-to-top"><a href="#">{a}</a></div>

<button class="copy-btn">{a}</button>

<pre><button>{a}</button><code>x</code></pre>

<div class="language-switcher"><a href=/de>{a}</a></div>

<form action="/search" role="search"><label>{a}</label><input type=search></form>

<div class="star-rating" role="img" aria-label="4.5">★★★★☆ {a} (120)</div>

<div itemprop="aggregateRating" itemscope>{a}</div>

<button aria-label="Copy link">{a}</button>

<a class="skip-to-content" href="#c">{a}</a>
""")
# Labels are words of the language: nothing else says that these lines are not content.
TIMES = _templates("""
<p><time datetime="{day}">5 days ago</time></p>

<p>Updated <time datetime="{day}T10:00:00Z">3 hours ago</time></p>

<p>Aktualisiert <time datetime="{day}">vor 5 Tagen</time></p>

<div><time datetime="{day}">5日前</time></div>

<span class="date"><time datetime="{day}">hace 40 minutos</time></span>

<p>Last updated: <time datetime="{day}">{day}</time></p>

<p itemprop="dateModified">{day}</p>

<div class="last-updated">Last updated on <b>{day}</b></div>
""")
TOP = '<div class="topbar"><a href="/">{a}</a> <a href="/l">{b}</a> {c}</div>'
LAYOUTS = _templates("""
<header><nav>{top}</nav></header><main>{text}</main><footer>{end}</footer>

<div class="header"><a href="/">{top}</a></div><div role="main">{text}</div><div class="footer">{end}</div>

<div id="header"><ul class="menu"><li><a href="/">{top}</a></li></ul></div><div class="wrapper has-sidebar">
<div class="left sidebar menu"><ul><li><a href="/">{side}</a></ul></div><div class="content">{text}</div>
</div><div id="footer"><p>{end}</p></div>

<nav>{top}</nav><article>{text}</article><aside>{side}</aside><footer>{end}</footer>

<form id="aspnetForm" action="/"><input type="hidden" name="__VIEWSTATE" value="x"><div class="navbar"><a
href="/">{top}</a></div><div id="main">{text}</div><div class="site-footer">{end}</div></form>

<div class="skip-link"><a href="#content">{side}</a></div><div class="site-header"><a href="/">{top}</a>
</div><div id="content">{text}</div><footer>{end}</footer>
""")


@dataclass
class GeneratedPage:
    """
    A page, and the truth about it.

    :param seen: The words that a reader sees, in their order.
    :param noise: Words that are not content.
    :param questions: Pairs of a question and its answer.
    """

    html: str
    seen: list[str] = field(default_factory=list)
    noise: list[str] = field(default_factory=list)
    questions: list[tuple[str, str]] = field(default_factory=list)


class _Words:
    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._known: set[str] = set()

    def __call__(self, prefix: str) -> str:
        while True:
            word = prefix + "".join(self._chance.choices(SYLLABLES, k=4))
            if word not in self._known:
                self._known.add(word)
                return word


def generated_page(seed: int, *, day: str = "2026-11-20") -> GeneratedPage:
    """
    Return a page of several kinds of content and noise.

    :param day: When the page says it was built.
    """
    chance = random.Random(seed)
    word = _Words(chance)
    page = GeneratedPage("")

    def filled(template: str, words: list[str], prefix: str) -> str:
        fields = {name: word(prefix) for name in "abc" if "{" + name + "}" in template}
        words.extend(fields.values())
        return template.format(**fields, i=word("i"), day=day, long="of " * 120)

    def of(templates: tuple[str, ...], count: int) -> list[str]:
        return chance.sample(templates, min(count, len(templates)))

    title = word("k")
    page.seen.append(title)
    parts = [f"<h1>{title}</h1>"]
    number = 0
    for heading in of(HEADINGS, 4):
        parts.append(filled(heading, page.seen, "k"))
        parts += [filled(content, page.seen, "k") for content in of(CONTENT, 3)]
        for accordion in of(ACCORDIONS, 2):
            number += 1
            question = f"{word('k')} {word('k')}?"
            answer = f"{word('k')} {word('k')}."
            page.seen += (question + " " + answer).replace("?", "").replace(".", "").split()
            page.questions.append((question, answer))
            parts.append(accordion.format(q=question, a=answer, n=f"{seed}-{number}"))
        parts += [filled(noise, page.noise, "z") for noise in of(NOISE, 2)]
        parts += [filled(time, page.noise, "z") for time in of(TIMES, 1)]
    layout = LAYOUTS[seed % len(LAYOUTS)]
    around = {name: " ".join(word("z") for _ in range(3)) for name in ("top", "side", "end")}
    for name, words in around.items():
        if "{" + name + "}" in layout:
            page.noise += words.split()
    body = layout.format(text="\n".join(parts), **around)
    page.html = (
        f'<!doctype html><html lang="en"><head><title>{title} | Site</title><meta name="date" content="{day}"></head>'
        f"<body>{body}<!-- built {day} --></body></html>"
    )
    return page


# Tags whose text each parser reads as text, also where HTML does not allow them.
TAGS = [
    "a",
    "article",
    "aside",
    "b",
    "blockquote",
    "br",
    "button",
    "caption",
    "dd",
    "details",
    "div",
    "dl",
    "dt",
    "em",
    "fieldset",
    "figcaption",
    "figure",
    "footer",
    "form",
    "h1",
    "h2",
    "header",
    "hr",
    "img",
    "label",
    "legend",
    "li",
    "main",
    "nav",
    "option",
    "p",
    "section",
    "select",
    "span",
    "sub",
    "summary",
    "sup",
    "table",
    "tbody",
    "td",
    "th",
    "thead",
    "time",
    "tr",
    "ul",
]
ATTRIBUTES = (
    " id=x",
    " class=nav",
    " class='headerlink a'",
    " href=#x",
    " href=/y",
    " href='http://['",
    " href='javascript:x'",
    " role=heading aria-level=3",
    " role=main",
    " role=presentation",
    " rowspan=2",
    " colspan=3",
    " colspan=x",
    " hidden",
)
SIGNS = ("<", "# ", "--- ", " ", "\n", "&lt;", "&amp;amp; ", "\u200b ", "¶ ", "| ", "``` ", "===", "[1]: ")


def random_markup(seed: int) -> str:
    """Return tags, words and signs of Markdown in an order that no template has."""
    chance = random.Random(seed)
    parts: list[str] = []
    open_tags: list[str] = []
    for number in range(chance.randint(1, 60)):
        kind = chance.random()
        if kind < 0.4:
            open_tags.append(chance.choice(TAGS))
            attributes = chance.sample(ATTRIBUTES, chance.choice([0, 0, 1, 2]))
            parts.append(f"<{open_tags[-1]}{''.join(attributes)}>")
        elif kind < 0.6 and open_tags:
            parts.append(f"</{open_tags.pop()}>")
        else:
            parts.append(chance.choice(SIGNS) if kind < 0.8 else f" word{number} ")
    return "".join(parts)
