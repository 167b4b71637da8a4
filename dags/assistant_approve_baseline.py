"""
Let a person decide which evaluation is the baseline.

Run it when the answers changed on purpose, such as after a new knowledge base. It asks
the golden set, compares the answers with the approved baseline, and waits under
"Required Actions" in Airflow's UI, where a person reads the figures. Approve: the
Airflow Variable ``assistant_baseline`` names this evaluation, and every DAG whose
``baseline`` reads the Variable compares with it from now on. Reject: the last task is
skipped, and the baseline stays. To change your mind, clear ``approve`` and the task
after it.

The gate reports, because the person decides. Until a baseline is approved, the
evaluation compares with the last runs of this DAG that did not get worse. The Variable
``assistant_lake`` sets the output folder. Default: ``lake`` in AIRFLOW_HOME.
"""

import os
from pathlib import Path

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import Variable, dag, task

from airflow_provider_assistant.operators.chat_batch import AssistantChatBatchOperator
from airflow_provider_assistant.operators.evaluation import AssistantEvaluateOperator

HOME = Path(os.environ.get("AIRFLOW_HOME", "~/airflow")).expanduser()
LAKE = f"{{{{ var.value.get('assistant_lake', '{HOME / 'lake'}') }}}}"
GOLDEN_SET = Path(__file__).parent / "golden_set" / "golden_set.csv"

# The path of the approved evaluation, set below.
BASELINE = "{{ var.value.get('assistant_baseline', 'previous') }}"
RIGHT_IF = "must_include >= 1 and refusal >= 1"
GATE = [
    "coverage >= 0.98",
    "pass_rate >= 0.75",
    "token_f1 drop <= 0.02",
    "must_include drop <= 0.02",
]
QUESTION = """
{%- set run = ti.xcom_pull(task_ids="evaluate") -%}
{%- set shares = {"coverage": run["coverage"], "pass rate": run["pass_rate"]} -%}
The gate: **{{ run["verdict"] }}**. Compared with `{{ run["baseline"] or "nothing" }}`.
{% for failed in run["failed_rules"] %}
- `{{ failed["rule"] }}`: {{ failed["reason"] }}
{%- endfor %}

| Figure | Value |
|---|---|
| questions | {{ run["questions"] }} |
{%- for name, value in dict(shares, **run["means"]).items() if value is not none %}
| {{ name }} | {{ value | round(3) }} |
{%- endfor %}

Report: `{{ run["report_path"] }}`, and the button of the task `evaluate`.
"""


@dag(
    schedule=None,
    catchup=False,
    max_active_runs=1,
    tags=["assistant"],
    doc_md=__doc__,
)
def assistant_approve_baseline():
    """Evaluate the golden set, ask a person, set the baseline."""
    ask = AssistantChatBatchOperator(
        task_id="ask",
        source=str(GOLDEN_SET),
        output_path=f"{LAKE}/baselines/answers/{{{{ run_id }}}}.parquet",
        key_columns="key",
        deferrable=True,
        timeout=600,
        poll_interval=4,
        max_failed=0.5,
    )
    evaluate = AssistantEvaluateOperator(
        task_id="evaluate",
        answers=ask.output["output_path"],
        output_path=f"{LAKE}/baselines",
        name="baseline_candidate",
        scorers=["token_f1", "must_include", "refusal", "latency"],
        pass_if=RIGHT_IF,
        gate=GATE,
        on_fail="report",
        baseline=BASELINE,
    )
    approve = ApprovalOperator(
        task_id="approve",
        subject="Compare with this evaluation of the golden set from now on?",
        body=QUESTION,
    )

    @task
    def set_baseline(summary_path: str):
        Variable.set("assistant_baseline", summary_path)

    evaluate >> approve >> set_baseline(evaluate.output["summary_path"])


assistant_approve_baseline()
