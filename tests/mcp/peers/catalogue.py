"""The names of all peers, and the module of each; its docstring describes its behaviour."""

from importlib import import_module
from typing import Literal, TypeAlias

Where: TypeAlias = Literal["both", "stdio"]

SDK: dict[str, tuple[str, ...]] = {
    "lists": (
        "plain", "many_tools", "many_pages", "endless_pages", "cursor_loop", "empty_pages", "huge_list",
        "huge_schema", "wrong_schemas", "right_schemas", "wrong_tools", "odd_names", "duplicate_names",
        "builtin_names", "hints", "changing_tools", "changing_definition", "restless",
    ),
    "results": (
        "results", "huge_results", "slow", "hangs_at_list", "hangs_at_call", "progress", "progress_flood",
        "log_flood", "protocol_errors", "headers", "counts_calls",
    ),
    "questions": ("elicits", "elicits_for_ever", "elicits_at_once", "samples", "asks_unknown"),
    "tasks": ("tasks", "tasks_of_2025"),
}  # fmt: skip
"""Built with the SDK: over HTTP, SSE and stdio, in both revisions or in one."""

WIRE: dict[str, tuple[str, ...]] = {
    "wire": (
        "polite_bare", "refuses", "refuses_calls", "tells_token", "hangs_at_connect", "hangs_at_greeting",
        "server_errors", "no_mcp", "redirects", "wrong_json", "wrong_json_result", "no_utf8", "deep_list",
        "deep_result", "wrong_id", "text_id", "answers_twice", "dies_in_call", "dies_in_answer", "drips",
        "endless_answer", "bare_flood", "unknown_methods", "no_messages", "unknown_revision",
        "asks_late",
    ),
}  # fmt: skip
"""Built without the SDK: over HTTP and stdio."""

PROCESSES: dict[str, tuple[str, ...]] = {
    "processes": (
        "junk_on_stdout", "junk_on_stderr", "long_line", "ignores_sigterm", "forks_a_child", "closes_stdin",
        "closes_stdout", "exits",
    ),
}  # fmt: skip
"""Over stdio alone."""

MODULES = {
    name: module for part in (SDK, WIRE, PROCESSES) for module, names in part.items() for name in names
}
NAMES_SDK = tuple(name for names in SDK.values() for name in names)
NAMES_WIRE = tuple(name for names in WIRE.values() for name in names)
NAMES_PROCESSES = tuple(name for names in PROCESSES.values() for name in names)


def module_of(name: str) -> str:
    """Return the module with the function that creates the peer. Raises KeyError for an unknown name."""
    return f"tests.mcp.peers.{MODULES[name]}"


def says(name: str) -> str:
    """Return the description of the peer."""
    return str(getattr(import_module(module_of(name)), name).__doc__)
