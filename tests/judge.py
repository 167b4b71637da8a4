"""A model's host for tests: its judge compares words, so the same request gets the same verdict."""

from __future__ import annotations

import json
import re
import threading

from tests.servers import LocalServer, body_of, send

WORDS = re.compile(r"\d+(?:[.,]\d+)*|\bnot\b|\w{4,}")


class Judge(LocalServer):
    """Answer ``POST /v1/chat/completions``. A fault is "drop", "hold" or a status."""

    def __init__(self, key="key-of-the-judge"):
        super().__init__()
        self.key, self.position_bias, self.fault = key, 0.0, lambda number, text: None
        self.asked, self.statuses, self.release = [], [], threading.Event()

    def conn_json(self, **changes):
        fields = {"conn_type": "pydanticai", "host": f"http://{self.host}/v1", "password": self.key}
        return json.dumps({**fields, "extra": {"model": "openai:word-overlap"}, **changes})

    def answer(self, request):
        text = body_of(request).decode()
        with self._lock:
            self.asked.append(text)
            fault = self.fault(len(self.asked) - 1, text)
        if fault in ("drop", "hold"):
            request.close_connection = fault == "drop" or self.release.wait()
            return
        status = fault or (200 if request.headers["Authorization"] == f"Bearer {self.key}" else 401)
        self.statuses.append(status)
        content = completion(text, self.position_bias) if status == 200 else {"error": str(status)}
        send(request, status, json.dumps(content).encode(), {"Content-Type": "application/json"})


def completion(text, position_bias):
    asked = json.loads(json.loads(text)["messages"][-1]["content"])
    score, reason = score_of(asked, asked.get("answer", asked.get("first")))
    found = {"reason": reason, "score": score, "verdict": "pass" if score >= 0.6 else "fail"}
    if "second" in asked:
        lead = score + position_bias - score_of(asked, asked["second"])[0]
        better = "tie" if abs(lead) < 0.05 else "first" if lead > 0 else "second"
        found = {"reason": reason, "better": better}
    usage = {"prompt_tokens": len(text) // 4, "completion_tokens": 20}
    return {"choices": [{"message": {"content": json.dumps(found)}}], "usage": usage}


def score_of(asked, answer):
    """Return the share of expected words in the answer. A wrong number or "not" limits it."""
    reference = asked.get("expected") or answer
    text = answer if asked.get("expected") else " ".join(asked.get("passages") or [answer])
    wanted, found = (WORDS.findall(one.lower()) or [one] for one in (reference, text))
    missing = [word for word in wanted if word not in found]
    is_wrong = any(word[:1].isdigit() for word in missing) or ("not" in wanted) != ("not" in found)
    score = min(1 - len(missing) / len(wanted), 0.3 if is_wrong else 1)
    return round(score, 4), f'It says "{answer[:80]}". Missing: {", ".join(missing) or "no word"}.'
