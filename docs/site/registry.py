"""
Write the entry of the Apache Airflow Provider Registry from the provider's metadata.

``python -m tests.docs.generated`` writes it to ``.airflow-registry.yaml`` in the root of the repository.
"""

from __future__ import annotations

import importlib
import json
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

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
        "# Metadata for the Apache Airflow Provider Registry. `python -m tests.docs.generated` writes this file.",
        *(f"{key}: {json.dumps(value)}" for key, value in head.items()),
    ]
    for kind in ("operators", "transfers", "sensors", "hooks", "triggers"):
        lines += ["", f"{kind}:"]
        for cls in classes([importlib.import_module(name) for name in modules_of(info, kind)]):
            purpose = (cls.__doc__ or "").strip().splitlines()[0].replace("``", "`")
            lines += [f"  - module: {cls.__module__}.{cls.__name__}", f"    description: {json.dumps(purpose)}"]
    return "\n".join(lines) + "\n"


def modules_of(info: dict[str, Any], kind: str) -> list[str]:
    """Return the modules that the provider declares for a kind of class, such as ``operators``."""
    if kind == "transfers":
        return [group["python-module"] for group in info[kind]]
    return [name for group in info[kind] for name in group["python-modules"]]


def classes(modules: list[ModuleType]) -> list[type]:
    """Return the public classes of these modules, without base classes of other classes."""
    found = [
        cls
        for module in modules
        for name, cls in vars(module).items()
        if isinstance(cls, type) and cls.__module__ == module.__name__ and not name.startswith("_")
    ]
    return [cls for cls in found if not any(cls in other.__mro__[1:] for other in found)]
