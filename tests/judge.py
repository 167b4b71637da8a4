"""A host of models for tests: its judge compares words, so the same request gets the same verdict."""

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
        self.key, self.fault = key, lambda number, text: None
        self.asked, self.statuses, self.release = [], [], threading.Event()

    def conn_json(self, **changes):
        fields = {"conn_type": "pydanticai", "host": f"http://{self.host}/v1", "password": self.key}
        return json.dumps({**fields, "extra": {"model": "openai-chat:word-overlap"}, **changes})

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
        content = completion(text) if status == 200 else {"error": f"{status}: {request.headers['Authorization']}"}
        send(request, status, json.dumps(content).encode(), {"Content-Type": "application/json"})


def completion(text):
    """Return what a host replies: a call of the tool that takes the verdict."""
    asked = json.loads(text)
    score, reason = score_of(json.loads(asked["messages"][-1]["content"]))
    function = {
        "name": asked["tools"][0]["function"]["name"],
        "arguments": json.dumps({"reason": reason, "score": score}),
    }
    message = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "1", "type": "function", "function": function}],
    }
    usage = {"prompt_tokens": len(text) // 4, "completion_tokens": 20, "total_tokens": len(text) // 4 + 20}
    choice = {"index": 0, "finish_reason": "tool_calls", "message": message}
    return {
        "id": "1",
        "object": "chat.completion",
        "created": 1,
        "model": asked["model"],
        "choices": [choice],
        "usage": usage,
    }


def score_of(asked):
    """Return 1 if the answer has most of the expected words, every number and "not" if it is expected; 0 otherwise."""
    answer = asked["answer"]
    wanted, found = (WORDS.findall(one.lower()) or [one] for one in (asked.get("expected") or answer, answer))
    missing = [word for word in wanted if word not in found]
    is_wrong = any(word[:1].isdigit() for word in missing) or ("not" in wanted) != ("not" in found)
    score = float(not is_wrong and len(missing) <= 0.4 * len(wanted))
    return score, f'It says "{answer[:80]}". Missing: {", ".join(missing) or "no word"}.'
