"""Check the files in deploy without Docker, Kubernetes and the Helm chart."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import airflow.config_templates
import pytest
import yaml
from airflow.sdk import ObjectStoragePath
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from airflow_provider_assistant.hooks.assistant import AssistantHook
from airflow_provider_assistant.provider_info import get_provider_info
from tests.docs.pages import ROOT, blocks_of

DEPLOY = ROOT / "deploy"
DOCKERFILE = (DEPLOY / "Dockerfile").read_text()
COMPOSE_TEXT = (DEPLOY / "compose" / "compose.yaml").read_text()
VALUES = {path.name: yaml.safe_load(path.read_text()) for path in sorted((DEPLOY / "helm").glob("values-*.yaml"))}
VARIABLE = re.compile(r"(?<!\$)\$\{(?P<name>\w+)(?::(?P<kind>[-?])(?P<rest>[^}]*))?\}")
AIRFLOW_OPTION = re.compile(r"AIRFLOW__(?P<section>\w+?)__(?P<option>\w+)")

# Options of providers that need not be installed here, as their provider.yaml declares them.
PROVIDER_OPTIONS = {
    "celery": {"broker_url", "result_backend", "worker_concurrency"},
    "celery_broker_transport_options": {"visibility_timeout"},
}
# Options of this provider that a cluster leaves out: the default fits, or it is only for a ledger in a file.
NOT_FOR_A_CLUSTER = {"lease_seconds", "ledger_file_is_shared"}
# Values of the chart, as values.schema.json of the chart 1.21 declares them. Check a new one there before you add it.
CHART_VALUES = {
    *("executor", "airflowVersion", "images.airflow.repository", "images.airflow.tag", "secret", "env", "config"),
    *("postgresql.enabled", "redis.enabled", "createUserJob.enabled", "fernetKeySecretName", "apiSecretKeySecretName"),
    *("jwtSecretName", "data.metadataSecretName", "data.resultBackendSecretName", "triggerer.replicas"),
    *("triggerer.persistence.enabled", "triggerer.resources", "workers.celery.replicas", "workers.celery.resources"),
    *("workers.celery.terminationGracePeriodSeconds", "workers.celery.persistence.enabled"),
    *("workers.celery.podDisruptionBudget.enabled", "workers.celery.podDisruptionBudget.config"),
    *("workers.kubernetes.terminationGracePeriodSeconds", "workers.kubernetes.safeToEvict"),
    "workers.kubernetes.resources",
}
# Names of the keys that the chart reads from its Secrets.
CHART_SECRETS = {
    "data.metadataSecretName": "connection",
    "data.resultBackendSecretName": "connection",
    "fernetKeySecretName": "fernet-key",
    "apiSecretKeySecretName": "api-secret-key",
    "jwtSecretName": "jwt-secret",
}


def options() -> dict[str, set[str]]:
    """Return the options of Airflow's configuration by section."""
    (folder,) = airflow.config_templates.__path__
    sections = yaml.safe_load((Path(folder) / "config.yml").read_text()) | get_provider_info()["config"]
    return {name: set(section["options"]) for name, section in sections.items()} | PROVIDER_OPTIONS


def pins() -> dict[str, Version]:
    lines = (ROOT / "constraints" / "airflow-3.3.txt").read_text().splitlines()
    found = [line.partition(";")[0].partition("==") for line in lines if "==" in line]
    return {canonicalize_name(name): Version(version.strip()) for name, _, version in found}


def example_variables() -> dict[str, str]:
    lines = (DEPLOY / "compose" / ".env.example").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def compose() -> dict[str, Any]:
    """Return the Compose file with the values of .env.example; empty ones are filled in."""
    values = {name: value or "secret" for name, value in example_variables().items()}
    return yaml.safe_load(
        VARIABLE.sub(lambda found: values.get(found["name"]) or found["rest"], COMPOSE_TEXT).replace("$$", "$")
    )


def airflow_services() -> dict[str, dict[str, Any]]:
    services = compose()["services"].items()
    return {name: found for name, found in services if "AIRFLOW__CORE__EXECUTOR" in found.get("environment", ())}


def secrets() -> dict[str, dict[str, str]]:
    found = yaml.safe_load_all((DEPLOY / "helm" / "secrets.example.yaml").read_text())
    return {one["metadata"]["name"]: one["stringData"] for one in found}


def test_the_image_installs_what_the_constraints_pin_and_every_file_names_it() -> None:
    assert re.search(r"^COPY constraints/airflow-3.3.txt /tmp/constraints.txt$", DOCKERFILE, re.MULTILINE)
    assert "--constraint /tmp/constraints.txt" in DOCKERFILE
    wanted = [Requirement(found) for found in re.findall(r'^\s+"([a-z][\w\[\]-]*)" \\$', DOCKERFILE, re.MULTILINE)]
    assert len(wanted) >= 6
    assert {canonicalize_name(one.name) for one in wanted} <= set(pins())
    assert pins()["celery"] < Version("5.7")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = re.search(r'"\$\{wheel\}\[([\w,]+)\]"', DOCKERFILE)
    assert extras
    assert set(extras[1].split(",")) <= set(project["optional-dependencies"])
    python = re.search(r"^FROM apache/airflow:slim-\$\{AIRFLOW_VERSION\}-python([\d.]+)$", DOCKERFILE, re.MULTILINE)
    assert python
    assert f"Programming Language :: Python :: {python[1]}" in project["classifiers"]
    tag = str(pins()["apache-airflow"])
    assert f"\nARG AIRFLOW_VERSION={tag}\n" in DOCKERFILE
    assert f"-t airflow-assistant:{tag} ." in DOCKERFILE
    assert {found["image"] for found in airflow_services().values()} == {f"airflow-assistant:{tag}"}
    for values in VALUES.values():
        assert (values["airflowVersion"], values["images"]["airflow"]["tag"]) == (tag, tag)


def test_the_compose_file_refers_only_to_what_it_has() -> None:
    read = compose()
    assert set(airflow_services()) == {"init", "api-server", "scheduler", "dag-processor", "triggerer", "worker"}
    for name, service in read["services"].items():
        for needed, wanted in service.get("depends_on", {}).items():
            assert wanted["condition"] in {"service_healthy", "service_completed_successfully"}
            assert wanted["condition"] != "service_healthy" or "healthcheck" in read["services"][needed], needed
        mounted = {volume.partition(":")[0] for volume in service.get("volumes", ())}
        assert {one for one in mounted if not one.startswith((".", "/"))} <= set(read["volumes"])
        assert all((DEPLOY / "compose" / one).exists() for one in mounted if one.startswith("."))
        assert all(type(value) is str for value in service.get("environment", {}).values()), name
    used = {found["name"]: found["kind"] for found in VARIABLE.finditer(COMPOSE_TEXT)}
    assert set(example_variables()) == {name for name, kind in used.items() if kind == "?"}
    assert {name for name, kind in used.items() if kind == "-"} == {"AIRFLOW_IMAGE"}


def environments() -> list[tuple[str, dict[str, str]]]:
    """Return the environments of Airflow's processes: those of the Compose file, and those of the chart's values."""
    found = [(name, service["environment"]) for name, service in airflow_services().items()]
    for name, values in VALUES.items():
        config = {
            f"AIRFLOW__{section}__{option}".upper(): str(value)
            for section, given in values["config"].items()
            for option, value in given.items()
        }
        secret = {one["envName"]: secrets()[one["secretName"]][one["secretKey"]] for one in values["secret"]}
        found.append((name, config | secret | {one["name"]: one["value"] for one in values["env"]}))
    return found


@pytest.mark.parametrize(("place", "environment"), environments())
def test_an_environment_has_valid_options_and_connections(
    place: str, environment: Mapping[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    known = options()
    for variable, value in environment.items():
        if found := AIRFLOW_OPTION.fullmatch(variable):
            assert found["option"].lower() in known.get(found["section"].lower(), ()), f"{place}: {variable}"
        if variable.startswith("AIRFLOW_CONN_"):
            assert json.loads(value)["conn_type"] in {"assistant", "postgres", "aws"}
    assert environment["AIRFLOW__ASSISTANT__LEDGER_CONN_ID"] == "assistant_ledger"
    assert json.loads(environment["AIRFLOW_CONN_ASSISTANT_LEDGER"])["conn_type"] == "postgres"
    monkeypatch.setenv("AIRFLOW_CONN_ASSISTANT_DEFAULT", environment["AIRFLOW_CONN_ASSISTANT_DEFAULT"])
    assert AssistantHook().settings.client.api_key
    assert AssistantHook().site()


@pytest.mark.parametrize(("place", "environment"), environments())
def test_pages_find_what_the_tasks_write(place: str, environment: Mapping[str, str]) -> None:
    given = {name.removeprefix("AIRFLOW__ASSISTANT__").lower() for name in environment if "__ASSISTANT__" in name}
    declared = set(get_provider_info()["config"]["assistant"]["options"])
    assert given == declared - NOT_FOR_A_CLUSTER, place
    lake = environment["AIRFLOW__ASSISTANT__LAKE_PATH"]
    findings = environment["AIRFLOW__ASSISTANT__FINDINGS_FOLDER"]
    assert lake == environment["AIRFLOW_VAR_ASSISTANT_LAKE"], f"{place}: the tasks write elsewhere"
    assert not findings.startswith(f"{lake}/"), f"{place}: a folder of the lake is a dataset"
    for folder in (lake, findings):
        if "://" in folder:
            conn_id = str(ObjectStoragePath(folder).conn_id)
            assert f"AIRFLOW_CONN_{conn_id.upper()}" in environment, f"{place}: {folder}"
        else:
            for service in airflow_services().values():
                assert any(volume.split(":")[1] == folder for volume in service["volumes"]), folder


def leaves(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values with their paths, those of ``CHART_VALUES`` as a whole."""
    for name, value in values.items():
        path = f"{prefix}{name}"
        if isinstance(value, dict) and path not in CHART_VALUES:
            yield from leaves(value, f"{path}.")
        else:
            yield path, value


@pytest.mark.parametrize("name", VALUES)
def test_values_are_those_of_the_chart(name: str) -> None:
    values = dict(leaves(VALUES[name]))
    assert set(values) <= CHART_VALUES
    for path in CHART_SECRETS.keys() & values.keys():
        assert set(secrets()[values[path]]) == {CHART_SECRETS[path]}
    # Numbers and text that Helm would otherwise change.
    assert all(isinstance(one["value"], str) for one in values["env"])


@pytest.mark.promise("security", "The files to deploy contain no secret.")
def test_no_file_has_a_secret() -> None:
    example = example_variables()
    keys = {name for name in example if name.endswith(("_PASSWORD", "_SECRET", "_KEY"))}
    assert len(keys) == 8
    assert {example[name] for name in keys} == {""}
    given = re.findall(r'(?i)(?:password|secret|secret_key|fernet_key|auth)"?: +"?(.)', COMPOSE_TEXT)
    given += re.findall(r"://\w*:(.)[^/\n]*@", COMPOSE_TEXT)
    assert len(given) > 10
    assert set(given) == {"$"}
    for name, data in secrets().items():
        assert all("REPLACE" in value for value in data.values()), name
    secret = re.compile(r"(?m)^ *(?:\w*[pP]assword|pass|fernetKey|apiSecretKey|jwtSecret): *\S")
    assert [name for name in VALUES if secret.search((DEPLOY / "helm" / name).read_text())] == []
    ignored = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
    assert {"*", "!dist/*.whl", "!constraints/*.txt"} <= set(ignored)


def test_the_page_shows_the_compose_file() -> None:
    first = next(block for block in blocks_of(ROOT / "docs/operate/deploy.md") if block.language == "yaml")
    lines = [line.strip() for line in COMPOSE_TEXT.splitlines()]
    shown = [line.strip() for line in first.code.splitlines()]
    assert "\n".join(shown) in "\n".join(lines)
