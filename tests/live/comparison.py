"""The demo's comparison of two sites: the staging site's documents, the results, and the report.

Run as ``python -m tests.live.comparison FILE`` with a connection to the service: it writes the documents to a CSV file,
and loads them into the staging site.
"""

from __future__ import annotations

import csv
import json
import runpy
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from tests.live.screen import Screen

COMPARISON = "assistant_compare_sites"
STAGING = "acme-shop"
JUDGE, PAIRWISE = "judge.correctness", "judge.pairwise"
# Share of the answers that end after their first sentence, chosen at random, so that repetitions disagree.
SHORT = 0.05
# Lead of the first of two judged answers, so that the order changes some verdicts.
POSITION_BIAS = 0.1
# What the staging site's knowledge base lacks altogether.
LOST = "guides"
SECTIONS = {
    "the agreement": "Cohen's kappa",
    "the repetitions": "Answers disagree",
    "the better answers": "Which answer is better",
    "both answers": 'class="sides"',
}


def show(screen: Screen, head: dict[str, Any], summary: dict[str, Any]) -> None:
    """Show the agreement, the repetitions, the comparison and the better answers."""
    screen.show(f"The staging site compared with the live site: {head['verdict']}", head["report_path"])
    for rule in head["failed_rules"]:
        screen.show("", f"- {rule['rule']}: {rule['reason']}")
    repeated, compared = summary["repetitions"], summary["comparison"]["scorers"]
    screen.table(
        ["scorer", "won", "tied", "lost", "difference", "mean", "worst repetition", "scores vary"],
        [
            [name, one["better"], one["unchanged"], one["worse"], *_figures(one["mean"]), *_repeated(repeated, name)]
            for name, one in compared.items()
        ],
    )
    agreement = summary["scorers"][JUDGE]["judge"]["agreement"]
    screen.table(
        ["labels", "kappa", "interval", "both pass", "only people", "only judge", "both fail"],
        [
            [
                agreement["labels"],
                *_figures(agreement["kappa"]),
                " to ".join(_figures(agreement["low"], agreement["high"])),
                *(agreement[name] for name in ("both_pass", "only_human", "only_judge", "both_fail")),
            ]
        ],
    )
    pairs = summary["scorers"][PAIRWISE]["judge"]["pairs"]
    screen.table(
        [name.replace("_", " ") for name in pairs], [[*list(pairs.values())[:-1], *_figures(pairs["first_preferred"])]]
    )


def problem_of(head: dict[str, Any], summary: dict[str, Any]) -> str | None:
    """Return what is wrong with a comparison that should have found that the staging site has lost documents."""
    page = Path(local(head["report_path"])).read_text(encoding="utf-8")
    missing = [name for name, text in SECTIONS.items() if text not in page]
    if missing:
        return f"the report of the comparison lacks {', '.join(missing)}"
    if not summary["repetitions"]["disagreement"]:
        return "no question got two different answers"
    failed = {rule["rule"] for rule in head["failed_rules"]}
    if failed != {f"{JUDGE} drop <= 0.02", "must_include drop <= 0.02"}:
        return f"the comparison should fail because of lost documents, not because of {failed or 'nothing'}"
    pairs = summary["scorers"][PAIRWISE]["judge"]["pairs"]
    if not pairs["losses"]:
        return f"the judge should prefer some answers of the live site: {pairs}"
    lost = summary["comparison"]["tags"][LOST][JUDGE]
    return None if lost["worse"] else f"no answer about the {LOST} got worse: {lost}"


def summary_of(head: dict[str, Any]) -> dict[str, Any]:
    """Return the summary of an evaluation."""
    summary: dict[str, Any] = json.loads(Path(local(head["summary_path"])).read_text(encoding="utf-8"))
    return summary


def local(url: str) -> str:
    """Return the path of a local file."""
    return unquote(urlsplit(url).path) if "://" in url else url


def _figures(*values: float | None) -> list[str]:
    return ["" if value is None else f"{value:.3f}" for value in values]


def _repeated(repetitions: dict[str, Any], name: str) -> list[str]:
    found = repetitions["scorers"][name]
    return _figures(found["mean"], found["worst"], found["varying"])


def load_staging(path: Path) -> None:
    """Load three quarters of the configuration reference, without the guides: a loss that no chance hides."""
    found = runpy.run_path(str(Path(__file__).parents[2] / "dags" / "assistant_knowledge_base.py"))
    rows = found["assistant_knowledge_base"]().get_task("read_configuration_reference").python_callable()
    fields = ["section", "name", "title", "question", "answer"]
    loaded = [row for number, row in enumerate(rows[fields].to_dict("records")) if number % 4]
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, fields)
        writer.writeheader()
        writer.writerows(loaded)
    from airflow_provider_assistant.__main__ import parser

    keys = ["--key", "section", "--key", "name", "--constant", "category=airflow-configuration"]
    args = parser().parse_args(["load", str(path), "--site", STAGING, *keys])
    args.func(args)


if __name__ == "__main__":
    load_staging(Path(sys.argv[1]))
