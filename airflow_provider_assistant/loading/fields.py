"""The columns of a source that become the fields of a document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from airflow_provider_assistant.api.payloads import Payload
from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.tables import Columns


def mapping_of(
    payload: type[Payload], columns: Mapping[str, str] | None, constants: Mapping[str, str] | None
) -> dict[str, str]:
    """
    Return the column of each field that varies by row, that is, of each field without a constant.

    :param columns: Mapping of a field to its column, for columns that are not named like their field.
    :param constants: Mapping of a field to its value for all rows.
    :raises AssistantInputError: A field does not exist or is in both mappings, or a constant is not a non-empty string.
    """
    columns = columns or {}
    constants = constants or {}
    fields = payload.model_fields
    if unknown := sorted({*columns, *constants} - set(fields)):
        todo = f"A {payload.__name__} has {', '.join(fields)}."
        swapped = {columns[name]: name for name in unknown if columns.get(name) in fields}
        if swapped:
            todo = f"columns maps fields to columns: set columns={swapped!r}."
        raise AssistantInputError(
            f"columns or constants contain unknown fields: {', '.join(unknown)}", todo=todo, field="columns"
        )
    if both := sorted(set(columns) & set(constants)):
        raise AssistantInputError(
            f"{', '.join(both)} given in both columns and constants", todo="Remove one of them.", field="columns"
        )
    for field, value in constants.items():
        if not isinstance(value, str) or not value.strip():
            raise AssistantInputError(f"constants: {field} must be a non-empty string", field="constants")
    return {field: columns.get(field, field) for field in fields if field not in constants}


def columns_to_read(payload: type[Payload], columns: Mapping[str, str], key_columns: Sequence[str]) -> Columns:
    """
    Return the required, optional and key columns to read from a source.

    :param columns: Column of each field, see :func:`mapping_of`.
    """
    required: list[str] = []
    for field, column in columns.items():
        # A column that the user named is required even if its field is optional.
        if column != field or payload.model_fields[field].is_required():
            required.append(column)
    optional = [column for column in columns.values() if column not in required]
    return Columns(
        required=tuple(dict.fromkeys([*required, *key_columns])),
        optional=tuple(optional),
        texts=frozenset(columns.values()),
    )
