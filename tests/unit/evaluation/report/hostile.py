"""An evaluation whose texts try to break the report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_assistant.evaluation import summary as parts
from airflow_provider_assistant.evaluation import verdict as gate_parts
from airflow_provider_assistant.evaluation.evaluate import Evaluation
from tests.unit.evaluation.report.examples import case, scored, summary_of

if TYPE_CHECKING:
    from airflow_provider_assistant.evaluation.summary import Summary

CANARY = "sung"
HOSTILE = [
    f"<script>window.{CANARY}=1</script>",
    f"</script><script>{CANARY}=1</script>",
    f"</style><script>{CANARY}=1</script><style>",
    f"</title><script>{CANARY}=1</script>",
    f"--><script>{CANARY}=1</script><!--",
    f'"><img src=x onerror="{CANARY}=1">',
    f"' onmouseover='{CANARY}=1' style='position:fixed;inset:0' x='",
    f"<svg onload={CANARY}=1><a xlink:href=javascript:{CANARY}=1>x</a></svg>",
    f'[x](javascript:{CANARY}=1) <a href="javascript:{CANARY}=1">x</a>',
    '<iframe srcdoc="&lt;script&gt;parent.sung=1&lt;/script&gt;"></iframe><base href="https://evil.invalid/">',
    '<meta http-equiv="refresh" content="0;url=https://evil.invalid/"><link rel="stylesheet" href="//evil.invalid/x">',
    "&lt;script&gt; &#60;b&#62; &amp;amp;",
    "{{ 7 * 7 }} {% raw %} {{ config }} ${7*7} $\\frac{1}{2}$",
    "\N{RIGHT-TO-LEFT OVERRIDE}reversed \N{LEFT-TO-RIGHT ISOLATE}left open \N{RIGHT-TO-LEFT EMBEDDING}",
    "nul \x00, bell \x07, escape \x1b[31m, delete \x7f, next line \x85, carriage \r return, form \x0c feed",
    "lone \ud800 surrogates \udfff, no characters \ufffe \uffff",
    "W" * 10_000,
    "á̵̡̢̛̩" * 500 + "\N{COMBINING ACUTE ACCENT}" * 5_000,
    "<b>" * 1_000,
    "x y " * 250_000,
    "あ" * 5_000,
    "\n" * 5_000,
    "",
]


def hostile() -> tuple[Evaluation, list[Summary]]:
    """Return an evaluation with these texts as names, messages, answers and reasons."""
    cases = []
    for number, text in enumerate(HOSTILE):
        marks = {"key": f"{number} {text[:2000]}", "message": text, "tags": (text[:2000],), "request_id": text[:200]}
        cases += [
            case(expected=text[::-1], answer=text, must_include=(text,) * 12, **marks),
            case(
                expected=None, answer=None, status=text or "failed", error=text, **{**marks, "key": f"u{number} {text}"}
            ),
        ]
    # A table cannot store text that is not valid Unicode.
    tables = [one for one in cases if one.key.isprintable() or "\ud800" not in one.key]
    errors = [one.message if number % 4 == 0 else 0.01 * number for number, one in enumerate(tables)]
    scores = scored(tables, token_f1=[0.01 * number for number in range(len(tables))], custom=errors)
    plain = summary_of(cases, scores)
    differences = parts.Difference(
        paired=1,
        mean=-0.1,
        low=-0.2,
        high=0.0,
        worse=len(HOSTILE),
        better=len(HOSTILE),
        worst=[parts.Change(key=one.key, before=0.9, after=0.1) for one in cases[::2]],
        best=[parts.Change(key=text, before=0.1, after=0.9) for text in HOSTILE],
    )
    scorer = plain.scorers["token_f1"]
    summary = plain.model_copy(
        update={
            "name": HOSTILE[3],
            "tag": HOSTILE[5],
            "run": {"run_id": HOSTILE[16]},
            "asked_at": HOSTILE[0],
            "scorers": {text[:500]: scorer.model_copy(update={"kind": text}) for text in HOSTILE} | plain.scorers,
            "passes": parts.PassRate(condition=HOSTILE[0], passed=1, failed=1, not_judged=1, rate=0.5),
            "comparison": parts.Comparison(
                baseline={"name": HOSTILE[1], "path": HOSTILE[2], "asked_at": HOSTILE[5]},
                confidence=0.95,
                same=1,
                changed=1,
                added=1,
                removed=1,
                coverage_before=0.5,
                scorers={"token_f1": differences, HOSTILE[5]: differences},
                tags={text[:2000]: {"token_f1": differences} for text in HOSTILE},
            ),
            "gate": gate_parts.Gate(
                verdict="failed",
                on_fail="report",
                rules=[gate_parts.RuleVerdict(rule=text, verdict="failed", value=0.1, reason=text) for text in HOSTILE],
            ),
        }
    )
    return Evaluation(summary, cases, scores), [summary.model_copy(update={"asked_at": HOSTILE[6]})]
