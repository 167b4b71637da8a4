"""Run the embedded service: ``python -m airflow_provider_assistant.sandbox``."""

import sys

from airflow_provider_assistant.sandbox.server import main

if __name__ == "__main__":
    main(sys.argv[1:])
