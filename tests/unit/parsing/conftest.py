"""One child process for the tests of each file."""

from __future__ import annotations

import pytest

from airflow_provider_assistant.parsing.child import ChildParser
from airflow_provider_assistant.parsing.limits import UnreadableFileError


@pytest.fixture(scope="module")
def parse():
    """Parse a file in a child process; the problem is part of the result. It may take 20 seconds."""
    with ChildParser(seconds=20) as parser:

        def parsed(suffix, content):
            try:
                return parser.parse(suffix, content)
            except UnreadableFileError as error:
                return {"problem": str(error)}

        yield parsed
