"""The sandbox of an app: what a language needs is loaded when the first code of that language is run."""

from collections.abc import Callable
from importlib import import_module
from types import ModuleType

from toolwright.core.errors import missing_extra
from toolwright.core.state.sandbox import CodeHandle, CodeLimits, CodeOptions, Sandbox, read_options

_DENO = ("toolwright.adapters.sandbox.deno", "DenoSandbox")
_MONTY = ("toolwright.adapters.sandbox.monty", "MontySandbox")
_PLACES = {"typescript": _DENO, "javascript": _DENO, "python": _MONTY}


class CodeSandbox:
    """The `Sandbox` port for all languages. `load` finds modules by their names."""

    def __init__(
        self, limits: CodeLimits | None = None, load: Callable[[str], ModuleType] = import_module
    ) -> None:
        self._limits = limits
        self._load = load
        self._loaded: dict[str, Sandbox] = {}

    def start(self, source: str, options: CodeOptions) -> CodeHandle:
        """Run the code. Raises `InvalidRequest`, or `MissingExtra` where the language's library is not installed."""
        options = read_options(options)
        module, name = _PLACES[options.language]
        if module not in self._loaded:
            self._loaded[module] = self._sandbox(module, name)
        return self._loaded[module].start(source, options)

    async def close(self) -> None:
        """End all that runs."""
        for sandbox in self._loaded.values():
            await sandbox.close()

    def _sandbox(self, module: str, name: str) -> Sandbox:
        try:
            made: Sandbox = getattr(self._load(module), name)(self._limits)
        except (ImportError, FileNotFoundError) as error:
            raise missing_extra("Running code", "sandbox", error) from error
        return made
