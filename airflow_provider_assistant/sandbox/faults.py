"""Fault injection: which requests fail, how, and how often. The rules can change at run time."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from airflow_provider_assistant.sandbox.actions import Action

if TYPE_CHECKING:
    from airflow_provider_assistant.sandbox.settings import Settings

CHANGEABLE = frozenset(
    {
        "latency",
        "rate_limit",
        "rate_burst",
        "fault_rate",
        "fault_status",
        "seed",
        "processing_seconds",
        "fail_messages",
        "min_relevance",
        "answer_limit",
        "short_answer_rate",
        "judge_position_bias",
        "documents_quota",
        "messages_quota",
    }
)
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
STATUSES = ("queued", "processing", "complete", "failed")


@dataclass(slots=True, kw_only=True)
class Rule:
    """Apply an action to matching requests.

    :param action: action to apply, see :class:`~.actions.Action`.
    :param method: HTTP method to match. ``None`` matches any.
    :param path: regular expression to search for in the path below the API's root.
    :param body: regular expression to search for in the body.
    :param key: name of the API key to match. ``None`` matches any.
    :param times: number of matching requests to apply the action to. ``None`` means all.
    :param skip: number of matching requests to let pass first.
    :param hits: number of requests that the action was applied to.
    """

    action: str
    method: str | None = None
    path: str = ""
    body: str | None = None
    key: str | None = None
    times: int | None = 1
    skip: int = 0
    hits: int = 0

    def __post_init__(self) -> None:
        Action.parse(self.action)
        for pattern in (self.path, self.body or ""):
            try:
                re.compile(pattern)
            except re.error as error:
                raise ValueError(f"{pattern!r} is not a regular expression: {error}") from None
        if self.times is not None and self.times < 1:
            raise ValueError(f"times must be at least 1, or null for all, not {self.times}")
        if self.skip < 0:
            raise ValueError(f"skip must not be negative, not {self.skip}")

    @classmethod
    def read(cls, given: Mapping[str, Any]) -> Rule:
        """Parse a rule from the JSON of the control plane.

        :param given: mapping with ``action``, ``times``, ``skip`` and ``match``.
        """
        if not isinstance(given, Mapping):
            raise TypeError("a rule must be an object")
        match = given.get("match") or {}
        _refuse_unknown("rule", given, {"action", "times", "skip", "match"})
        _refuse_unknown("match", match, {"method", "path", "body", "key"})
        if "action" not in given:
            raise ValueError("a rule needs an action")
        return cls(**match, **{name: value for name, value in given.items() if name != "match"})

    def meets(self, method: str, path: str, key: str, body: bytes) -> bool:
        """Return whether the rule applies to a request, and count the request.

        :param method: the HTTP method.
        :param path: the path below the API's root.
        :param key: the key's name.
        :param body: the body.
        """
        if not (
            (self.times is None or self.hits < self.times)
            and (self.method is None or self.method.upper() == method)
            and (self.key is None or self.key == key)
            and re.search(self.path, path)
            and (self.body is None or re.search(self.body, body.decode(errors="replace")))
        ):
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
        self.status_words: dict[str, str] = {}
        self._reseed()
        self.version += 1

    def _reseed(self) -> None:
        self._random = random.Random(self.settings.seed)  # noqa: S311 (faults, not secrets)

    def add(self, action: str, **match: Any) -> Rule:
        """Add a rule and return it.

        :param action: action to apply.
        :param match: other fields of :class:`Rule`.
        """
        rule = Rule(action=action, **match)
        self.rules.append(rule)
        return rule

    def update(
        self,
        *,
        rules: list[Mapping[str, Any]] | None = None,
        async_status_words: Mapping[str, str] | None = None,
        **changes: Any,
    ) -> None:
        """Change the given values. If one of them is invalid, change nothing.

        :param rules: new rules in the format of :meth:`Rule.read`; they replace the existing ones.
        :param async_status_words: status words to send for the states of async requests.
        :param changes: settings that can change at run time.
        """
        _refuse_unknown("faults", changes, CHANGEABLE)
        _refuse_unknown("async_status_words", async_status_words or {}, set(STATUSES))
        if "rate_limit" in changes and "rate_burst" not in changes:
            changes["rate_burst"] = None
        if "fault_status" in changes:
            changes["fault_status"] = str(changes["fault_status"])
        settings = self.settings.changed(**changes)
        read = self.rules if rules is None else [Rule.read(rule) for rule in rules]
        self.settings, self.rules = settings, read
        if async_status_words is not None:
            self.status_words = dict(async_status_words)
        if "seed" in changes or "fault_rate" in changes:
            self._reseed()
        self.version += 1

    def choose(self, method: str, path: str, key: str, body: bytes) -> str | None:
        """Return the fault of a request, or None.

        :param method: the HTTP method.
        :param path: the path below the API's root.
        :param key: the key's name.
        :param body: the body.
        """
        for rule in self.rules:
            if rule.meets(method, path, key, body):
                return rule.action
        if self.settings.fault_rate and self._random.random() < self.settings.fault_rate:
            return self.settings.fault_action
        return None

    def fails(self, message: str) -> bool:
        """Return whether a chat request with this message should fail.

        :param message: the user's text.
        """
        pattern = self.settings.fail_messages
        return bool(pattern and re.search(pattern, message))

    def cut(self, answer: str) -> str:
        """Cut an answer to ``answer_limit`` characters, and a share of the answers to their first sentence.

        :param answer: complete answer.
        """
        if self.settings.short_answer_rate and self._random.random() < self.settings.short_answer_rate:
            answer = _SENTENCE_END.split(answer, maxsplit=1)[0]
        return answer[: self.settings.answer_limit]

    def shown(self, status: str) -> str:
        """Return the status word to send for a state of an async request.

        :param status: the service's default word.
        """
        return self.status_words.get(status, status)

    def as_json(self) -> dict[str, Any]:
        """Return the current faults as plain JSON types."""
        return {
            **{name: getattr(self.settings, name) for name in sorted(CHANGEABLE)},
            "async_status_words": {word: self.shown(word) for word in STATUSES},
            "rules": [{field.name: getattr(rule, field.name) for field in fields(rule)} for rule in self.rules],
        }


def _refuse_unknown(where: str, given: Mapping[str, Any], known: set[str] | frozenset[str]) -> None:
    unknown = sorted(set(given) - known)
    if unknown:
        raise ValueError(f"{where}: unknown {unknown[0]!r}; known are {', '.join(sorted(known))}")
