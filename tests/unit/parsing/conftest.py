"""One child process for the tests of each file."""

from __future__ import annotations

import pytest

from airflow_provider_assistant.parsing.child import ChildParser


@pytest.fixture(scope="module")
def parse():
    """Parse a file in a child process. It may take 20 seconds."""
    with ChildParser(seconds=20) as parser:
        yield parser.parse
