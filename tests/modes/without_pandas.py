"""A plugin of pytest that lets pandas look as if it was not installed."""

from __future__ import annotations

import sys
from typing import Any


class Refusal:
    """Refuse to import pandas."""

    def find_spec(self, name: str, *_: Any) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(name, name=name)


sys.meta_path.insert(0, Refusal())
