"""Record which processes import the hook. Python runs this module at start if PYTHONPATH contains its folder."""  # noqa: INP001

import os
import sys
from pathlib import Path

HOOK = "airflow_provider_assistant.hooks.assistant"


class Witness:
    """A finder that observes imports and never finds a module."""

    @staticmethod
    def find_spec(name: str, *_: object) -> None:
        """Record the process if it imports the hook."""
        if name == HOOK:
            with Path(os.environ["ASSISTANT_TEST_IMPORTS"]).open("a") as log:
                log.write(f"{os.getpid()}\n")


sys.meta_path.insert(0, Witness)
