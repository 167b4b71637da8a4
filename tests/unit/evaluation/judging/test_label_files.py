"""Label files: what people see, and what is read back from their spreadsheets."""

from __future__ import annotations

import csv
import io
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_assistant.evaluation.judging.label_files import (
    agreement_of_raters,
    label_file,
    label_rows,
    majorities,
    read_label_files,
    read_labels,
)
from airflow_provider_assistant.evaluation.judging.labels import assign
from airflow_provider_assistant.evaluation.judging.rubrics import BUILT_IN
from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.texts import for_spreadsheet, from_spreadsheet
from tests.unit.evaluation.test_scorers import make_case

CORRECTNESS, TONE, GROUNDEDNESS = (BUILT_IN[name] for name in ("correctness", "tone", "groundedness"))
HOSTILE = [
    "=1+1", "+49 30", "-5 days", "@x", "\tx", " =cmd", "\uff1d1", "'=1", "''-", "'quoted'", 'a;b,c\t"d"', "Ä 日本 😀",
    "two\nlines", "User: x\nAssistant: y", "x" * 40_000, "1,5", "007",
]  # fmt: skip


def filled(content, words, delimiter=",", encoding="utf-8-sig", column="label", rater=None):
    """Return a file as a person saves it, with a word in each row."""
    [header, *rows] = csv.reader(io.StringIO(content.decode("utf-8-sig"), newline=""), delimiter=delimiter)
    for row, word in zip(rows, words, strict=True):
        row[header.index(column)] = word
        if rater is not None:
            row[header.index("rater")] = rater
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter).writerows([header, *rows])
    return text.getvalue().encode(encoding)


def cases_of(answers, **more):
    return [make_case(answer, key=f"q{number}", expected="Right.", **more) for number, answer in enumerate(answers)]


def test_a_file_shows_what_a_person_needs_and_not_what_the_judge_says():
    case = replace(make_case("Yes.", key="q", expected="No.", row={"judge.tone": 1, "score": 0.3, "reason": "polite"}))
    content = label_file(label_rows([case, make_case(None, status="failed"), replace(case, repetition=2)]))
    assert content.startswith(b"\xef\xbb\xbf")
    [row] = csv.DictReader(io.StringIO(content.decode("utf-8-sig")))
    assert row == {
        "key": "q", "question": "Refund?", "answer": "Yes.", "expected": "No.", "label": "", "rater": "", "note": "",
    }  # fmt: skip
    names = label_file(label_rows([case], rater="Anna"), ["tone", "correctness"]).decode("utf-8-sig").splitlines()
    assert names[0] == "key,question,answer,expected,label.tone,label.correctness,rater,note"
    assert names[1].endswith(",,,Anna,")


def test_hostile_texts_come_back_as_they_were_and_are_no_formulas():
    cases = [replace(case, message=text, transcript=((text, text), ("And?", None))) for text, case in
             zip(HOSTILE, cases_of(HOSTILE, row={"passages": HOSTILE[:3]}), strict=True)]  # fmt: skip
    for delimiter in ",;":
        content = label_file(label_rows(cases), delimiter=delimiter)
        for row in csv.reader(io.StringIO(content.decode("utf-8-sig"), newline=""), delimiter=delimiter):
            assert not any(cell.lstrip()[:1] in {*"=+-@\uff1d"} or cell[:1] in "\t\r\n" for cell in row if cell)
        for encoding in ("utf-8", "utf-8-sig", "utf-16"):
            labels = read_labels("anna.csv", filled(content, ["pass"] * len(cases), delimiter, encoding))
            assert [label.row["answer"] for label in labels] == HOSTILE
            assert [label.row["question"] for label in labels] == HOSTILE
            work = assign([], [TONE], file_labels=labels)
            assert [label.request.answer for label in work.labels] == HOSTILE
            for label, text in zip(work.labels, HOSTILE, strict=True):
                assert label.request.earlier_turns == ((text.strip(), text.strip()), ("And?", None))


@given(st.text(max_size=30))
@settings(max_examples=80, deadline=None)
def test_any_text_for_a_spreadsheet_comes_back(text):
    assert from_spreadsheet(for_spreadsheet(text)) == text


def test_words_of_labels():
    content = label_file(label_rows(cases_of("ab")))
    for words in ("Pass FAIL", "true false", "1 0", "y n", "WAHR FALSCH", "Ja Nein", "✅ ❌"):
        passes, fails = words.split()
        assert [label.passes for label in read_labels("a.csv", filled(content, [passes, fails]))] == [True, False]
    assert read_labels("a.csv", filled(content, ["", "  "])) == []
    for word in ("maybe", "pass or fail", "5", "?"):
        with pytest.raises(AssistantInputError, match=r"a\.csv, row 3: label must be pass, fail or empty, not"):
            read_labels("a.csv", filled(content, ["", word]))


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"question,answer,label\n\xe4,b,pass\n", "not text in UTF-8.* Save it as CSV UTF-8"),
        (b"question,label\na,pass\n", "no column answer"),
        (b"question,answer\na,b\n", "no column label"),
        (b'question,answer,label\n"a,b,pass\n', "not CSV"),
    ],
)
def test_a_file_that_is_no_label_file_is_refused(content, says):
    with pytest.raises(AssistantInputError, match=says):
        read_labels("a.csv", content)


def test_most_people_decide_and_ties_are_left_out():
    content = label_file(label_rows(cases_of(["A.", "B.", "C.", "D."])))
    votes = {
        "anna": ["pass", "pass", "fail", ""],
        "bert": ["pass", "fail", "fail", ""],
        "carl": ["fail", "", "fail", "pass"],
    }
    labels = [label for name, words in votes.items() for label in read_labels(f"{name}.csv", filled(content, words))]
    # The same file twice is one person.
    labels += read_labels("anna.csv", filled(content, votes["anna"]))
    assert [(found.label.row["answer"], found.passes) for found in majorities(labels)] == [
        ("A.", True), ("B.", None), ("C.", False), ("D.", True),
    ]  # fmt: skip
    work = assign(cases_of(["A."], row={"human": "fail"}), [CORRECTNESS], file_labels=labels)
    assert [(label.request.answer, label.passes) for label in work.labels] == [
        ("A.", True),
        ("C.", False),
        ("D.", True),
    ]
    assert work.ties == {"judge.correctness": 1}
    # The answer of this evaluation that has a label is judged once.
    hashes = [request.content_hash("m") for request in work.requests]
    assert len(hashes) == 4
    assert len(set(hashes)) == 3
    agreed = agreement_of_raters(labels)
    assert {names[1:]: found.labels for names, found in agreed.items()} == {
        ("anna.csv", "bert.csv"): 3,
        ("anna.csv", "carl.csv"): 2,
        ("bert.csv", "carl.csv"): 2,
    }
    assert agreed["label", "anna.csv", "bert.csv"].kappa == pytest.approx(0.4)


def test_files_of_one_name_in_several_folders_are_of_several_people(tmp_path):
    content = label_file(label_rows(cases_of("ab")))
    for folder, word in (("a", "pass"), ("b", "fail")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "labels.csv").write_bytes(filled(content, [word, ""]))
    [found] = majorities(read_label_files(str(tmp_path / "*" / "labels.csv")))
    assert found.passes is None
    # A name in the file comes before the name of the file.
    named = read_labels("labels.csv", filled(content, ["pass", ""], rater="Anna"))
    assert [label.rater for label in [*named, *read_label_files(str(tmp_path / "a"))]] == ["Anna", "labels.csv"]
    with pytest.raises(AssistantInputError, match="no files"):
        read_label_files([str(tmp_path / "c*.csv")])


def test_each_judge_may_have_a_column_and_needs_its_texts():
    content = label_file(label_rows(cases_of("ab")), ["tone", "groundedness"])
    labels = read_labels("a.csv", filled(content, ["pass", "fail"], column="label.tone"))
    labels += read_labels("a.csv", filled(content, ["pass", ""], column="label.groundedness"))
    work = assign([], [TONE, GROUNDEDNESS, CORRECTNESS], file_labels=labels)
    # There are no passages, so the label about them is about nothing.
    assert [(label.request.rubric, label.passes) for label in work.labels] == [(TONE, True), (TONE, False)]
    single = read_labels("a.csv", filled(label_file(label_rows(cases_of("ab"))), ["pass", "fail"]))
    assert len(assign([], [TONE], file_labels=single).labels) == 2
    for rubrics, given_labels in (([TONE, CORRECTNESS], single), ([CORRECTNESS], labels)):
        with pytest.raises(AssistantInputError, match=r"is about no judge, or .* any of several\. Name it label\."):
            assign([], rubrics, file_labels=given_labels)


def test_a_judge_of_refusals_gets_what_is_expected():
    cases = [*cases_of("ab", expect_no_answer=True), *cases_of("c", expect_no_answer=False), *cases_of("d")]
    for words in (["true", "false"], ["WAHR", "FALSCH"]):
        content = label_file(label_rows(cases)).decode("utf-8-sig").replace("true", words[0]).replace("false", words[1])
        labels = read_labels("a.csv", filled(content.encode("utf-8-sig"), ["pass"] * 4))
        found = assign([], [BUILT_IN["refusal"]], file_labels=labels).labels
        assert [label.request.expected for label in found] == ["a refusal", "a refusal", "not a refusal"]
