"""What a Google docstring says of a function and of its parameters."""

import inspect
import re

_SECTION = re.compile(r"^(Args|Arguments|Parameters|Params|Keyword Args|Keyword Arguments):\s*$")
_HEADING = re.compile(r"^[A-Z][A-Za-z ]*:\s*$")
_ENTRY = re.compile(r"^\*{0,2}(?P<name>\w+)\s*(?:\([^)]*\))?\s*:\s*(?P<text>.*)$")


def first_paragraph(doc: str | None) -> str:
    """The first paragraph on one line; empty if there is none."""
    lines: list[str] = []
    for line in inspect.cleandoc(doc or "").splitlines():
        if not line.strip() or _HEADING.match(line):
            break
        lines.append(line.strip())
    return " ".join(lines)


def parameter_descriptions(doc: str | None) -> dict[str, str]:
    """Parameter name → its description on one line, from the sections `Args:` and their like."""
    found: dict[str, str] = {}
    inside, indent, name = False, -1, ""
    for line in inspect.cleandoc(doc or "").splitlines():
        text = line.strip()
        if line and not line[0].isspace():
            inside, indent, name = bool(_SECTION.match(line)), -1, ""
            continue
        if not inside or not text:
            continue
        depth = len(line) - len(line.lstrip())
        indent = depth if indent < 0 else indent
        entry = _ENTRY.match(text) if depth <= indent else None
        if entry:
            name = entry["name"]
            found[name] = entry["text"].strip()
        elif name:
            found[name] = f"{found[name]} {text}".strip()
    return {key: text for key, text in found.items() if text}
