"""Checks of a whole load before its first request: who owns its keys, and how much of the site it would change."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_provider_assistant.exceptions import AssistantInputError

# A load that would replace or abandon more than this share of its source's documents is rarely meant, once there are
# this many of them.
LARGEST_SHARE = 0.5
LEAST_DOCUMENTS = 50
LISTED = 3


def check_owner(source: str, foreign: Mapping[str, int]) -> None:
    """
    Refuse to replace documents of other sources.

    :param source: Name of the source that is loaded.
    :param foreign: Number of keys with other content that belong to each other source, by its name.
    :raises AssistantInputError: There are such keys.
    """
    if not foreign:
        return
    largest = sorted(foreign.items(), key=lambda one: (-one[1], one[0]))
    owners = ", ".join(f"{count} of source {name!r}" for name, count in largest[:LISTED])
    raise AssistantInputError(
        f"{sum(foreign.values())} keys belong to another source, with other content: {owners}; this is source "
        f"{source!r}. Nothing was sent. If this load was renamed, set source_name={largest[0][0]!r}; if these are "
        "different rows that share their keys, set a namespace; to take the keys over, set adopt=True for one run.",
        field="source_name",
    )


def check_extent(source: str, *, documents: int, changed: int, missing: int) -> None:
    """
    Refuse to replace or abandon most of what a source has on the site.

    :param source: Name of the source that is loaded.
    :param documents: Number of its documents on the site.
    :param changed: How many of them would be created again with other content.
    :param missing: How many of them are no longer in the source, and so would become stale.
    :raises AssistantInputError: These are more than half, and at least 50.
    """
    touched = changed + missing
    if touched < LEAST_DOCUMENTS or touched <= LARGEST_SHARE * documents:
        return
    raise AssistantInputError(
        f"{touched} of {documents} documents of source {source!r} would be replaced ({changed}) or become stale "
        f"({missing}). Nothing was sent. Check that the source is complete and that its key columns are those of "
        "earlier loads. If the change is meant, set allow_mass_change=True for one run; if the source has only what is "
        "new, set on_missing='ignore'.",
        field="source",
    )
