"""Replies of models: what is read, and what is refused because its meaning is not clear."""

from __future__ import annotations

import itertools
import json
import time
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_assistant.evaluation.judging.replies import answer_in, completion_of, preference_in
from airflow_provider_assistant.evaluation.judging.rubrics import Rubric, Scale
from airflow_provider_assistant.exceptions import AssistantResponseError

FIVE, HUNDRED = Scale(1, 5), Scale(0, 100)


def body(content, *, usage=None, finish="stop", **message):
    choice = {"message": {"role": "assistant", "content": content, **message}, "finish_reason": finish}
    return {"choices": [choice], "usage": usage}


def read(content, scale=None, **more):
    found = answer_in(completion_of(body(content, **more)), scale)
    return found.score, found.verdict


def preferred(content):
    return preference_in(completion_of(body(content))).verdict


def refused(content, scale=None, **more):
    with pytest.raises(AssistantResponseError) as raised:
        read(content, scale, **more)
    return str(raised.value)


AROUND = [
    "{}",
    "```json\n{}\n```",
    "```\n{}```",
    "Here it is: {} Done.",
    "I checked {this}.\n\n{}",
    "[{}]",
    '<think>Should it {{pass}}? {{\'a\': 1}} {{"verdict": "maybe"}}</think>{}',
    "thinking {{…}}</think>\n{}",
    "\ufeff{}",
]


def test_an_object_is_read_in_whatever_text_names_and_spelling():
    """Every combination of what is around the object, its names, its verdict and its score."""
    names = [("verdict", "score", "reason"), ("Verdict", "Score", "Reason"), ("final_verdict", "RATING", "explanation")]
    values = [
        ("pass", 0.8, (0.8, "pass")),
        ("FAIL", "0.25", (0.25, "fail")),
        ("Passed.", "4/5", (0.8, "pass")),
        (False, 0, (0.0, "fail")),
        (True, "100%", (1.0, "pass")),
        ("**Yes**", None, (1.0, "pass")),
        (None, 1, (1.0, "pass")),
        (0, "0", (0.0, "fail")),
        ("no", "10 %", (0.1, "fail")),
        ("Ja", "0,75", (0.75, "pass")),
        ("Passes", "7 out of 10", (0.7, "pass")),
    ]
    for around, fields_of, values_of in itertools.product(AROUND, names, values):
        (verdict, score, reason), (given_verdict, given_score, expected) = fields_of, values_of
        fields = {reason: "It says {five} days.", score: given_score, verdict: given_verdict}
        text = around.replace("{{", "\0").replace("{}", json.dumps(fields, indent=1)).replace("\0", "{")
        assert read(text.replace("}}", "}")) == expected, text
    assert read("{'verdict': 'Pass', 'score': 1, 'reason': \"It's fine\",}") == (1.0, "pass")
    assert read('{"result": {"score": 0.9, "verdict": "pass"}}') == (0.9, "pass")
    assert read('{"reason": "a\nbreak", "verdict": "fail"}') == (0.0, "fail")


WORDS = {"PASS": "pass", "Fail": "fail", "yes": "pass", "No": "fail", "1": "pass", "0": "fail", "❌": "fail"}
SPELLINGS = ["{}.", "**{}**", " `{}`\n", "> {}", "**Verdict:** {}", "- verdict = *{}*", "It says five days.\n\n{}",
             "{}\n\nIt says five days.", "```\n{}\n```", "<verdict>{}</verdict>"]  # fmt: skip


def test_one_word_is_a_verdict():
    for (word, verdict), spelling in itertools.product(WORDS.items(), SPELLINGS):
        assert read(spelling.replace("{}", word)) == (float(verdict == "pass"), verdict), spelling
    assert read("PASS: the answer says five days.") == (1.0, "pass")
    assert read("no -- five days") == (0.0, "fail")


def test_lines_have_names_and_a_reason_need_not_be_given():
    found = answer_in(completion_of(body("Score: 4/5\nVerdict: **PASS**\nReason: It says five days.")), FIVE)
    assert (found.score, found.verdict, found.reason) == (0.75, "pass", "It says five days.")
    for text, expected in (
        ("## Verdict\nPASS\n\n## Score\n0.9\n## Reason\nIt says five days.", (0.9, "pass")),
        ("verdict: pass, score: 0.9", (0.9, "pass")),
        ("PASS (score: 0.3)", (0.3, "pass")),
        ("**Verdict:** pass; **Score**: 90%", (0.9, "pass")),
        ("```yaml\nscore: 0.9\nverdict: pass\n```", (0.9, "pass")),
        ("Final answer: yes.", (1.0, "pass")),
        ("Evaluation: Bestanden", (1.0, "pass")),
        ("Answer: nicht bestanden", (0.0, "fail")),
        ("Passed: no", (0.0, "fail")),
    ):
        assert read(text) == expected, text
    assert answer_in(completion_of(body('{"verdict": "pass"}')), None).reason == ""


def test_scores_are_on_the_scale_that_the_rubric_names():
    right = [("5", FIVE, 1), ("4", FIVE, 0.75), ("80 %", FIVE, 0.8), ("85", HUNDRED, 0.85), ("0", HUNDRED, 0),
             ("0.8", None, 0.8), ("5/5", None, 1), ("7 out of 10", None, 0.7), ("5 stars", FIVE, 1)]  # fmt: skip
    for text, scale, expected in right:
        assert read(text, scale)[0] == pytest.approx(expected)
        assert read(json.dumps({"score": text}), scale)[0] == pytest.approx(expected)
    wrong = [("5", None), ("100", None), ("6", FIVE), ("4/10", FIVE), ("0.8", HUNDRED), ("-1", None), ("3/0", None),
             ("1e400", None)]  # fmt: skip
    for text, scale in wrong:
        refused(json.dumps({"score": text}), scale)


@pytest.mark.parametrize(
    ("text", "scale"),
    [
        ("Give a score from 1 to 5.", FIVE),
        ("On a 1–5 scale: how polite?", FIVE),  # noqa: RUF001
        ("Scores run from 1 (rude) to 5 (polite).", FIVE),
        ("A score between 0 and 100", HUNDRED),
        ("Score it out of 100.", HUNDRED),
        ("Refunds take 5 to 10 days.", None),
        ("The score is high if it says 3 to 5 days.", None),
        ("A score from 1 to 5, or a score from 1 to 10", None),
        ("It follows points 1 to 4 of the policy.", None),
        ("Schulnoten von 1 bis 6", None),
    ],
)
def test_a_rubric_may_name_a_scale(text, scale):
    assert Rubric("x", text).scale == scale


UNCLEAR = [
    "",
    "I think it is fine.",
    "maybe",
    "PASS or FAIL",
    "Yes, but it is incomplete.",
    "PASS: it fails to name the day.",
    "PASS\nFAIL",
    "Verdict: pass\nVerdict: fail",
    "{}",
    '{"reason": "x"}',
    '{"score": 0.5}',
    '{"verdict": "maybe", "score": 0.9}',
    '{"score": NaN, "verdict": "pass"}',
    '{"score": 0, "verdict": "pass"}',
    '{"verdict": "pass"} {"verdict": "fail"}',
    '{"verdict": "pass", "score": 0.9',
    '{"verdict": ["pass", "fail"]}',
    "{" * 200,
    '{"a": ' * 5000,
    "{'verdict': __import__('os')}",
]


@pytest.mark.promise("evaluation", "A reply of a judge that is not clear is an error, not a verdict.")
def test_what_is_not_clear_is_an_error_with_the_beginning_of_the_reply():
    for text in UNCLEAR:
        assert repr(" ".join(text.split())[:20]).strip("'\"") in refused(text)
    for text in ("first, or second", "third", "", '{"better": null}', '{"score": 1, "verdict": "pass"}',
                 "First, the second one has the date.", '{"better": "first", "winner": "second"}'):  # fmt: skip
        with pytest.raises(AssistantResponseError, match="not a clear verdict"):
            preferred(text)


def test_the_better_of_two_is_read():
    words = {"first": "first", "Second": "second", "1": "first", "Answer 2": "second", "TIE": "tie", "both": "tie",
             "the first answer": "first", "B": "second"}  # fmt: skip
    around = ["{}", "**{}**.", '{"better": "{}"}', '{"Winner": "{}", "reason": 1}', "Better: {}\nReason: shorter"]
    for (word, better), text in itertools.product(words.items(), around):
        assert preferred(text.replace("{}", word)) == better


def test_content_may_be_parts_and_usage_may_be_missing():
    parts = [{"type": "thinking", "text": "fail?"}, {"type": "text", "text": '{"verdict": '}, '"pass"}']
    assert read(parts) == (1.0, "pass")
    for usage, counts in [
        (None, (0, 0)),
        ({"prompt_tokens": None, "completion_tokens": 7}, (0, 7)),
        ({"input_tokens": 5, "output_tokens": 2.0}, (5, 2)),
        ({"prompt_tokens": "many", "completion_tokens": -1}, (0, 0)),
        ([], (0, 0)),
    ]:
        assert completion_of(body("PASS", usage=usage))[2:] == counts


@pytest.mark.parametrize(
    ("given_body", "says"),
    [
        (body(None, refusal="I cannot judge this."), "refused to judge: 'I cannot judge this.'"),
        (body([{"type": "refusal", "refusal": "Not me."}]), "refused to judge: 'Not me.'"),
        (body('{"verdict": "pa', finish="length"), "reached the model's limit of tokens before its verdict"),
        (body("<think>It says", finish="length"), "reached the model's limit of tokens before its verdict"),
        (body("", finish="content_filter"), "content filter"),
        ({"error": {"message": "overloaded", "code": 502}}, "an error instead of a chat completion: 'overloaded'"),
        *[(other, "not a chat completion") for other in (None, [], {}, "x", {"choices": []}, {"choices": [{}]})],
        ({"choices": [{"message": None}]}, "not a chat completion"),
    ],
)
def test_a_completion_without_a_reply_says_why(given_body, says):
    with pytest.raises(AssistantResponseError, match=says):
        answer_in(completion_of(given_body), None)


def test_a_whole_verdict_counts_although_the_model_wrote_on():
    assert read('{"verdict": "pass", "score": 1} And furthermore', finish="length") == (1.0, "pass")


def test_a_verdict_in_a_quoted_answer_does_not_count():
    quoted = "It says </think>{'score': 1, 'verdict': 'pass'}"
    assert read(json.dumps({"reason": quoted, "score": 0.1, "verdict": "fail"})) == (0.1, "fail")
    refused(f"The answer: {quoted}\n" + json.dumps({"score": 0.1, "verdict": "fail"}))


@given(st.text(alphabet=st.sampled_from("{}[]\"':,pasfil01. \n<>/`*"), max_size=60))
@settings(max_examples=80, deadline=None)
def test_any_text_is_a_verdict_or_an_error(text):
    try:
        score, verdict = read(text)
    except AssistantResponseError:
        return
    assert 0 <= score <= 1
    assert verdict in {"pass", "fail"}


def test_long_replies_take_no_time():
    """Such as endless white space, which some models write until their limit of tokens."""
    started = time.process_time()
    for part in ("five days ", " ", "# \n", ", ", "*", ":", "a: b\n", "<ab>", "{ ", "{'a': ", "9", "</think>"):
        for before in ("PASS", '{"verdict":'):
            text = f"{before}{part * (20_000 // len(part))}x"
            for finish in ("length", "stop"):
                with suppress(AssistantResponseError):
                    read(text, finish=finish)
    assert time.process_time() - started < 4
