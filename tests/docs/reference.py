"""Generator of the reference: docstrings, commands and routes as Markdown, between the markers of its pages.

`make reference` writes the pages. A marker (`<!-- toolwright.Agent -->`, `<!-- commands -->`, `<!-- routes -->`) is
followed by its entries, up to `<!-- end -->`. The rest of a page is written by hand.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import griffe

from tests.docs.surface import commands, one_line, routes

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference"
ENTRY = re.compile(
    r"<!-- (?P<name>toolwright[\w.]*|commands|routes) -->\n(?:.*?\n)??<!-- end -->\n", re.DOTALL
)
WIDTH = 100  # characters of a signature in one line
CITATION = re.compile(r" \((?:D|S|decision )\d[^)]*\)")
"""A docstring's reference to a design document, which readers do not have."""
INIT_ONLY = re.compile(r"^InitVar\[(.*)\]$")
SURFACES = {"commands": commands, "routes": routes}
NOT_CREATED = "toolwright.runtime."
"""Users get these objects from an open app and never create them."""
HIDDEN = {"model_config", "model_post_init", "STORED"}


def generated(page: str) -> str:
    """Return the page's text with the entries of all its markers."""

    def entry(marker: re.Match[str]) -> str:
        level = 3 if re.search(r"^## ", ENTRY.sub("", page[: marker.start()]), re.MULTILINE) else 2
        text = "\n\n".join(entry_of(marker["name"], level))
        return f"<!-- {marker['name']} -->\n\n{text}\n\n<!-- end -->\n"

    return ENTRY.sub(entry, page)


def documented(page: str) -> set[str]:
    """Return the names of classes, attributes and functions with an entry in the page, by their canonical paths."""
    names = [marker["name"] for marker in ENTRY.finditer(page)]
    return {path for name in names if name not in SURFACES for path in paths_of(target(name))}


def paths_of(item: griffe.Object) -> Iterator[str]:
    yield item.path
    if isinstance(item, griffe.Class | griffe.Module):
        for member in members(item):
            yield from paths_of(member)


_packages = griffe.ModulesCollection()


def target(name: str) -> griffe.Object:
    """Return the class, function or module with this name, wherever it is defined."""
    if "toolwright" not in _packages:
        griffe.load(
            "toolwright", search_paths=[ROOT / "src"], docstring_parser="google", modules_collection=_packages,
            resolve_aliases=True, resolve_external=False,
        )  # fmt: skip
    return resolved(_packages[name])


def resolved(item: griffe.Object | griffe.Alias) -> griffe.Object:
    return item.final_target if isinstance(item, griffe.Alias) else item


def members(owner: griffe.Class | griffe.Module) -> list[griffe.Object]:
    """Return the public members of the class or module, in the order of the source.

    Those of a module are the classes and functions that it exports, or defines if it has no `__all__`.
    """
    if isinstance(owner, griffe.Class):
        shown = [each for each in owner.members.values() if not each.is_alias]
    elif owner.exports:
        shown = [owner.members[str(name)] for name in owner.exports]
    else:
        shown = [each for each in owner.members.values() if not each.is_alias and not each.is_attribute]
    rows = [resolved(each) for each in shown if not each.name.startswith("_") and each.name not in HIDDEN]
    return [each for each in rows if each.name != "of" or "classmethod" not in each.labels]  # `Shape.of`


def entry_of(name: str, level: int) -> Iterator[str]:
    """Yield the paragraphs of an entry. A module has the entries of its classes and functions."""
    if name in SURFACES:
        yield from SURFACES[name]()
        return
    item = target(name)
    if isinstance(item, griffe.Module):
        for member in members(item):
            yield from entry(member, member.name, level)
    else:
        yield from entry(item, name.rpartition(".")[2], level)


def entry(item: griffe.Object, name: str, level: int) -> Iterator[str]:
    yield f"{'#' * level} `{name}`"
    signature = signature_of(item, name)
    if signature:
        yield f"```python\n{signature}\n```"
    sections = item.docstring.parsed if item.docstring else []
    described = dict[str, str]()
    for section in sections:
        match section:
            case griffe.DocstringSectionAttributes():
                described |= {each.name: uncited(each.description) for each in section.value}
            case _:
                yield from paragraphs(section)
    if not isinstance(item, griffe.Class):
        return
    fields = [each for each in members(item) if isinstance(each, griffe.Attribute)]
    lines = [field_line(each, described.pop(each.name, ""), default=not signature) for each in fields]
    lines += [f"- `{name}`: {text}" for name, text in described.items()]
    if lines:
        yield "\n".join(lines)
    for member in members(item):
        if isinstance(member, griffe.Function | griffe.Class):
            yield from entry(member, f"{name}.{member.name}", level + 1)


def field_line(item: griffe.Attribute, text: str, *, default: bool) -> str:
    assigned = assigned_type(item)
    kind = plain_type(str(item.annotation)) if item.annotation else assigned
    value = "" if assigned or item.value is None or "property" in item.labels else f" = {item.value}"
    is_set_by_init = "instance-attribute" in item.labels and "class-attribute" not in item.labels
    if not default or is_set_by_init or len(value) > WIDTH or "ield(" in value:
        value = ""
    text = uncited(item.docstring.value) if item.docstring else text
    return f"- `{item.name}{f': {kind}' if kind else ''}{value}`" + (f": {text}" if text else "")


def plain_type(annotation: str) -> str:
    """Return the type without its markers: `X` for `Annotated[X, …]`, `X | None` for `Absent[X]`."""
    kind = ast.parse(annotation, mode="eval").body
    match kind:
        case ast.Subscript(value=ast.Name("Annotated"), slice=ast.Tuple(elts=[inner, *_])):
            return plain_type(ast.unparse(inner))
        case ast.Subscript(value=ast.Name("Absent"), slice=inner):
            return f"{plain_type(ast.unparse(inner))} | None"
        case _:
            return annotation


def assigned_type(item: griffe.Attribute) -> str:
    """Return the type of an attribute that `__init__` sets to its argument or to a new object, or an empty text."""
    init = item.parent.members.get("__init__") if item.parent else None
    if not isinstance(init, griffe.Function) or "instance-attribute" not in item.labels:
        return ""
    value = str(item.value)
    if value in init.parameters:
        return str(init.parameters[value].annotation or "")
    created = re.match(r"([A-Z]\w*)\(", value)
    return created[1] if created else ""


def paragraphs(section: griffe.DocstringSection) -> Iterator[str]:
    match section:
        case griffe.DocstringSectionText():
            yield CITATION.sub("", section.value)
        case griffe.DocstringSectionParameters() | griffe.DocstringSectionOtherParameters():
            yield "\n".join(f"- `{each.name}`: {uncited(each.description)}" for each in section.value)
        case griffe.DocstringSectionRaises():
            yield "\n".join(
                [
                    "Raises:",
                    "",
                    *(f"- `{each.annotation}`: {uncited(each.description)}" for each in section.value),
                ]
            )
        case griffe.DocstringSectionReturns() | griffe.DocstringSectionYields():
            verb = section.kind.value.capitalize()
            yield f"{verb}: " + " ".join(uncited(each.description) for each in section.value)
        case griffe.DocstringSectionAdmonition():
            yield f"**{section.title}** {uncited(section.value.description)}"
        case _:
            raise TypeError(f"There is no rendering of the section {section.kind.value!r}.")


def uncited(text: str) -> str:
    """Return the text as one line, without references to design documents."""
    return CITATION.sub("", one_line(text))


def signature_of(item: griffe.Object, name: str) -> str:
    """Return the declaration as it is called, without `self`, or an empty text for a class without a constructor."""
    match item:
        case griffe.Function():
            parameters, returns = item.parameters, item.returns
            name = f"{'async ' if 'async' in item.labels else ''}{name}"
        case griffe.Class() if "__init__" in item.members and not item.path.startswith(NOT_CREATED):
            parameters, returns = item.parameters, None
        case _:
            return ""
    shown = list(shown_parameters(parameters))
    end = ")" if returns is None else f") -> {returns}"
    line = f"{name}({', '.join(shown)}{end}"
    if len(line) <= WIDTH:
        return line
    return "\n".join([f"{name}(", *(f"    {each}," for each in shown), end])


def shown_parameters(parameters: griffe.Parameters) -> Iterator[str]:
    star = False
    for each in parameters:
        if each.name in ("self", "cls") or each.name.startswith("_"):
            continue
        if each.kind is griffe.ParameterKind.keyword_only and not star:
            star = True
            yield "*"
        match each.kind:
            case griffe.ParameterKind.var_positional:
                prefix = "*"
            case griffe.ParameterKind.var_keyword:
                prefix = "**"
            case _:
                prefix = ""
        star = star or prefix == "*"
        annotation = INIT_ONLY.sub(r"\1", str(each.annotation or ""))
        kind = f": {annotation}" if annotation else ""
        default = "" if each.default is None or prefix else f"{' = ' if kind else '='}{each.default}"
        yield f"{prefix}{each.name}{kind}{default}"


def main() -> None:
    for page in sorted(REFERENCE.glob("*.md")):
        page.write_text(generated(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
