"""Values to rows and back: the modules `rows_…` alone know how a value lies in its table.

A row is a sequence in the order of the table's columns.
"""

import json
from collections.abc import Sequence
from typing import Any, TypeAlias

from toolwright.core.json_value import JSON, JSONObject, dumps

Row: TypeAlias = Sequence[Any]  # a driver's row: its types are those of the table's columns
Params: TypeAlias = dict[str, "str | int | float | bool | None"]


def text_or_none(value: JSON) -> str | None:
    return None if value is None else dumps(value)


def object_or_none(text: str | None) -> JSONObject | None:
    return None if text is None else json.loads(text)
