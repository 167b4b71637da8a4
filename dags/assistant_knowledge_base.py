"""
Load a knowledge base every day: rows of a dataframe, and files from a folder.

The rows are Airflow's own configuration reference, read from the installed package, one
document per option. The files are the guides in the folder next to this file.
Afterwards the assistant can answer questions about configuring Airflow. The ledger
records what was loaded, so the next run sends only new and changed rows.
"""

from pathlib import Path

from airflow.sdk import dag, task

from airflow_provider_assistant.operators.documents import (
    AssistantLoadQAOperator,
    AssistantUploadFilesOperator,
)

GUIDES = Path(__file__).parent / "guides"


@dag(
    schedule="@daily",
    catchup=False,
    max_active_runs=1,
    tags=["assistant"],
    doc_md=__doc__,
)
def assistant_knowledge_base():
    """Load Airflow's configuration reference and the guides."""

    @task
    def read_configuration_reference():
        """Return one row per configuration option that has a description."""
        import pandas as pd
        from airflow.configuration import retrieve_configuration_description

        options = [
            {
                "section": section,
                "name": name,
                "title": f"[{section}] {name}",
                "question": f"What does the Airflow configuration option {name} "
                f"in section {section} do?",
                "answer": f"{option['description'].strip()} "
                f"Default: {option.get('default') or 'none'}.",
            }
            for section, content in retrieve_configuration_description(
                include_providers=False
            ).items()
            for name, option in content["options"].items()
            if option.get("description")
        ]
        return pd.DataFrame(options)

    AssistantLoadQAOperator(
        task_id="load_configuration_reference",
        source=read_configuration_reference(),
        constants={"category": "airflow-configuration"},
        key_columns=["section", "name"],
    )
    AssistantUploadFilesOperator(task_id="upload_guides", files=str(GUIDES))


assistant_knowledge_base()
