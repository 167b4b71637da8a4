"""A double of the documented Assistant service, for development and tests.

The sandbox and the rest of this package do not import each other: if the service shared code with the client, tests
could not detect the client's errors.
"""

from airflow_provider_assistant.sandbox.server import SandboxServer
from airflow_provider_assistant.sandbox.service import Service
from airflow_provider_assistant.sandbox.settings import Settings

__all__ = ["SandboxServer", "Service", "Settings"]
