"""Fault injection: which requests fail, how, and how often. The rules can change at run time."""

from __future__ import annotations

import random
import re
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

from pydantic import BaseModel, Field, TypeAdapter

from airflow_provider_assistant.sandbox.actions import ActionText
from airflow_provider_assistant.sandbox.settings import Regex, Settings

if TYPE_CHECKING:
    from collections.abc import Mapping

CHANGEABLE = frozenset(Settings.model_fields) - {"host", "port", "data", "history"}
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
_Status = Literal["queued", "processing", "complete", "failed"]
_STATUS_WORDS_TYPE = TypeAdapter(dict[_Status, str])


class Match(BaseModel, extra="forbid"):
    """Describe the requests that a rule is for. Without a condition, these are all requests.

    :param path: regular expression to search for in the path below the API's root.
    :param body: regular expression to search for in the body.
    :param key: name of the API key.
    """

    method: str | None = None
    path: Regex = ""
    body: Regex | None = None
    key: str | None = None

    def meets(self, method: str, path: str, key: str, body: bytes) -> bool:
        """Return whether a request meets all conditions."""
        if self.method is not None and self.method.upper() != method:
            return False
        if self.key is not None and self.key != key:
            return False
        if not re.search(self.path, path):
            return False
        return self.body is None or bool(re.search(self.body, body.decode(errors="replace")))


class Rule(BaseModel, extra="forbid"):
    """Apply an action to matching requests.

    :param action: action to apply, see :class:`~.actions.Action`.
    :param times: number of matching requests to apply the action to. ``None`` means all.
    :param skip: number of matching requests to let pass first.
    :param hits: number of requests that the action was applied to.
    """

    action: ActionText
    match: Match = Match()
    times: Annotated[int, Field(ge=1)] | None = 1
    skip: Annotated[int, Field(ge=0)] = 0
    hits: int = 0

    def applies(self, method: str, path: str, key: str, body: bytes) -> bool:
        """Return whether the rule applies to a request, and count the request."""
        if self.times is not None and self.hits >= self.times:
            return False
        if not self.match.meets(method, path, key, body):
            return False
        if self.skip:
            self.skip -= 1
            return False
        self.hits += 1
        return True


class Faults:
    """Hold the current faults.

    ``version`` increases with every update and reset.

    :param settings: initial settings, which a reset restores.
    """

    def __init__(self, settings: Settings) -> None:
        self._initial = settings
        self.version = 0
        self.reset()

    def reset(self) -> None:
        """Restore the initial settings and remove all rules."""
        self.settings = self._initial
        self.rules: list[Rule] = []
        self._status_words: dict[_Status, str] = {}
        self._reseed()
        self.version += 1

    def _reseed(self) -> None:
        self._random = random.Random(self.settings.seed)  # noqa: S311 (faults, not secrets)

    def add(self, action: str, *, times: int | None = 1, skip: int = 0, **match: Any) -> None:
        """Add a rule.

        :param match: fields of :class:`Match`.
        """
        self.rules.append(Rule(action=action, match=Match(**match), times=times, skip=skip))

    def update(
        self,
        *,
        rules: list[Mapping[str, Any]] | None = None,
        async_status_words: Mapping[str, str] | None = None,
        **changes: Any,
    ) -> None:
        """Change the given values. If one of them is invalid, change nothing.

        :param rules: fields of the new rules, which replace the existing ones.
        :param async_status_words: status words to send for the states of async requests.
        :param changes: settings that can change at run time.
        """
        unknown = sorted(changes.keys() - CHANGEABLE)
        if unknown:
            known = ", ".join(sorted(CHANGEABLE))
            raise ValueError(f"{unknown[0]!r} cannot be changed; {known} can")
        if "rate_limit" in changes:
            # A burst belongs to the rate that it was given with.
            changes.setdefault("rate_burst", None)
        # All values are validated before the first one is changed.
        new_settings = self.settings.changed(**changes)
        new_rules = self.rules
        if rules is not None:
            new_rules = [Rule.model_validate(rule) for rule in rules]
        if async_status_words is not None:
            self._status_words = _STATUS_WORDS_TYPE.validate_python(async_status_words)
        self.settings = new_settings
        self.rules = new_rules
        if "seed" in changes or "fault_rate" in changes:
            self._reseed()
        self.version += 1

    def choose(self, method: str, path: str, key: str, body: bytes) -> str | None:
        """Return the action of the fault of a request, or None.

        :param path: the path below the API's root.
        :param key: the key's name.
        """
        for rule in self.rules:
            if rule.applies(method, path, key, body):
                return rule.action
        if self.settings.fault_rate and self._random.random() < self.settings.fault_rate:
            return self.settings.fault_action
        return None

    def fails(self, message: str) -> bool:
        """Return whether a chat request with this message should fail."""
        pattern = self.settings.fail_messages
        return bool(pattern and re.search(pattern, message))

    def cut(self, answer: str) -> str:
        """Shorten an answer to ``answer_limit`` characters, or by chance to its first sentence."""
        rate = self.settings.short_answer_rate
        # Without a rate, no random number is used, so the same seed gives the same other faults.
        if rate and self._random.random() < rate:
            first_sentence, *_ = _SENTENCE_END.split(answer, maxsplit=1)
            answer = first_sentence
        return answer[: self.settings.answer_limit]

    def shown(self, status: _Status) -> str:
        """Return the status word to send for a state of an async request."""
        word: str = status
        if self.settings.documented and status == "complete":
            word = "completed"
        return self._status_words.get(status, word)

    def as_json(self) -> dict[str, Any]:
        """Return the current faults as plain JSON types."""
        rules = []
        for rule in self.rules:
            fields = rule.model_dump()
            match = fields.pop("match")
            rules.append({**match, **fields})
        return {
            **self.settings.model_dump(include=set(CHANGEABLE)),
            "async_status_words": {word: self.shown(word) for word in get_args(_Status)},
            "rules": rules,
        }
