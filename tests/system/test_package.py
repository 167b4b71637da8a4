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
from pathlib import Path

import pytest
from packaging.metadata import Metadata

from airflow_provider_assistant import __version__
from airflow_provider_assistant.provider_info import DOCUMENTATION

pytestmark = pytest.mark.system

ROOT = Path(__file__).parents[2]
PACKAGE = "airflow_provider_assistant"
EXAMPLES = f"{PACKAGE}/example_dags"
# Generous limits: a slow package index must not look like a broken package.
DOWNLOADS = 600


def run(*command: str | Path, home: Path, **more: str) -> str:
    """Run a command without this environment's packages and Airflow. Fail if the command fails."""
    foreign = ("AIRFLOW", "_AIRFLOW", "PYTHON", "VIRTUAL_ENV")
    env = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    env |= {"AIRFLOW_HOME": str(home / "airflow"), **more}
    done = subprocess.run(
        [*map(str, command)], cwd=home, env=env, capture_output=True, text=True, timeout=DOWNLOADS, check=False
    )
    assert done.returncode == 0, f"{command}:\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    return done.stdout + done.stderr


def build(source: Path, folder: Path, home: Path, **more: str) -> tuple[Path, Path]:
    """Build the sdist, and the wheel from it."""
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, source, home=home, **more)
    [sdist], [wheel] = folder.glob("*.tar.gz"), folder.glob("*.whl")
    return sdist, wheel


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("package")


@pytest.fixture(scope="module")
def built(home: Path) -> tuple[Path, Path]:
    return build(ROOT, home / "dist", home)


@pytest.fixture(scope="module")
def wheel(built: tuple[Path, Path]) -> dict[str, bytes]:
    """The files of the wheel."""
    with zipfile.ZipFile(built[1]) as packed:
        return {name: packed.read(name) for name in packed.namelist()}


@pytest.fixture(scope="module")
def sdist(built: tuple[Path, Path]) -> dict[str, bytes]:
    """The files of the sdist, by their paths in the repository."""
    with tarfile.open(built[0]) as packed:
        files = {member.name.partition("/")[2]: packed.extractfile(member) for member in packed}
        return {name: file.read() for name, file in files.items() if file}


@pytest.fixture(scope="module")
def metadata(wheel: dict[str, bytes]) -> Metadata:
    [text] = [content for name, content in wheel.items() if name.endswith(".dist-info/METADATA")]
    return Metadata.from_email(text)  # raises an error where the rules of a package index are broken


@pytest.fixture(scope="module")
def python(home: Path, built: tuple[Path, Path]) -> Path:
    """The Python of an environment with the wheel and its dependencies."""
    run(sys.executable, "-m", "venv", "--without-pip", home / "venv", home=home)
    python = home / "venv" / "bin" / "python"
    wanted = ("install", "-c", ROOT / "constraints" / "airflow-3.3.txt", built[1])
    try:
        run(sys.executable, "-m", "uv", "pip", *wanted, "--python", python, home=home)
    except AssertionError:  # as in the Makefile: uv does not read pip's settings
        run(sys.executable, "-m", "pip", "--python", python, *wanted, home=home)
    return python


def test_the_wheel_has_the_package_and_nothing_else(wheel: dict[str, bytes]) -> None:
    [info] = {name.split("/")[0] for name in wheel} - {PACKAGE}
    code = [name for name in wheel if name.startswith(f"{PACKAGE}/") and not name.startswith(f"{EXAMPLES}/")]

    assert info.endswith(".dist-info")
    assert {Path(name).suffix for name in code} == {".css", ".j2", ".mjs", ".py", ".sql", ".typed"}
    assert {f"{PACKAGE}/py.typed", f"{PACKAGE}/operators/chat.py", f"{info}/licenses/LICENSE"} <= set(wheel)
    assert f"{PACKAGE}/evaluation/report.html.j2" in wheel
    assert {f"{PACKAGE}/ui/static/assistant.{kind}" for kind in ("css", "mjs")} <= set(wheel)


def test_the_wheel_has_the_example_dags_and_their_data(wheel: dict[str, bytes]) -> None:
    files = [path for path in (ROOT / "dags").rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    packed = {name: content for name, content in wheel.items() if name.startswith(f"{EXAMPLES}/")}

    assert packed == {f"{EXAMPLES}/{path.relative_to(ROOT / 'dags')}": path.read_bytes() for path in files}
    assert len(packed) > 10


@pytest.mark.promise("security", "The published files hold nothing of the machine that built them.")
def test_the_files_are_small_and_hold_nothing_of_this_machine(
    built: tuple[Path, Path], wheel: dict[str, bytes], sdist: dict[str, bytes]
) -> None:
    contents = {**wheel, **sdist}
    unwanted = r"__pycache__|\.py[co]$|\.DS_Store|(^|/)\.(env|venv|demo|ci|git)(/|$)"

    assert built[1].stat().st_size < 1.5e6
    assert built[0].stat().st_size < 5e6
    assert not [name for name in contents if re.search(unwanted, name)]
    assert not [name for name, content in contents.items() if os.fsencode(ROOT) in content]


def test_the_sdist_can_be_tested(sdist: dict[str, bytes]) -> None:
    hidden = {".airflow-registry.yaml", ".github/workflows/gate.yml", ".pre-commit-config.yaml"}
    documents = {"CHANGELOG.md", "LICENSE", "SECURITY.md", "README.md", "docs/index.md"}
    code = {f"{PACKAGE}/py.typed", "dags/assistant_smoke.py", "tests/conftest.py"}
    tools = {"Makefile", "constraints/airflow-3.3.txt", "pyproject.toml"}

    assert hidden | documents | code | tools <= set(sdist)


def test_an_index_accepts_the_metadata(metadata: Metadata) -> None:
    assert metadata.description_content_type == "text/markdown"
    assert metadata.license_files == ["LICENSE"]
    assert 0 < len(metadata.summary or "") < 200
    assert not [requirement for requirement in metadata.requires_dist or () if requirement.url]


def test_links_of_the_long_description_work_without_the_repository(metadata: Metadata) -> None:
    """Relative links of README become links to files of this version in the repository of pyproject.toml."""
    source = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]["Source"]
    links = re.findall(r"\]\(([^)]+)\)", metadata.description or "")
    here = [link.removeprefix(f"{source}/blob/v{__version__}/") for link in links if link.startswith(source)]

    assert all(link.startswith(("https://", "#")) for link in links)
    assert here
    assert not [path for path in here if not (ROOT / re.split("[#?]", path)[0]).exists()]


@pytest.mark.nightly
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
        files = build(source, home / f"dist{number}", home, **environment)
        builds.append({path.name: path.read_bytes() for path in files})

    assert builds[0] == builds[1]


@pytest.mark.promise("Airflow", "Airflow finds the provider, its hook, its commands and its example DAGs in the wheel.")
@pytest.mark.nightly
def test_airflow_in_an_empty_environment_sees_the_provider(home: Path, python: Path) -> None:
    def shown(*command: str) -> str:
        return run(python, "-m", "airflow", *command, home=home)

    [provider] = re.findall(
        "^airflow-provider-assistant.*", shown("providers", "list", "--output", "plain"), re.MULTILINE
    )
    [hook] = re.findall("^assistant .*", shown("providers", "hooks", "--output", "plain"), re.MULTILINE)
    assert __version__ in provider.split()
    assert hook.split()[1] == f"{PACKAGE}.hooks.assistant.AssistantHook"
    assert "airflow assistant [-h] COMMAND" in shown("assistant", "--help")
    assert DOCUMENTATION in shown("providers", "get", "airflow-provider-assistant", "--full", "--output", "json")


@pytest.mark.nightly
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
    shown = run(python, "-c", script, home=home, AIRFLOW__CORE__LOAD_EXAMPLES="True")
    assert json.loads(shown.splitlines()[-1]) == sorted(path.stem for path in (ROOT / "dags").glob("*.py"))


@pytest.mark.nightly
def test_every_module_imports_without_extras(home: Path, python: Path) -> None:
    # The parsers run in a process that starts only if their libraries are installed.
    script = f"""
import importlib, importlib.util, pkgutil, {PACKAGE} as package
assert "site-packages" in package.__file__, package.__file__
assert not importlib.util.find_spec("pandas")
names = "number_formats office pdf sheets slides word writer".split()
parsers = ["{PACKAGE}.parsing." + name for name in names]
for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
    if not module.name.endswith("__main__") and module.name not in parsers:
        importlib.import_module(module.name)
"""
    run(python, "-c", script, home=home)
    assert "--processing-seconds" in run(python, "-m", f"{PACKAGE}.sandbox", "--help", home=home)


@pytest.mark.nightly
def test_what_was_installed_fits_together(home: Path, python: Path) -> None:
    run(sys.executable, "-m", "uv", "pip", "check", "--python", python, home=home)
