"""Check the files that GitHub, Read the Docs and the Airflow registry read."""

from __future__ import annotations

import re
import runpy
from importlib.metadata import metadata
from pathlib import Path

import pytest
import yaml

from tests.docs.pages import ROOT
from tests.versions import import_string

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
ADDRESSES = re.compile(r"https://(?:github\.com/airflow-provider-assistant|airflow-provider-assistant\.readthedocs)")
# Only these files may contain URLs of the project, so that a change of address is small.
MAY_NAME_IT = {".airflow-registry.yaml", "airflow_provider_assistant/provider_info.py", "pyproject.toml"}


def test_registry_entry_says_what_the_provider_declares() -> None:
    registry = runpy.run_path(str(ROOT / "docs" / "site" / "registry.py"))
    assert registry["ENTRY"].read_text() == registry["written"](), "python docs/site/registry.py writes it"


def test_registry_entry_names_classes_that_exist() -> None:
    entry = yaml.safe_load((ROOT / ".airflow-registry.yaml").read_text())
    listed = [module for kind in ("operators", "transfers", "sensors", "hooks", "triggers") for module in entry[kind]]
    assert len(listed) > 15
    for module in listed:
        assert import_string(module["module"]).__name__.startswith("Assistant")
        assert module["description"].endswith(".")


def test_installed_package_names_its_home() -> None:
    urls = dict(line.split(", ", 1) for line in metadata("airflow-provider-assistant").get_all("Project-URL") or ())
    assert set(urls) == {"Documentation", "Source", "Changelog", "Issues"}
    assert all(ADDRESSES.match(url) for url in urls.values())


def test_few_files_name_the_home_of_the_project() -> None:
    folders = ("airflow_provider_assistant", "dags", "docs", "tests", ".github")
    files = [path for folder in folders for path in (ROOT / folder).rglob("*") if path.is_file()]
    files += [path for path in ROOT.iterdir() if path.is_file()]
    text = {".md", ".py", ".yml", ".yaml", ".toml", ".txt", ".in", ".ini"}
    naming = {
        path.relative_to(ROOT).as_posix()
        for path in files
        if path.suffix in text and ADDRESSES.search(path.read_text())
    }
    assert naming == MAY_NAME_IT


def steps(workflow: Path) -> list[dict[str, object]]:
    return [step for job in yaml.safe_load(workflow.read_text())["jobs"].values() for step in job.get("steps", ())]


def test_every_action_has_one_version() -> None:
    """actionlint and zizmor check the rest."""
    used = {
        found for path in WORKFLOWS for found in re.findall(r"uses: ([\w./-]+)@(\w+) # (v[\d.]+)", path.read_text())
    }
    assert len(used) == len({action for action, _, _ in used})
    assert {action for action, _, _ in used} == {
        str(step["uses"]).partition("@")[0] for path in WORKFLOWS for step in steps(path) if "uses" in step
    }


def test_every_command_of_the_workflows_exists() -> None:
    commands = "\n".join(str(step["run"]) for path in WORKFLOWS for step in steps(path) if "run" in step)
    commands += (ROOT / ".ci" / "run").read_text()
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    made = set(re.findall(r"\bmake ([a-z-]+)", commands))
    assert len(made) > 10
    assert made <= targets
    files = re.findall(r"(?:\bbash |-c )([.\w/-]+/[.\w-]+)", commands)
    assert len(files) > 2
    assert [name for name in files if not (ROOT / name).is_file()] == []


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_every_job_is_bounded_and_has_only_the_rights_it_needs(workflow: Path) -> None:
    read = yaml.safe_load(workflow.read_text())
    assert read["permissions"] == {}
    assert read["concurrency"]
    for name, job in read["jobs"].items():
        assert job["permissions"], name
        assert "uses" in job or 0 < job["timeout-minutes"] <= 90, name


def test_only_the_job_that_publishes_can_identify_itself() -> None:
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text())["jobs"]
    assert [name for name, job in jobs.items() if "id-token" in job["permissions"]] == ["publish"]
    assert jobs["publish"]["environment"] == "pypi"
    assert all("uses" in step for step in jobs["publish"]["steps"]), "it runs no code of the repository"
    assert set(jobs["publish"]["needs"]) == {"gate", "build", "sbom"}


def test_pre_commit_hooks_run_the_tools_of_make_check() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    local = next(repo for repo in hooks if repo["repo"] == "local")["hooks"]
    makefile = (ROOT / "Makefile").read_text()
    for hook in (hook for hook in local if hook["entry"].startswith(".venv/bin/")):
        tool = hook["entry"].removeprefix(".venv/bin/").removesuffix(" --force-exclude")
        assert f"\t$(BIN)/{tool}" in makefile, hook["id"]
