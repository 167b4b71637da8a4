"""
Make the golden set of the DAG ``assistant_evaluation`` from the documents that ``assistant_knowledge_base`` loads.

``python dags/golden_set/make_golden_set.py`` writes ``golden_set.csv`` to its own folder. Simple templates turn options
of Airflow's configuration reference and sentences of the guides into questions; the text of the document is the
expected answer. A third kind of question has no answer in the knowledge base. The random choice has a fixed seed, so
the same version of Airflow and the same guides give the same file.

The columns ``human_answer`` and ``human`` calibrate a judge. In this example, a rule makes the answer and so knows
whether it is right. In yours, people read answers of the assistant and decide.
"""

import csv
import json
import random
import re
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent
GUIDES = HERE.parent / "guides"
COLUMNS = ("key", "message", "expected", "must_include", "expect_no_answer", "tags", "human_answer", "human")
SEED = 20261121
# Other versions of Airflow describe some options differently: make the file again after an upgrade.
MADE_WITH = "3.3.2"
OPTIONS = 26

ASK_FOR_AN_OPTION = (
    "What is [{section}] {name} for?",
    "Tell me about {words} in the {section} settings.",
    "Which default does Airflow have for {words} in section {section}?",
    "I want to change the {words} of the {section}. What does this option do?",
    "How is {name} of the section {section} set as long as nobody sets it?",
)
ASK_FOR_A_SENTENCE = ("What do the guides say about {words}?", "Explain to me: {words}.")
OFF_TOPIC = {
    "Where can I {}?": ("bake sourdough bread", "catch the ferry to Nairobi", "charge an electric bicycle"),
    "Who won the {}?": ("football world championship of 1954", "chess tournament at Zurich", "presidential election"),
    "What is the best way to {}?": ("remove red wine stains", "prune apple trees", "learn Portuguese irregular verbs"),
    "How much does {} cost?": ("a return ticket to Vienna", "the premium subscription", "parking downtown overnight"),
    "When does the {} open on Sundays?": ("swimming pool", "city library", "farmers market"),
}


def options() -> list[dict[str, str]]:
    """Return the options with a description of one short paragraph and a simple default."""
    from airflow.configuration import retrieve_configuration_description

    return [
        {"section": section, "name": name, "description": description, "default": default}
        for section, content in sorted(retrieve_configuration_description(include_providers=False).items())
        for name, option in sorted(content["options"].items())
        if re.fullmatch(r"[^\n`{]{40,220}", description := (option.get("description") or "").strip())
        and re.fullmatch(r"[\w.:-]{1,40}", default := str(option.get("default") or ""))
    ]


def about_options(rng: random.Random) -> Iterator[dict[str, str]]:
    """Yield two questions for each of some random options."""
    for option in rng.sample(options(), OPTIONS):
        words = option["name"].replace("_", " ")
        for number, question in enumerate(rng.sample(ASK_FOR_AN_OPTION, 2), start=1):
            yield {
                "key": f"{option['section']}.{option['name']}.{number}",
                "message": question.format(**option, words=words),
                # The text of the document in assistant_knowledge_base.
                "expected": f"{option['description']} Default: {option['default']}.",
                "must_include": f"Default: {option['default']}.",
                "tags": several("configuration", option["section"]),
            }


def about_guides(rng: random.Random) -> Iterator[dict[str, str]]:
    """Yield a question for every sentence of the guides, made of its three longest words."""
    for path in sorted(path for path in GUIDES.iterdir() if path.suffix == ".txt"):
        _title, _, text = path.read_text(encoding="utf-8").partition("\n")
        for number, sentence in enumerate(re.split(r"(?<=\.)\s+", " ".join(text.split())), start=1):
            longest = sorted(set(re.findall(r"\w+(?:-\w+)*", sentence)), key=lambda word: (-len(word), word))[:3]
            words = [word for word in re.findall(r"\w+(?:-\w+)*", sentence) if word in longest]
            yield {
                "key": f"{path.stem}.{number}",
                "message": rng.choice(ASK_FOR_A_SENTENCE).format(words=", ".join(dict.fromkeys(words))),
                "expected": sentence,
                "must_include": several(*dict.fromkeys(words)),
                "tags": "guides",
            }


def several(*texts: str) -> str:
    """Return texts as one cell."""
    return texts[0] if len(texts) == 1 else json.dumps(texts)


def without_an_answer(rng: random.Random) -> Iterator[dict[str, str]]:
    """Yield questions that no document answers: on other subjects, and on options that do not exist."""
    for question, subjects in OFF_TOPIC.items():
        for subject in subjects:
            key = "-".join(re.findall(r"\w+", subject.lower()))
            yield {"key": f"off-topic.{key}", "message": question.format(subject), "tags": "unanswerable"}
    known = options()
    for number in range(1, 6):
        one, other = rng.sample(known, 2)
        name = "_".join((*one["name"].split("_")[:1], "zeppelin", *other["name"].split("_")[-1:]))
        yield {
            "key": f"made-up.{number}",
            "message": rng.choice(ASK_FOR_AN_OPTION).format(
                section=one["section"], name=name, words=name.replace("_", " ")
            ),
            "tags": several("unanswerable", "made-up"),
        }


def labelled(row: dict[str, str], number: int, others: list[str]) -> dict[str, str]:
    """Return a question with an answer that somebody has labelled as right or wrong."""
    expected = row["expected"]
    description, found, default = expected.partition(" Default: ")
    wrong = {"True.": "False.", "False.": "True."}.get(default, "17.")
    answers = [
        (expected, True),
        (others[number], False),
        (f"The default is {default} Its description is: {description}" if found else f"Yes. {expected}", True),
        (f"{description} Default: {wrong}" if found else "The guides say nothing about that.", False),
        (f"The documentation says: {expected}", True),
        ("I don't know.", False),
        # Other words for the same, which a judge that compares words does not recognise.
        (f"Leave it alone and you get {default}" if found else expected, True),
    ]
    answer, right = answers[number % len(answers)]
    return {**row, "human_answer": answer, "human": str(right).lower()}


def golden_set() -> list[dict[str, str]]:
    """Return all questions. The result is the same for every call."""
    rng = random.Random(SEED)  # noqa: S311 (reproducible, and not used for secrets)
    answerable = [*about_options(rng), *about_guides(rng)]
    unanswerable = {"expected": "", "must_include": "", "expect_no_answer": "true", "human_answer": "", "human": ""}
    # Half a round away, so that it is about something else.
    others = [row["expected"] for row in (*answerable[30:], *answerable[:30])]
    return [
        *({"expect_no_answer": "false", **labelled(row, number, others)} for number, row in enumerate(answerable)),
        *({**unanswerable, **row} for row in without_an_answer(rng)),
    ]


def write(path: Path) -> int:
    """Write the golden set as CSV, and return the number of questions."""
    rows = golden_set()
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return len(rows)


if __name__ == "__main__":
    print(f"{write(HERE / 'golden_set.csv')} questions")
