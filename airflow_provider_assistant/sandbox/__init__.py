"""An embedded Assistant service, for development and tests.

It imports nothing else of this package, and nothing else of this package imports it: a service that
shared the client's code would agree with the client's mistakes.
"""

from airflow_provider_assistant.sandbox.app import create_app
from airflow_provider_assistant.sandbox.server import SandboxServer
from airflow_provider_assistant.sandbox.settings import Settings

__all__ = ["SandboxServer", "Settings", "create_app"]
