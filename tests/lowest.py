"""
The declared lower bounds as pins: ``python -m tests.lowest``.

uv's ``--resolution lowest-direct`` is not enough: where a transitive dependency needs a newer version of a direct one,
uv takes the newer one, and the declared bound is not tested. A pin makes the installation fail instead.
"""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path

from packaging.requirements import Requirement

PYPROJECT = Path(__file__).parents[1] / "pyproject.toml"
# Extras that users install; `docs` and `dev` are for work on the package itself.
EXTRAS = ("evaluation", "files", "judge", "pandas", "sandbox", "warehouse", "website")


@cache
def declared() -> dict[str, list[Requirement]]:
    """Return the declared dependencies by extra; those of the package itself are under an empty name."""
    project = tomllib.loads(PYPROJECT.read_text())["project"]
    extras = project["optional-dependencies"]
    groups = {"": project["dependencies"], **{extra: extras[extra] for extra in EXTRAS}}
    return {extra: [Requirement(line) for line in lines] for extra, lines in groups.items()}


def lower_bound(requirement: Requirement) -> str:
    """Return the lowest version that a requirement accepts."""
    (bound,) = (specifier.version for specifier in requirement.specifier if specifier.operator == ">=")
    return bound


def main() -> None:
    """Print the pins, one per line."""
    requirements = [requirement for group in declared().values() for requirement in group]
    print("\n".join(sorted({f"{requirement.name}=={lower_bound(requirement)}" for requirement in requirements})))


if __name__ == "__main__":
    main()
