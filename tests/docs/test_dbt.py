"""The models of dbt/ are those of the package. `make dbt` runs them."""

from __future__ import annotations

import re

from tests.dbt import generate
from tests.docs.pages import ROOT, section, table

PAGE = "docs/export/dbt.md"


def test_the_generated_models_are_up_to_date():
    folders = (generate.PROJECT / generate.STAGING, generate.PROJECT / generate.MARTS)
    files = [path for folder in folders for path in folder.iterdir()]
    texts = {str(path.relative_to(generate.PROJECT)): path.read_text("utf-8") for path in files}
    assert texts == generate.generated(), f"{generate.COMMAND} writes them"


def test_every_dataset_and_view_has_a_key():
    # Two findings may be equal.
    assert set(generate.DATASETS) - set(generate.DATASET_KEYS) == {"findings"}
    assert set(generate.VIEW_KEYS) == set(generate.VIEWS)


def test_the_page_names_every_mart():
    rows = table(section(PAGE, "What the models answer"))
    marts = [f"assistant__{view}" for view in generate.VIEWS]
    assert sorted(row["Model"].strip("`") for row in rows) == sorted(marts)


def test_the_page_names_the_tested_versions():
    versions = re.findall(r"dbt-\w+==[\d.]+", (ROOT / "Makefile").read_text())
    page = (ROOT / "docs/reference/compatibility.md").read_text()
    assert len(versions) == 3
    assert not [version for version in versions if version.replace("==", " ") not in page]
