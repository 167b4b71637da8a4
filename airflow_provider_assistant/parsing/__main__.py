"""Parse files in this process: ``python -m airflow_provider_assistant.parsing DESCRIPTOR SECONDS MEMORY``."""

import sys

from airflow_provider_assistant.parsing.child import serve

if __name__ == "__main__":
    serve(int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]))
