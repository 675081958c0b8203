"""Components of the console that render the calls of a visible tool, found by its name (S3)."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal, Protocol, TypeAlias, overload

from toolwright.core.errors import DefinitionError
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.results import AttachmentRef
from toolwright.core.value import Value

Component: TypeAlias = Literal[
    "confirmation", "form", "choice", "chart", "table", "image", "file", "progress", "json"
]
"""The built-in components of the console."""
COMPONENTS: tuple[Component, ...] = (
    "confirmation", "form", "choice", "chart", "table", "image", "file", "progress", "json",
)  # fmt: skip


class ShownCall(Value):
    """A tool call, as passed to a component that draws it.

    `args` are the arguments; while `status` is `streaming`, they are the arguments parsed so far. A call that
    `requires_action` waits for a result; `may_answer` is true if the viewer may submit it. `schema` is the tool's input
    schema if known, `progress` the reported progress: done, total and text.
    """

    id: str
    name: str
    args: JSON
    status: Literal["streaming", "running", "requires_action", "complete", "error"]
    result: JSON = None
    error: str | None = None
    schema: JSONObject | None = None
    attachments: Sequence[AttachmentRef] = ()
    progress: tuple[float, float | None, str] | None = None
    may_answer: bool = False
    run_id: str | None = None
    thread_id: str | None = None


class Submit(Protocol):
    """Submits the result of the drawn call: a JSON value, or an error message."""

    async def __call__(self, result: JSON = None, *, error: str | None = None) -> bool:
        """Submit a result. Returns whether it was accepted; if not, the page shows the reason."""
        ...


Drawing: TypeAlias = Callable[[ShownCall, Submit], Awaitable[None] | None]
"""Draws a call with NiceGUI at the current place of the page; called again whenever the call has changed."""


class ToolUI(Value, gc=True):
    """The component of a tool: a function, or the name of a built-in component."""

    name: str
    component: Drawing | Component


@overload
def tool_ui(name: str) -> Callable[[Drawing], ToolUI]: ...


@overload
def tool_ui(name: str, component: Component) -> ToolUI: ...


def tool_ui(name: str, component: Any = None) -> Any:  # see the overloads
    """Return the component that renders calls of the tool `name` in the console, for `tw.App(tool_uis=[…])`.

    As a decorator it takes a function, sync or async, of the `ShownCall` and `submit`; with a second argument it is one
    of the built-in components. Raises `DefinitionError` for an unknown component.
    """
    if not isinstance(name, str) or not name.strip():  # pyright: ignore[reportUnnecessaryIsInstance]  # Python does not check
        raise DefinitionError(f"tool_ui needs the name of a tool, not {name!r}.")
    if component is not None:
        return ToolUI(name=name, component=_checked(name, component))

    def made(drawing: Drawing) -> ToolUI:
        return ToolUI(name=name, component=_checked(name, drawing))

    return made


def _checked(name: str, component: Any) -> Any:  # any value from the caller
    if isinstance(component, str) and component not in COMPONENTS:
        components = ", ".join(map(repr, COMPONENTS))
        raise DefinitionError(
            f"The console has no component {component!r} for {name!r}: it has {components}."
        )
    if not isinstance(component, str) and not callable(component):
        raise DefinitionError(f"The component of {name!r} must be a function or a name, not {component!r}.")
    return component


def checked_tool_uis(tool_uis: Sequence[Any]) -> tuple[ToolUI, ...]:  # any value from the caller
    """Return the components of an app.

    Raises `DefinitionError` for an invalid component, and for two components of one tool.
    """
    if not isinstance(tool_uis, (list, tuple)):
        raise DefinitionError("App: tool_uis must be a list of components, as tw.tool_ui makes them.")
    uis: list[ToolUI] = []
    for each in tool_uis:
        if not isinstance(each, ToolUI):
            raise DefinitionError(
                f"App: tool_uis has {each!r}, which is not a component. Create components with tw.tool_ui."
            )
        if any(other.name == each.name for other in uis):
            raise DefinitionError(f"App: the tool {each.name!r} has two components. Keep one.")
        uis.append(each)
    return tuple(uis)
