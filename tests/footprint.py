"""
What the package adds to an installation of Airflow: ``python -m tests.footprint``.

Asked of the environment that it runs in, without a network: the closure of the package's requirements, less the
closure of Airflow's own.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
MEGA = 1_000_000


@dataclass(frozen=True)
class Footprint:
    """
    What is new.

    :param direct: Requirements of the package itself that Airflow does not bring.
    :param sizes: Bytes of every new distribution, with what the direct ones require.
    :param own: Bytes of the package.
    """

    direct: list[str]
    sizes: dict[str, int]
    own: int


def requirements() -> list[Requirement]:
    """Return the runtime dependencies that are declared."""
    return [
        Requirement(said) for said in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    ]


def closure(*wanted: Requirement) -> dict[str, Distribution]:
    """Return every installed distribution that these requirements bring, by name."""
    found: dict[tuple[str, frozenset[str]], Distribution] = {}
    todo = list(wanted)
    while todo:
        requirement = todo.pop()
        key = canonicalize_name(requirement.name), frozenset(requirement.extras)
        if key in found:
            continue
        found[key] = distribution(requirement.name)
        extras = sorted(requirement.extras) or [""]
        for said in found[key].requires or ():
            needed = Requirement(said)
            if needed.marker is None or any(needed.marker.evaluate({"extra": extra}) for extra in extras):
                todo.append(needed)
    return {name: dist for (name, _), dist in found.items()}


def footprint() -> Footprint:
    """Measure this environment."""
    airflow = closure(Requirement("apache-airflow"))
    new = {name: dist for name, dist in closure(*requirements()).items() if name not in airflow}
    package = [path for path in (ROOT / "airflow_provider_assistant").rglob("*") if path.is_file()]
    return Footprint(
        sorted(name for name in (canonicalize_name(said.name) for said in requirements()) if name in new),
        {name: sum(file.size or 0 for file in dist.files or ()) for name, dist in sorted(new.items())},
        sum(path.stat().st_size for path in package if "__pycache__" not in path.parts),
    )


def main() -> None:
    """Print it."""
    found = footprint()
    print(f"Declared and not brought by Airflow: {', '.join(found.direct)}")
    for name, size in found.sizes.items():
        print(f"{name:20} {size / MEGA:8.1f} MB")
    print(f"{'the package itself':20} {found.own / MEGA:8.1f} MB")


if __name__ == "__main__":
    main()
