"""
Read the reply of a model that judges.

Models and their hosts keep to a format more or less. A reply is read where its meaning is clear: in a Markdown block,
after prose, as lines, as one word. Where it is not clear, the question has an error: a guess would be a score.
"""

from __future__ import annotations

import ast
import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from airflow_provider_assistant.api.replies import error_text
from airflow_provider_assistant.evaluation.judging import values
from airflow_provider_assistant.evaluation.judging.rubrics import Scale
from airflow_provider_assistant.evaluation.judging.values import Better, UnclearError, Word, beginning
from airflow_provider_assistant.evaluation.judging.verdicts import Verdict
from airflow_provider_assistant.exceptions import AssistantResponseError
from airflow_provider_assistant.texts import storable

# Values by the name of their field. A name may occur several times.
Fields: TypeAlias = Mapping[str, Sequence[Any]]
# The score and the word of a verdict.
Outcome: TypeAlias = tuple[float, Word | Better]

REASON_LENGTH = 1000
# How far the first of two answers is the better one.
PREFERENCES: Mapping[Better, float] = {"first": 1.0, "tie": 0.5, "second": 0.0}

# Objects that are looked for in one reply: each search may read the whole reply.
MOST_OBJECTS = 50
_OTHER_MODEL = "If it happens often, use another model, or change the rubric."

_NAMES = {
    "score": "score rating grade points",
    "verdict": "verdict result decision judgement judgment outcome pass passed passes",
    "better": "better winner preferred preference choice best betteranswer",
    "reason": "reason reasoning explanation rationale justification comment",
}
_FIELD_BY_NAME = {name: field for field, names in _NAMES.items() for name in names.split()}
_BEFORE_NAME = re.compile(r"^(?:is|the|my|final|overall)+")
_THOUGHTS = "think|thinking|thoughts?|reasoning|analysis"
_THOUGHT = re.compile(rf"<({_THOUGHTS})>.*?</\1>", re.IGNORECASE | re.DOTALL)
_THOUGHT_ENDS = re.compile(rf"</(?:{_THOUGHTS})>", re.IGNORECASE)
_THOUGHT_STARTS = re.compile(rf"<(?:{_THOUGHTS})>", re.IGNORECASE)
# Names that begin a line of their own: after a heading such as "## Verdict", and in "verdict: pass, score: 0.9".
_HEADING = re.compile(r"^[#* \t]*(verdict|score|reason|better)[*:\s]*\n+", re.IGNORECASE | re.MULTILINE)
_NEXT_NAME = re.compile(r"[,;(][\s*_]*(?=(?:verdict|score|rating|reason)\b[\s*_]*[:=])", re.IGNORECASE)
# Names of lines whose value may also be the text of a reason.
_LOOSE_NAMES = frozenset(
    {"pass", "passed", "passes", "answer", "finalanswer", "assessment", "evaluation", "conclusion"}
)
_LINE = re.compile(r"[^\w<{\"]*([A-Za-z][A-Za-z _]{0,20}?)[*_`\s]*[:=：]+[*_`\s]*(\S.*)")  # noqa: RUF001
_OBJECT_STARTS = re.compile(r"\{\s*['\"]")
_JSON_STARTS = re.compile(r"\s*(?:```\w*\s*)?\{")
_TAG = re.compile(r"<(\w{2,20})>([^<]*)</\1>")


class Completion(NamedTuple):
    """
    The text of a chat completion, and what it cost.

    :param is_whole: Whether the text is complete, and not cut at the limit of tokens.
    """

    text: str
    is_whole: bool
    input_tokens: int
    output_tokens: int


def completion_of(body: Any) -> Completion:
    """
    Return the text of a chat completion.

    :raises AssistantResponseError: The body is not a chat completion, or the model or its host refused to judge.
    """
    if isinstance(body, Mapping) and body.get("error"):
        raise AssistantResponseError(f"an error instead of a chat completion: {beginning(error_text(body) or body)}")
    try:
        choice = body["choices"][0]
        message = choice["message"]
        content = message.get("content")
    except (TypeError, KeyError, IndexError, AttributeError):
        raise AssistantResponseError(f"a body that is not a chat completion: {beginning(body)}") from None
    parts = content if isinstance(content, list) else [content]
    refusal = message.get("refusal") or _text_of(parts, "refusal")
    if refusal:
        raise AssistantResponseError(f"the model refused to judge: {beginning(refusal)}", todo=_OTHER_MODEL)
    finish_reason = choice.get("finish_reason")
    if finish_reason == "content_filter":
        raise AssistantResponseError("the content filter of the model's host stopped the reply", todo=_OTHER_MODEL)
    usage = body.get("usage")
    counts = usage if isinstance(usage, Mapping) else {}
    return Completion(
        text=_text_of(parts, "text"),
        is_whole=finish_reason not in {"length", "max_tokens"},
        input_tokens=_count(counts.get("prompt_tokens", counts.get("input_tokens"))),
        output_tokens=_count(counts.get("completion_tokens", counts.get("output_tokens"))),
    )


def answer_in(completion: Completion, scale: Scale | None) -> Verdict:
    """
    Return the verdict on one answer.

    :param scale: The scale of the rubric; None if scores are from 0 to 1.
    :raises AssistantResponseError: The text is not a verdict, or not a clear one.
    """
    return _read(completion, ("verdict", "score"), lambda fields: _score_and_word(fields, scale))


def preference_in(completion: Completion) -> Verdict:
    """
    Return the verdict on two answers.

    :raises AssistantResponseError: The text does not name the better answer, or not clearly.
    """
    return _read(completion, ("better", "verdict"), _preference)


def _read(completion: Completion, names: Sequence[str], outcome_of: Callable[[Fields], Outcome]) -> Verdict:
    """
    Return the verdict in a text: that of its JSON objects, of its lines with names, or of its first and last line.

    :param names: Fields of which a verdict has at least one.
    """
    text = storable(_without_thoughts(completion.text)).strip()
    try:
        candidates = _with_names(text, names)
        if not candidates and not completion.is_whole:
            raise AssistantResponseError(
                f"the reply reached the model's limit of tokens before its verdict: {beginning(text)}",
                todo="Raise the limit of output tokens at the host, or use a model that writes less before it answers.",
            )
        found = [(outcome_of(fields), fields) for fields in candidates] or _lines(text, outcome_of)
        (score, word), fields = _last(found)
    except UnclearError as error:
        raise AssistantResponseError(
            f"the reply of the model is not a clear verdict, because {error}: {beginning(text)}", todo=_OTHER_MODEL
        ) from None
    return Verdict(
        score=score,
        verdict=word,
        reason=_reason(fields)[:REASON_LENGTH],
        input_tokens=completion.input_tokens,
        output_tokens=completion.output_tokens,
    )


def _with_names(text: str, names: Sequence[str]) -> list[Fields]:
    """Return the JSON objects in a text that have one of the names; or else its tags and lines, if they have one."""

    def has_name(fields: Fields) -> bool:
        return any(fields.get(name) for name in names)

    objects = [fields for fields in _objects(text) if has_name(fields)]
    if objects:
        return objects
    spread = _NEXT_NAME.sub("\n", _HEADING.sub(r"\1: ", text))
    lines = _named([*_TAG.findall(text), *_lines_with_names(spread)])
    return [lines] if has_name(lines) else []


def _last(found: Sequence[tuple[Outcome, Fields]]) -> tuple[Outcome, Fields]:
    """Return the last outcome with its fields. All of them must be the same."""
    if len({outcome for outcome, _ in found}) > 1:
        raise UnclearError("it has several verdicts that contradict each other")
    return found[-1]


def _lines(text: str, outcome_of: Callable[[Fields], Outcome]) -> list[tuple[Outcome, Fields]]:
    """Return the verdicts that the first and the last line are, such as ``PASS: five days``."""
    lines = [line for line in text.replace("```", "\n").splitlines() if line.strip(values.AROUND_WORD)]
    if not lines:
        raise UnclearError("it is empty")
    found = []
    problems = []
    for line in dict.fromkeys((lines[0], lines[-1])):
        is_reason = line != text or " " in line
        fields: Fields = {"verdict": [line], "reason": [text] if is_reason else []}
        try:
            found.append((outcome_of(fields), fields))
        except UnclearError as error:
            problems.append(error)
    if not found:
        raise problems[-1]
    return found


def _score_and_word(fields: Fields, scale: Scale | None) -> Outcome:
    words: set[Word] = set()
    scores = {values.score(value, scale) for value in fields.get("score", ())}
    has_score = bool(scores)
    for value in fields.get("verdict", ()):
        word = values.flag(value, scale)
        if word is not None:
            words.add(word)
        elif has_score:
            raise UnclearError(f"{beginning(value)} is neither pass nor fail")
        else:
            # A number instead of a word, such as {"result": 4}.
            scores.add(values.score(value, scale))
    if len(words) > 1 or len(scores) > 1:
        raise UnclearError("it has values that contradict each other")
    score = scores.pop() if scores else None
    word = words.pop() if words else _word_of_score(score)
    if score is None:
        score = 1.0 if word == "pass" else 0.0
    if (word, score) in {("pass", 0.0), ("fail", 1.0)}:
        raise UnclearError("its score and its verdict contradict each other")
    return score, word


def _word_of_score(score: float | None) -> Word:
    if score is None:
        raise UnclearError("it has neither a verdict nor a score")
    if score == 0.5:
        raise UnclearError("it has no verdict, and its score is the middle of the scale")
    return "pass" if score > 0.5 else "fail"


def _preference(fields: Fields) -> Outcome:
    found = {values.better(value) for name in ("better", "verdict") for value in fields.get(name, ())}
    if len(found) != 1:
        raise UnclearError("it does not name one answer")
    better = found.pop()
    return PREFERENCES[better], better


def _reason(fields: Fields) -> str:
    texts: list[str] = []
    for value in fields.get("reason", ()):
        texts += map(str, value if isinstance(value, list) else [value])
    return storable(" ".join(texts))


def _objects(text: str) -> list[Fields]:
    """Return the JSON objects in a text."""
    objects: list[Fields] = []
    start = text.find("{")
    for _ in range(MOST_OBJECTS):
        if start < 0:
            return objects
        try:
            fields, end = _DECODER.raw_decode(text, start)
            objects.append(fields)
        except (ValueError, RecursionError):
            if _OBJECT_STARTS.match(text, start):
                # An object that is broken. What is inside of it is not a verdict.
                return [*objects, *_python_object(text[start:])]
            end = start + 1
        start = text.find("{", end)
    raise UnclearError("it has too many braces")


def _python_object(text: str) -> list[Fields]:
    """Return the object at the beginning of a text in Python's notation, such as ``{'verdict': 'pass'}``."""
    try:
        value = ast.literal_eval(text[: text.rfind("}") + 1])
        return [_DECODER.decode(json.dumps(value))]
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return []


def _named(pairs: Iterable[tuple[Any, Any]]) -> Fields:
    """
    Return the values of known fields; if there are none, those of the objects inside, as in ``{"result": {…}}``.

    Empty values say nothing.
    """
    fields: dict[str, list[Any]] = defaultdict(list)
    inner: dict[str, list[Any]] = defaultdict(list)
    for name, value in pairs:
        field = _FIELD_BY_NAME.get(_BEFORE_NAME.sub("", _letters(str(name))))
        if isinstance(value, dict):
            for inner_field, inner_values in value.items():
                inner[inner_field] += inner_values
        elif field and value not in (None, ""):
            fields[field].append(value)
    if fields.keys() & {"score", "verdict", "better"}:
        return fields
    return {**inner, **fields}


def _letters(name: str) -> str:
    return re.sub(r"[^a-z]", "", name.casefold())


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a number")


# Line breaks in strings are read: models write them.
_DECODER = json.JSONDecoder(strict=False, object_pairs_hook=_named, parse_constant=_no_constant)


def _lines_with_names(text: str) -> list[tuple[str, str]]:
    """Return names and values of lines such as ``Verdict: pass``."""
    lines = []
    for line in text.splitlines():
        match = _LINE.fullmatch(line.strip())
        if not match:
            # A word beside lines with names: "PASS", before "Score: 0.9".
            if line.strip(values.AROUND_WORD).isalpha() and values.flag(line, None) is not None:
                lines.append(("verdict", line))
            continue
        name, value = match.groups()
        if _letters(name) not in _LOOSE_NAMES:
            lines.append((name, value))
        elif values.flag(value, None) is not None:
            # "Passed: no" is a name with its value, "PASS: it says five days" is a verdict with its reason.
            lines.append(("verdict", value))
    return lines


def _without_thoughts(text: str) -> str:
    """Return a text without what a model thought before. Some hosts leave out the tag at the beginning."""
    if _JSON_STARTS.match(text):
        # A reason may quote an answer that has such tags.
        return text
    rest = _THOUGHT_ENDS.split(_THOUGHT.sub("", text))[-1]
    return _THOUGHT_STARTS.split(rest)[0]


def _text_of(parts: Iterable[Any], field: str) -> str:
    """Return the text of the parts of a message, which are texts or objects."""
    texts = []
    for part in parts:
        value = part
        if isinstance(part, Mapping):
            is_thought = part.get("type") in {"thinking", "reasoning"}
            value = None if is_thought else part.get(field)
        elif field != "text":
            value = None
        if isinstance(value, str):
            texts.append(value)
    return "".join(texts)


def _count(value: Any) -> int:
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < float("inf"):
        return int(value)
    return 0
