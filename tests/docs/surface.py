"""Commands and HTTP routes as Markdown, from the program of the command line and from the OpenAPI document."""

import json
from collections.abc import Iterator
from typing import Any

from typer.main import get_command

from tests.api.documented import document
from toolwright.cli.commands import cli

Part = dict[str, Any]  # JSON
METHODS = ("get", "post", "put", "patch", "delete")


def commands() -> Iterator[str]:
    """Yield a section for each command: its usage, what it does, its arguments and options."""
    yield from command(get_command(cli), "toolwright")


def command(item: Any, name: str) -> Iterator[str]:  # Any: typer's own class of commands
    if getattr(item, "commands", None):
        for part, inner in item.commands.items():
            yield from command(inner, f"{name} {part}")
        return
    arguments = [each for each in item.params if each.param_type_name == "argument"]
    options = [each for each in item.params if each.param_type_name == "option" and each.help]
    usage = " ".join([name, *(argument(each) for each in arguments), *(["[OPTIONS]"] if options else [])])
    yield f"## `{name}`"
    yield f"```text\n{usage}\n```"
    yield item.help
    lines = [f"- `{each.metavar}`: {each.help}" for each in arguments if each.help]
    lines += [f"- `{option(each)}`: {each.help}{default(each)}" for each in options]
    if lines:
        yield "\n".join(lines)


def argument(item: Any) -> str:
    return item.metavar if item.required or item.metavar.startswith("[") else f"[{item.metavar}]"


def option(item: Any) -> str:
    names = ", ".join(item.opts)
    return names if item.is_flag else f"{names} {item.metavar or item.name.upper()}"


def default(item: Any) -> str:
    if item.is_flag or item.default in (None, (), ""):
        return ""
    return f" Default: {item.default}."


def routes() -> Iterator[str]:
    """Yield a section for each group of routes, and one with the objects that they read and return."""
    whole = document().whole
    groups = dict[str, list[str]]()
    for path, item in whole["paths"].items():
        for method in METHODS:
            if method in item:
                operation = item[method]
                groups.setdefault(operation["tags"][0], []).extend(route(method, path, operation))
    for group, lines in groups.items():
        yield f"## {group}"
        yield from lines
    yield "## Objects"
    for name, schema in whole["components"]["schemas"].items():
        yield f"### {name}"
        if "description" in schema:
            yield one_line(schema["description"])
        yield "\n".join(fields(schema)) or f"`{kind(schema)}`"


def route(method: str, path: str, operation: Part) -> Iterator[str]:
    yield f"### `{method.upper()} {path}`"
    yield one_line(operation["description"])
    lines = [
        f"- {each['in']} `{each['name']}: {kind(each['schema'])}`{described(each)}"
        for each in operation.get("parameters", [])
        if each["in"] != "path"
    ]
    lines += [f"- body: {content(operation['requestBody'])}"] if "requestBody" in operation else []
    lines += [
        f"- {status}: {' '.join(filter(None, [one_line(response['description']), content(response)]))}"
        for status, response in operation["responses"].items()
        if status < "400"
    ]
    yield "\n".join(lines)


def content(part: Part) -> str:
    """Return the types of a body, each with its schema if it has one."""
    return ", ".join(
        f"`{kind(each['schema'])}`" if media == "application/json" and "schema" in each else f"`{media}`"
        for media, each in part.get("content", {}).items()
    )


def fields(schema: Part) -> Iterator[str]:
    required = schema.get("required", [])
    for name, each in schema.get("properties", {}).items():
        yield f"- `{name}{'' if name in required else '?'}: {kind(each)}`{described(each)}"


def described(part: Part) -> str:
    return f": {one_line(part['description'])}" if "description" in part else ""


def kind(schema: Part) -> str:
    """Return the type of a schema in the notation of Python's annotations."""
    options: list[Part] = schema.get("anyOf") or schema.get("oneOf") or schema.get("allOf") or []
    if options:
        return " | ".join(dict.fromkeys(map(kind, options)))
    if "$ref" in schema:
        return schema["$ref"].rpartition("/")[2]
    if "const" in schema or "enum" in schema:
        values: list[object] = schema.get("enum") or [schema["const"]]
        return " | ".join(map(json.dumps, values))
    if "items" in schema:
        return f"list[{kind(schema['items'])}]"
    if schema.get("additionalProperties"):
        return f"dict[string, {kind(schema['additionalProperties'])}]"
    types: str | list[str] = schema.get("type", "any")
    return types if isinstance(types, str) else " | ".join(types)


def one_line(text: str) -> str:
    return " ".join(text.split())
