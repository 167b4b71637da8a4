"""Note which process imports the hook: Python runs this at its start where PYTHONPATH leads here."""  # noqa: INP001

import os
import sys
from pathlib import Path

HOOK = "airflow_provider_assistant.hooks.assistant"


class Witness:
    """Sees what is looked for and finds nothing."""

    @staticmethod
    def find_spec(name: str, *_: object) -> None:
        """Note the process if it looks for the hook."""
        if name == HOOK:
            with Path(os.environ["ASSISTANT_TEST_IMPORTS"]).open("a") as log:
                log.write(f"{os.getpid()}\n")


sys.meta_path.insert(0, Witness)
