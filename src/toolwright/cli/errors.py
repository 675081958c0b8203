"""`toolwright errors`: what the reference says about the code of an error."""

import difflib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from toolwright.cli.output import Refusal, print_table

_ROW = re.compile(r"^\| `(\w+)` \|(.*)\|$", re.MULTILINE)
_LINK = re.compile(r"\[([^]]+)\]\([^)]*\)")
REFERENCE = Path(__file__).parents[1] / "docs" / "reference" / "errors.md"
"""The page of the reference. `docs` is a link in the checkout, a copy in an installed package."""


class Explanation(NamedTuple):
    """Entry of the reference: the exception and HTTP status of a code, if it has one, its cause, a remedy."""

    exception: str
    cause: str
    remedy: str


def explanations() -> Mapping[str, Explanation]:
    """Return the rows of the reference by code."""
    page = REFERENCE.read_text(encoding="utf-8")
    rows: dict[str, Explanation] = {}
    for code, row in _ROW.findall(_LINK.sub(r"\1", page)):
        *exception, cause, remedy = [cell.strip() for cell in row.split("|")]
        rows[code] = Explanation(", HTTP ".join(exception).replace("`", ""), cause, remedy)
    return rows


def explain(code: str | None) -> None:
    """Print the cause of a code and what to do, or all codes with their causes."""
    rows = explanations()
    if code is None:
        print_table(("code", "cause"), [(each, row.cause) for each, row in rows.items()])
        return
    row = rows.get(code)
    if row is None:
        close = difflib.get_close_matches(code, rows, n=1)
        meant = f" Did you mean {close[0]!r}?" if close else ""
        raise Refusal(f"There is no error code {code!r}.{meant} `toolwright errors` lists all codes.")
    exception = f" ({row.exception})" if row.exception else ""
    print(f"{code}{exception}: {row.cause}\nWhat to do: {row.remedy}")
