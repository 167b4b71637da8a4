"""Which settings of ``[core] executor`` count as one machine."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest
from airflow.executors.base_executor import BaseExecutor
from airflow.executors.local_executor import LocalExecutor

from airflow_provider_assistant.ledger.executors import CONTAINER_VARIABLES, distribution

LOCAL = "airflow.executors.local_executor.LocalExecutor"
CELERY = "airflow.providers.celery.executors.celery_executor.CeleryExecutor"
DISTRIBUTED = {
    "CeleryExecutor": CELERY,
    "KubernetesExecutor": "airflow.providers.cncf.kubernetes.executors.kubernetes_executor.KubernetesExecutor",
    "CeleryKubernetesExecutor": (
        "airflow.providers.celery.executors.celery_kubernetes_executor.CeleryKubernetesExecutor"
    ),
    "LocalKubernetesExecutor": (
        "airflow.providers.cncf.kubernetes.executors.local_kubernetes_executor.LocalKubernetesExecutor"
    ),
    "EdgeExecutor": "airflow.providers.edge3.executors.EdgeExecutor",
    "AwsBatchExecutor": "airflow.providers.amazon.aws.executors.batch.AwsBatchExecutor",
    "AwsEcsExecutor": "airflow.providers.amazon.aws.executors.ecs.AwsEcsExecutor",
    "AwsLambdaExecutor": "airflow.providers.amazon.aws.executors.aws_lambda.AwsLambdaExecutor",
}
TEAMS = "AIRFLOW__CORE__MULTI_TEAM"


@pytest.fixture
def reason(monkeypatch):
    """Return a function that sets the executor and returns why it counts as distributed, or None."""

    def judged(setting):
        monkeypatch.setenv("AIRFLOW__CORE__EXECUTOR", setting)
        return distribution()

    return judged


@pytest.fixture
def company(monkeypatch):
    """A module with executors that no provider has."""
    module = ModuleType("company_executors")
    module.Nearby = type("Nearby", (LocalExecutor,), {})
    module.Elsewhere = type("Elsewhere", (LocalExecutor,), {"is_local": False})
    module.Fleet = type("Fleet", (BaseExecutor,), {})
    module.LocalExecutor = type("LocalExecutor", (), {})
    monkeypatch.setitem(sys.modules, module.__name__, module)


@pytest.mark.parametrize(
    "setting",
    [
        "LocalExecutor",
        "LocalExecutor,",
        "SequentialExecutor",
        "DebugExecutor",
        LOCAL,
        "airflow.executors.sequential_executor.SequentialExecutor",
        "airflow.executors.debug_executor.DebugExecutor",
        "laptop:LocalExecutor",
        f"laptop : {LOCAL}",
        "LocalExecutor, company_executors.Nearby",
        "near:company_executors.Nearby",
        "tests.live.executor.LiveExecutor",
        "=LocalExecutor",
    ],
)
def test_local(setting, reason, company):
    assert reason(setting) is None


@pytest.mark.parametrize("name", [*DISTRIBUTED, CELERY])
def test_distributed(name, reason):
    found = reason(name)
    assert found.startswith(f"[core] executor is {name!r}, and ")
    assert name.rpartition(".")[2] in found.partition(", and ")[2]


@pytest.mark.parametrize(
    ("setting", "culprit"),
    [
        ("LocalExecutor,CeleryExecutor", "CeleryExecutor"),
        ("CeleryExecutor,LocalExecutor", "CeleryExecutor"),
        (f"{LOCAL},{CELERY}", "CeleryExecutor"),
        ("LocalExecutor,cloud:KubernetesExecutor", "KubernetesExecutor"),
        (f"near:{LOCAL},far:{CELERY}", "CeleryExecutor"),
        ("LocalExecutor,far : company_executors.Fleet", "Fleet"),
        ("company_executors.Fleet", "Fleet"),
        ("company_executors.Elsewhere", "Elsewhere"),
        ("company_executors.LocalExecutor", "LocalExecutor"),
    ],
)
def test_one_distributed_executor_is_enough(setting, culprit, reason, company):
    assert f"{culprit} " in reason(setting).partition(", and ")[2]


@pytest.mark.parametrize("setting", ["company_executors.Gone", "no_such_module.LocalExecutor", "MyExecutor", "a.b.c.D"])
def test_an_unknown_executor_counts_as_distributed(setting, reason, company):
    assert setting in reason(setting)


@pytest.mark.parametrize("error", ["RuntimeError('no broker')", "ImportError('celery')", "KeyError('HOME')"])
def test_an_executor_that_cannot_be_imported_counts_as_distributed(error, reason, tmp_path, monkeypatch):
    (tmp_path / "broken_executors.py").write_text(f"raise {error}\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert f"cannot be imported here ({error.partition('(')[0]})" in reason("broken_executors.Fleet")


@pytest.mark.parametrize(
    "setting", ["LocalExecutor", "airflow.executors.gone.LocalExecutor", "CeleryExecutor", *DISTRIBUTED.values()]
)
def test_executors_of_airflow_are_judged_without_an_import(setting, reason):
    assert "cannot be imported" not in (reason(setting) or "")


@pytest.mark.parametrize(
    ("setting", "culprit"),
    [
        ("LocalExecutor;team1=CeleryExecutor", "CeleryExecutor"),
        ("=LocalExecutor;team1=LocalExecutor,KubernetesExecutor", "KubernetesExecutor"),
        (f"LocalExecutor;team1=LocalExecutor;team2=far:{CELERY}", "CeleryExecutor"),
        ("CeleryExecutor;team1=LocalExecutor", "CeleryExecutor"),
    ],
)
def test_the_executor_of_one_team_is_enough(setting, culprit, reason, monkeypatch):
    monkeypatch.setenv(TEAMS, "True")
    assert f"{culprit} " in reason(setting).partition(", and ")[2]


def test_teams_that_are_all_local(reason, monkeypatch):
    monkeypatch.setenv(TEAMS, "True")
    assert reason(f"LocalExecutor;team1=LocalExecutor;team2=near:{LOCAL}") is None


def test_airflow_ignores_teams_unless_multi_team_is_on(reason, monkeypatch):
    monkeypatch.setenv(TEAMS, "False")
    assert reason("LocalExecutor;team1=CeleryExecutor") is None


@pytest.mark.parametrize("variable", CONTAINER_VARIABLES)
def test_a_container_for_one_task_is_a_machine_of_its_own(variable, reason, monkeypatch):
    """The pod template of Airflow's Helm chart sets LocalExecutor."""
    monkeypatch.setenv(variable, "True")
    assert f"({variable} is set)" in reason("LocalExecutor")
    monkeypatch.setenv(variable, "")
    assert reason("LocalExecutor") is None
