"""Check the files that GitHub, Read the Docs and the Airflow registry read."""

from __future__ import annotations

import re
from importlib.metadata import distribution, metadata

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.docs.pages import ROOT, codes, section

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
MAKEFILE = (ROOT / "Makefile").read_text()
ADDRESSES = re.compile(r"https://(?:github\.com/airflow-provider-assistant|airflow-provider-assistant\.readthedocs)")
# Only these files may contain URLs of the project, so that a change of address is small.
MAY_NAME_IT = {".airflow-registry.yaml", "airflow_provider_assistant/provider_info.py", "pyproject.toml"}


def test_few_files_name_the_home_of_the_project() -> None:
    folders = ("airflow_provider_assistant", "dags", "docs", "tests", ".github")
    files = [path for folder in folders for path in (ROOT / folder).rglob("*") if path.is_file()]
    files += [path for path in ROOT.iterdir() if path.is_file()]
    text = {".md", ".py", ".yml", ".yaml", ".toml", ".txt", ".in", ".ini"}
    naming = [path for path in files if path.suffix in text and ADDRESSES.search(path.read_text())]
    assert {path.relative_to(ROOT).as_posix() for path in naming} == MAY_NAME_IT
    urls = dict(line.split(", ", 1) for line in metadata("airflow-provider-assistant").get_all("Project-URL") or ())
    assert set(urls) == {"Documentation", "Source", "Changelog", "Issues"}
    assert all(ADDRESSES.match(url) for url in urls.values())


def installed_with(name: str, found: set[str]) -> set[str]:
    """Add a distribution and all that it requires, without extras, to those that were found."""
    if canonicalize_name(name) not in found:
        found.add(canonicalize_name(name))
        for line in distribution(name).requires or ():
            needed = Requirement(line)
            if needed.marker is None or needed.marker.evaluate({"extra": ""}):
                installed_with(needed.name, found)
    return found


@pytest.mark.promise("Airflow", "Of what the package requires, Airflow lacks only aiohttp and pyarrow.")
def test_few_dependencies_are_new_to_airflow() -> None:
    required = [Requirement(line) for line in distribution("airflow-provider-assistant").requires or ()]
    declared = {canonicalize_name(one.name) for one in required if "extra" not in str(one.marker)}
    assert declared - installed_with("apache-airflow", set()) == {"aiohttp", "pyarrow"}
    assert "requires `aiohttp` and `pyarrow`" in (ROOT / "docs/start/install.md").read_text()


def test_every_action_has_one_version() -> None:
    """actionlint and zizmor check the rest."""
    text = "".join(path.read_text() for path in WORKFLOWS)
    used = set(re.findall(r"uses: ([\w./-]+)@(\w+) # (v[\d.]+)", text))
    assert len(used) == len({action for action, _, _ in used})
    assert {action for action, _, _ in used} == set(re.findall(r"uses: ([\w/-]+)@", text))


def test_every_command_of_the_workflows_exists() -> None:
    jobs = [job for path in WORKFLOWS for job in yaml.safe_load(path.read_text())["jobs"].values()]
    commands = "\n".join(step["run"] for job in jobs for step in job.get("steps", ()) if "run" in step)
    commands += (ROOT / ".ci" / "run").read_text()
    made = set(re.findall(r"\bmake ([a-z-]+)", commands))
    assert len(made) > 10
    assert made <= set(re.findall(r"^([a-z-]+):", MAKEFILE, re.MULTILINE))
    files = re.findall(r"(?:\bbash |-c )([.\w/-]+/[.\w-]+)", commands)
    assert len(files) > 2
    assert [name for name in files if not (ROOT / name).is_file()] == []


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_every_job_is_bounded_and_has_only_the_rights_it_needs(workflow) -> None:
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
    for hook in (hook for hook in local if hook["entry"].startswith(".venv/bin/")):
        tool = hook["entry"].removeprefix(".venv/bin/").removesuffix(" --force-exclude")
        assert f"\t$(BIN)/{tool}" in MAKEFILE, hook["id"]


PATHS = ("Ten ideas", "The path of a row", "The path of a question", "The path of a statistic", "Rules for code")


@pytest.mark.parametrize("heading", PATHS)
def test_the_architecture_names_what_exists(heading: str) -> None:
    source = "".join(path.read_text() for path in (ROOT / "airflow_provider_assistant").rglob("*.py"))
    text = " ".join(codes(section("CONTRIBUTING.md", heading)))
    named = re.findall(r"\b\w*(?:[a-z][A-Z]|[a-z]_[a-z])\w*", text)
    assert named
    assert [name for name in named if not re.search(rf"\b{name}\b", source)] == []
