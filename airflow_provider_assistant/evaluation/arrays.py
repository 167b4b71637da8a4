"""Arrays of numbers. Only modules that evaluate import this one: the extra ``evaluation`` installs numpy."""

from __future__ import annotations

from typing import TypeAlias

from airflow_provider_assistant.exceptions import AssistantInputError

try:
    import numpy as np
    from numpy.typing import NDArray
except ImportError as error:
    raise AssistantInputError(
        "numpy is not installed", todo="Run pip install 'airflow-provider-assistant[evaluation]'."
    ) from error

__all__ = ["Bools", "Floats", "Integers", "np"]

Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]
