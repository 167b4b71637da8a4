"""The built package, installed into an empty environment and loaded by Airflow."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from packaging.metadata import Metadata

from airflow_provider_assistant import __version__
from airflow_provider_assistant.provider_info import DOCUMENTATION

pytestmark = pytest.mark.system

ROOT = Path(__file__).parents[2]
PACKAGE = "airflow_provider_assistant"
EXAMPLES = f"{PACKAGE}/example_dags"
CONSTRAINTS = ROOT / "constraints" / "airflow-3.3.txt"
# Generous limits: a slow package index must not look like a broken package.
DOWNLOADS = 600


def run(*command: str | Path, home: Path, timeout: float = 300, more: Mapping[str, str] | None = None) -> str:
    """Run a command without this environment's packages and Airflow. Fail if the command fails."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("AIRFLOW", "_AIRFLOW", "PYTHON", "VIRTUAL_ENV"))}
    done = subprocess.run(
        [str(part) for part in command],
        cwd=home,
        env=env | {"AIRFLOW_HOME": str(home / "airflow")} | dict(more or {}),
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert done.returncode == 0, f"{command}:\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("package")


@pytest.fixture(scope="module")
def built(home: Path) -> tuple[Path, Path]:
    """The sdist, and the wheel that was built from it."""
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", home / "dist", ROOT, home=home, timeout=DOWNLOADS)
    [sdist], [wheel] = (home / "dist").glob("*.tar.gz"), (home / "dist").glob("*.whl")
    return sdist, wheel


@pytest.fixture(scope="module")
def python(home: Path, built: tuple[Path, Path]) -> Path:
    """The Python of an environment with the wheel and its dependencies."""
    _, wheel = built
    run(sys.executable, "-m", "venv", "--without-pip", home / "venv", home=home)
    python = home / "venv" / "bin" / "python"
    uv = [sys.executable, "-m", "uv", "pip", "install", "--python", python, "-c", CONSTRAINTS, wheel]
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "-c", CONSTRAINTS, wheel]
    try:
        run(*uv, home=home, timeout=DOWNLOADS)
    except AssertionError:  # as in the Makefile: uv does not read pip's settings
        run(*pip, home=home, timeout=DOWNLOADS)
    return python


def test_the_wheel_has_the_package_and_nothing_else(built: tuple[Path, Path]) -> None:
    with zipfile.ZipFile(built[1]) as wheel:
        names = wheel.namelist()
    [info] = {name.split("/")[0] for name in names} - {PACKAGE}

    assert info.endswith(".dist-info")
    assert f"{PACKAGE}/operators/chat.py" in names
    code = [name for name in names if name.startswith(f"{PACKAGE}/") and not name.startswith(f"{EXAMPLES}/")]
    assert {Path(name).suffix for name in code} == {".css", ".j2", ".mjs", ".py", ".sql", ".txt", ".typed"}
    assert {f"{PACKAGE}/evaluation/report/report.{kind}" for kind in ("css", "html.j2")} <= set(names)
    assert {f"{PACKAGE}/ui/static/assistant.{kind}" for kind in ("css", "mjs")} <= set(names)
    assert f"{PACKAGE}/py.typed" in names
    assert f"{info}/licenses/LICENSE" in names


def test_the_files_are_small_and_hold_nothing_of_this_machine(built: tuple[Path, Path]) -> None:
    sdist, wheel = built
    with zipfile.ZipFile(wheel) as packed:
        contents = {name: packed.read(name) for name in packed.namelist()}
    with tarfile.open(sdist) as packed_source:
        for member in packed_source:
            file = packed_source.extractfile(member)
            contents[member.name] = file.read() if file else b""

    assert wheel.stat().st_size < 1.5e6
    assert sdist.stat().st_size < 5e6
    assert not [name for name in contents if re.search(r"__pycache__|\.py[co]$|\.DS_Store|/\.env$", name)]
    assert not [name for name, content in contents.items() if os.fsencode(ROOT) in content]


def test_an_index_accepts_the_metadata(built: tuple[Path, Path]) -> None:
    with zipfile.ZipFile(built[1]) as wheel:
        [text] = [wheel.read(name) for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
    metadata = Metadata.from_email(text)  # raises an error where the rules of the index are broken

    assert metadata.description_content_type == "text/markdown"
    assert metadata.license_files == ["LICENSE"]
    assert metadata.summary
    assert len(metadata.summary) < 200
    assert not [requirement for requirement in metadata.requires_dist or () if requirement.url]


def test_the_wheel_has_the_example_dags_and_their_data(built: tuple[Path, Path]) -> None:
    files = [path for path in (ROOT / "dags").rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    with zipfile.ZipFile(built[1]) as wheel:
        packed = {name: wheel.read(name) for name in wheel.namelist() if name.startswith(f"{EXAMPLES}/")}

    assert packed == {f"{EXAMPLES}/{path.relative_to(ROOT / 'dags')}": path.read_bytes() for path in files}
    assert len(packed) > 10


def test_links_of_the_long_description_work_without_the_repository(built: tuple[Path, Path]) -> None:
    """Relative links of README become links to files of this version in the repository of pyproject.toml."""
    with zipfile.ZipFile(built[1]) as wheel:
        [metadata] = [wheel.read(name).decode() for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
    source = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]["Source"]
    links = re.findall(r"\]\(([^)]+)\)", metadata)
    here = [link.removeprefix(f"{source}/blob/v{__version__}/") for link in links if link.startswith(source)]

    assert all(link.startswith(("https://", "#")) for link in links)
    assert len(here) > 20
    assert not [path for path in here if not (ROOT / re.split("[#?]", path)[0]).exists()]


def test_the_sdist_can_be_tested(built: tuple[Path, Path]) -> None:
    with tarfile.open(built[0]) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}

    assert {
        f"{PACKAGE}/py.typed",
        ".airflow-registry.yaml",
        ".github/workflows/gate.yml",
        ".pre-commit-config.yaml",
        "CHANGELOG.md",
        "LICENSE",
        "Makefile",
        "SECURITY.md",
        "README.md",
        "constraints/airflow-3.3.txt",
        "dags/assistant_smoke.py",
        "dbt/dbt_project.yml",
        "docs/internals/architecture.md",
        "pyproject.toml",
        "tests/conftest.py",
    } <= names
    assert not [name for name in names if name.startswith((".venv", ".demo", ".ci", ".git/"))]


@pytest.mark.slow
def test_the_same_source_gives_the_same_bytes(home: Path) -> None:
    """Build twice, in folders with different names and dates."""
    builds = []
    for number in range(2):
        source = home / f"source{number}"
        ignored = shutil.ignore_patterns(".*", "__pycache__", "dist", "build")
        shutil.copytree(ROOT, source, ignore=ignored, copy_function=shutil.copy)
        for path in source.rglob("*"):
            os.utime(path, (1_600_000_000 + number * 100_000, 1_600_000_000 + number * 100_000))
        environment = {"SOURCE_DATE_EPOCH": "1700000000", "PYTHONHASHSEED": str(number + 1)}
        command = (sys.executable, "-m", "build", "--no-isolation", "--outdir", home / f"dist{number}", source)
        run(*command, home=home, timeout=DOWNLOADS, more=environment)
        builds.append({path.name: path.read_bytes() for path in (home / f"dist{number}").iterdir()})

    assert len(builds[0]) == 2
    assert builds[0] == builds[1]


@pytest.mark.slow
def test_airflow_in_an_empty_environment_sees_the_provider(home: Path, python: Path) -> None:
    providers = run(python, "-m", "airflow", "providers", "list", "--output", "plain", home=home)
    hooks = run(python, "-m", "airflow", "providers", "hooks", "--output", "plain", home=home)

    [provider] = [line for line in providers.splitlines() if line.startswith("airflow-provider-assistant")]
    assert __version__ in provider.split()
    [hook] = [line.split() for line in hooks.splitlines() if line.startswith("assistant ")]
    assert hook[1] == f"{PACKAGE}.hooks.assistant.AssistantHook"
    assert "airflow assistant [-h] COMMAND" in run(python, "-m", "airflow", "assistant", "--help", home=home)


@pytest.mark.slow
def test_airflow_shows_where_the_documentation_is(home: Path, python: Path) -> None:
    command = ("providers", "get", "airflow-provider-assistant", "--full", "--output", "json")
    shown = run(python, "-m", "airflow", *command, home=home)
    assert DOCUMENTATION in shown


@pytest.mark.slow
def test_airflow_offers_the_example_dags_and_parses_them_there(home: Path, python: Path) -> None:
    script = """
import json
from pathlib import Path
from airflow.dag_processing.bundles.manager import DagBundlesManager
from airflow.dag_processing.dagbag import DagBag
manager = DagBundlesManager()
bundle = manager.get_bundle("airflow-provider-assistant-example-dags")
bag = DagBag(bundle.path, bundle_path=bundle.path, bundle_name=bundle.name)
assert bag.import_errors == {}, bag.import_errors
upload = bag.dags["assistant_knowledge_base"].get_task("upload_guides")
assert sorted(path.name for path in Path(upload.files).iterdir()), upload.files
assert Path(bag.dags["assistant_evaluation"].get_task("ask").source).read_bytes()
print(json.dumps(sorted(bag.dags)))
"""
    shown = run(python, "-c", script, home=home, more={"AIRFLOW__CORE__LOAD_EXAMPLES": "True"})
    assert json.loads(shown.splitlines()[-1]) == sorted(path.stem for path in (ROOT / "dags").glob("*.py"))


@pytest.mark.slow
def test_every_module_imports_without_extras(home: Path, python: Path) -> None:
    # The parsers run in a process that starts only if their libraries are installed.
    script = f"""
import importlib, importlib.util, pkgutil, {PACKAGE} as package
assert "site-packages" in package.__file__, package.__file__
assert not importlib.util.find_spec("pandas")
parsers = ["{PACKAGE}.parsing." + name for name in ("html_markdown", "rst", "word_xml")]
for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
    if not module.name.endswith("__main__") and module.name not in parsers:
        importlib.import_module(module.name)
"""
    run(python, "-c", script, home=home)


@pytest.mark.slow
def test_the_embedded_service_starts_from_the_wheel(home: Path, python: Path) -> None:
    assert "--processing-seconds" in run(python, "-m", f"{PACKAGE}.sandbox", "--help", home=home)


@pytest.mark.slow
def test_what_was_installed_fits_together(home: Path, python: Path) -> None:
    run(sys.executable, "-m", "uv", "pip", "check", "--python", python, home=home)
