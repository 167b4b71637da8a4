"""
Write the entry of the Apache Airflow Provider Registry from the provider's metadata.

``python docs/site/registry.py`` writes it to ``.airflow-registry.yaml`` in the root of the repository.
"""

from __future__ import annotations

import importlib
import json
import tomllib
from pathlib import Path
from types import ModuleType

from airflow_provider_assistant.provider_info import get_provider_info

ROOT = Path(__file__).parents[2]
ENTRY = ROOT / ".airflow-registry.yaml"


def written() -> str:
    """Return the text of the entry."""
    info = get_provider_info()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    [integration] = info["integrations"]
    head = {
        "package-name": info["package-name"],
        "display-name": info["name"],
        "description": info["description"],
        "logo": integration["logo"],
        "docs-url": project["urls"]["Documentation"],
        "source-url": project["urls"]["Source"],
    }
    lines = [
        "# Metadata for the Apache Airflow Provider Registry. `python docs/site/registry.py` writes this file.",
        *(f"{key}: {json.dumps(value)}" for key, value in head.items()),
    ]
    for kind in ("operators", "sensors", "hooks", "triggers"):
        lines += ["", f"{kind}:"]
        names = [name for group in info[kind] for name in group["python-modules"]]
        if kind == "operators":
            names += [transfer["python-module"] for transfer in info["transfers"]]
        for thing in classes([importlib.import_module(name) for name in names]):
            purpose = (thing.__doc__ or "").strip().splitlines()[0].replace("``", "`")
            lines += [f"  - module: {thing.__module__}.{thing.__name__}", f"    description: {json.dumps(purpose)}"]
    return "\n".join(lines) + "\n"


def classes(modules: list[ModuleType]) -> list[type]:
    """Return the public classes of these modules, without base classes of other classes."""
    found = [
        thing
        for module in modules
        for name, thing in vars(module).items()
        if isinstance(thing, type) and thing.__module__ == module.__name__ and not name.startswith("_")
    ]
    return [thing for thing in found if not any(thing in other.__mro__[1:] for other in found)]


if __name__ == "__main__":
    ENTRY.write_text(written())
