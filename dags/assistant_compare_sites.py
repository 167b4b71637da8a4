"""
Compare a staging site with the live site before its knowledge base goes live.

Load the changed knowledge base into a staging site first; the Airflow Variable
``assistant_staging_site`` names it. The DAG asks both sites the golden set, each
question twice, because an assistant does not give the same answer every time, and
evaluates both. The baseline of the staging site is the evaluation of the live site. A
judge reads the answers: a language model behind the connection ``pydanticai_default``.
Its verdicts count only if they agree with the labels of people in the golden set.

The report of the staging site has the agreement, the rules, and the questions that got
worse. The Variable ``assistant_lake`` sets the output folder. Default: ``lake`` in
AIRFLOW_HOME.
"""

import os
from pathlib import Path

from airflow.sdk import dag

from airflow_provider_assistant.operators.chat_batch import AssistantChatBatchOperator
from airflow_provider_assistant.operators.evaluation import AssistantEvaluateOperator

HOME = Path(os.environ.get("AIRFLOW_HOME", "~/airflow")).expanduser()
LAKE = f"{{{{ var.value.get('assistant_lake', '{HOME / 'lake'}') }}}}"
GOLDEN_SET = Path(__file__).parent / "golden_set" / "golden_set.csv"
# None is the site of the connection.
SITES = {"live": None, "staging": "{{ var.value.assistant_staging_site }}"}

# An answer passes if it contains the required phrases, and says "I do not know"
# exactly where that is expected.
RIGHT_IF = "must_include >= 1 and refusal >= 1"
GATE = [
    "coverage >= 0.98",
    # Without this rule, no rule on the judge is accepted. It limits the agreement with
    # people that is proven: 60 labels prove 0.4 of a judge whose kappa is 0.7.
    "judge.correctness agreement >= 0.4 on >= 50 labels",
    # The staging site may not be worse than the live site.
    "judge.correctness drop <= 0.02",
    "must_include drop <= 0.02",
]


@dag(
    schedule=None,
    catchup=False,
    max_active_runs=1,
    tags=["assistant"],
    doc_md=__doc__,
)
def assistant_compare_sites():
    """Ask both sites the golden set, judge and compare the answers."""
    ask = {
        name: AssistantChatBatchOperator(
            task_id=f"ask_{name}",
            site_id=site_id,
            source=str(GOLDEN_SET),
            output_path=f"{LAKE}/comparison/answers/{{{{ run_id }}}}/{name}.parquet",
            key_columns="key",
            repeat=2,
            deferrable=True,
            timeout=600,
            poll_interval=4,
            max_failed=0.5,
        )
        for name, site_id in SITES.items()
    }
    options = {
        "output_path": f"{LAKE}/comparison",
        "scorers": ["judge.correctness", "must_include", "refusal"],
        "judge": {"max_judge_tokens": 1_000_000},
        "pass_if": RIGHT_IF,
        # Set this to "fail" if a task publishes the staging site afterwards.
        "on_fail": "report",
    }
    live = AssistantEvaluateOperator(
        task_id="evaluate_live",
        answers=ask["live"].output["output_path"],
        name="live",
        **options,
    )
    AssistantEvaluateOperator(
        task_id="compare",
        answers=ask["staging"].output["output_path"],
        baseline=live.output["summary_path"],
        name="staging_to_live",
        gate=GATE,
        **options,
    )


assistant_compare_sites()
