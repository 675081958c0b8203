"""App: the declarations of a program, and its runtime."""

import inspect
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from copy import copy
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from toolwright.core.agents.agent import Agent
from toolwright.core.agents.catalog import Catalog
from toolwright.core.agents.prompt import Context, Env, Prompt
from toolwright.core.arguments.signature import Handler
from toolwright.core.checks import brief_value, check_kind, takes_one
from toolwright.core.concurrency import entered
from toolwright.core.dependencies.depends import Dependency, Function
from toolwright.core.dependencies.scope import overriding
from toolwright.core.errors import DefinitionError
from toolwright.core.hooks import Hooks
from toolwright.core.json_value import one_line, unwritable
from toolwright.core.mcp.offered import ResourceTemplate, mcp_permissions
from toolwright.core.model import EXAMPLE_MODEL, Model, check_model, is_model
from toolwright.core.ports import Embedder
from toolwright.core.tools.mcp import McpServer
from toolwright.core.tools.registry import Registry
from toolwright.core.tools.tool import Tool
from toolwright.core.tools.tool_ui import ToolUI, checked_tool_uis
from toolwright.core.tools.toolset import Toolset
from toolwright.wiring.settings import Settings

if TYPE_CHECKING:
    from toolwright.core.journal.store import Store
    from toolwright.core.ports import Clock, Motor
    from toolwright.runtime.runtime import Runtime
    from toolwright.wiring.parts import MemoryJournal


Lifespan: TypeAlias = Callable[[Any], AbstractAsyncContextManager[object]]
"""Returns the async context manager for a runtime of that app."""


def checked_lifespan(lifespan: Lifespan | None) -> Lifespan | None:
    """Validate and return the lifespan.

    Raises `DefinitionError` for an invalid one, such as a generator function without its decorator.
    """
    if lifespan is None:
        return None
    if inspect.isasyncgenfunction(lifespan) or inspect.isgeneratorfunction(lifespan):
        raise DefinitionError(
            "App: the lifespan is a generator. Decorate it with @contextlib.asynccontextmanager."
        )
    if isinstance(lifespan, AbstractAsyncContextManager):
        raise DefinitionError("App: the lifespan must be the function itself. Leave out its ().")
    if not callable(lifespan) or inspect.iscoroutinefunction(lifespan) or not takes_one(lifespan):
        raise DefinitionError(
            "App: the lifespan must be a function that takes the app and returns an async context manager, not "
            f"{brief_value(lifespan)}."
        )
    return lifespan


class App:
    """An application: its agents, prompts and tools, and their common `env` (D5).

    Handlers added to the `registry` later have no effect. `requests` is a folder of saved requests, JSON files of
    `{"config", "schema", "context"}`, that tools can name as their delegates. With an `embedder`, either this one or
    the one in the settings, agents also search the passages of their memory by meaning.

    `mcp` are MCP servers by name, `{"files": {"command": "npx", "args": […]}, "github": {"url": "https://…"}}`. Their
    tools are available to agents without servers of their own. `lifespan` is a function of the app that returns an
    async context manager, entered before each runtime starts and left after it has stopped. Tools and dependencies read
    the value that it yields as `state.lifespan`. `tool_uis` draw calls in the console, by tool name.

    `mcp_server` permits tools to callers of `/mcp`: `{"people": …, "services": …}`, each `"all"`, `"read_only"`,
    `"none"` or a list of tool names. By default people may call the tools marked `read_only`, services all. Its
    `prompts` (True or names) and `resources` (`{uri or name: text, bytes or path}`) are also offered there, and so are
    resources that a tool reads (`{"orders://{number}": {"tool": name}}`).

    `context` and `parallel` are the defaults of agents without their own: the length of requests to models, and the
    maximum number of concurrent calls of `read_only` tools. `hooks` hold for the runs of all agents, also of those that
    are configured over HTTP, and for calls over MCP; see `tw.Hooks`. Raises `DefinitionError` for an unknown name,
    including names of handlers and delegates.
    """

    def __init__(
        self,
        *,
        agents: Sequence[Agent] = (),
        prompts: Sequence[Prompt] = (),
        tools: Sequence[Tool | Handler] | Toolset = (),
        env: Env | None = None,
        registry: Registry | None = None,
        requests: str | Path | None = None,
        embedder: Embedder | None = None,
        mcp: object = None,
        lifespan: Lifespan | None = None,
        tool_uis: Sequence[ToolUI] = (),
        mcp_server: object = None,
        context: Context | None = None,
        parallel: int | None = None,
        hooks: Sequence[Hooks] = (),
    ) -> None:
        check_kind("App: requests", requests, (str, Path, NoneType), "the path of a folder")
        if requests == "":  # would be the current directory
            raise DefinitionError("App: requests must be the path of a folder, not ''.")
        check_kind("App: the registry", registry, (Registry, NoneType), "a Registry")
        self.embedder = _checked(embedder)
        self.model: object | None = None
        self._lifespan = checked_lifespan(lifespan)
        self.tool_uis = checked_tool_uis(tool_uis)
        self.mcp_server = mcp_permissions(mcp_server)
        self.overrides: dict[Function, Dependency] = {}
        all_tools = tools if registry is None else [*Toolset(tools), *registry.tools()]
        handlers = None if registry is None else registry.handlers
        saved = None if requests is None else _saved_requests(Path(requests))
        self.catalog = Catalog(
            agents=agents,
            prompts=prompts,
            tools=all_tools,
            env=env,
            handlers=handlers,
            requests=saved,
            servers=_servers(mcp),
            context=context,
            parallel=parallel,
            hooks=hooks,
        )
        self._check_permitted()
        if saved:
            from toolwright.wiring.saved_requests import check_saved_requests  # noqa: PLC0415 - few apps have them

            check_saved_requests(self.catalog)

    def _check_permitted(self) -> None:
        """Raise an error if a permission names a tool or prompt that does not exist."""
        offered, prompts = self.mcp_server, self.catalog.prompts
        for name in sorted(offered.prompts or ()):
            if name not in prompts:
                raise DefinitionError(
                    f"App: mcp_server names the prompt {name!r}, which the app does not declare in prompts."
                )
        for template in offered.templates:
            self._check_template(template)
        uris = {each.name for each in offered.resources}
        uris |= prompts.keys() if offered.prompts is None else offered.prompts
        for name in sorted(offered.names - uris):
            if name not in self.catalog.app_tools.tools:
                raise DefinitionError(
                    f"App: mcp_server names the tool {name!r}, which the app does not have."
                )

    def _check_template(self, template: ResourceTemplate) -> None:
        """Raise an error unless the template's tool only reads and has exactly the arguments that the URI has."""
        where = f"App: mcp_server: the resource {template.uri!r}"
        tools = self.catalog.app_tools.tools
        if template.tool not in tools:
            raise DefinitionError(f"{where} names the tool {template.tool!r}, which the app does not have.")
        tool = tools[template.tool]
        if not tool.read_only:
            raise DefinitionError(f"{where} names the tool {template.tool!r}, which is not marked read_only.")
        schema = cast("Mapping[str, Iterable[str]]", tool.offered)
        required, properties = schema.get("required", ()), schema.get("properties", ())
        if not {*required} <= {*template.variables} <= {*properties}:
            raise DefinitionError(
                f"{where} must have the required arguments of the tool {template.tool!r} as its variables, and no "
                "others than the tool has."
            )

    def with_model(self, model: str | Model | object) -> "App":
        """Return the app with that model for all prompts, settings and configured agents."""
        if not is_model(model) or model is None:
            raise DefinitionError(
                f"with_model needs a name such as {EXAMPLE_MODEL!r} or a model object, not {model!r}."
            )
        check_model("with_model: the model", model)
        app = copy(self)
        app.model = model
        return app

    @contextmanager
    def override(self, dependency: Function, other: Function) -> Generator[None]:
        """Replace a dependency within the block: `other` provides the values of `dependency`.

        For tests. `other` can have dependencies too; raises `DefinitionError` if it depends on `dependency`.
        """
        with overriding(self.overrides, dependency, other):
            yield

    @asynccontextmanager
    async def living(self) -> AsyncGenerator[object]:
        """Enter the app's lifespan; yield its value, or None without one."""
        if self._lifespan is None:
            yield None
            return
        async with self._lifespan(self) as yielded:
            yield yielded

    def completed(self, settings: Settings | None) -> Settings:
        """Return the settings of its runtime: the given ones, with the model of `with_model` if they have no model."""
        chosen = Settings() if settings is None else settings
        if self.model is None or chosen.model is not None:
            return chosen
        return chosen.model_copy(update={"model": getattr(self.model, "name", str(self.model))})

    @entered
    async def runtime(
        self,
        settings: Settings | None = None,
        *,
        grace: float = 10.0,
        memory: "MemoryJournal | None" = None,
        motor: "Callable[[Store, Clock], Motor] | None" = None,
    ) -> "AsyncGenerator[Runtime]":
        """Open a runtime: runs of the app execute in this process until the block ends.

        At the end of the block, calls in progress have `grace` seconds to end; unfinished runs continue at the next
        start. A journal in memory is lost, unless it is passed as `memory`. `motor` creates another scheduler of runs;
        every process that executes runs of the journal must use the same kind of scheduler.
        """
        from toolwright.runtime.runtime import Runtime  # noqa: PLC0415 - keeps the import light
        from toolwright.wiring.parts import open_parts, warn_without_work  # noqa: PLC0415 - the same

        check_kind("The settings of a runtime", settings, (Settings, NoneType), "toolwright.Settings")
        chosen = self.completed(settings)
        async with self.living() as lifespan:
            parts = await open_parts(
                chosen, self.embedder, self.model, memory, self.overrides, lifespan, motor
            )
            runtime = Runtime(self.catalog, parts, chosen)
            try:
                await runtime.start()
                if not runtime.driving:
                    warn_without_work(chosen)
                yield runtime
            finally:
                await runtime.stop(grace)


def _checked(embedder: Embedder | None) -> Embedder | None:
    """Return the embedder. Raises `DefinitionError` for an invalid one, such as a name: names belong in settings."""
    if embedder is None:
        return None
    name = getattr(embedder, "name", None)
    is_name = isinstance(name, str) and name != "" and one_line(name) and not unwritable(name)
    if not is_name or not callable(getattr(embedder, "embed", None)):
        raise DefinitionError(
            "App: the embedder must be an object with a name and `async def embed(texts)`. To use the "
            "embedder of a provider, set TOOLWRIGHT_EMBEDDER."
        )
    return embedder


def _servers(mcp: object) -> list[McpServer]:
    if mcp is None:
        return []
    from toolwright.core.mcp.config import declared_servers  # noqa: PLC0415 - few apps have them

    servers = declared_servers(mcp, "App")
    name = next((each for each in servers if isinstance(each, str)), None)
    if name is not None:
        raise DefinitionError(f"App: mcp must contain configurations of servers, not the name {name!r}.")
    return [each for each in servers if isinstance(each, McpServer)]


def _saved_requests(folder: Path) -> Mapping[str, Any]:
    from toolwright.wiring.saved_requests import read_saved_requests  # noqa: PLC0415 - few apps have them

    return read_saved_requests(folder)
