"""From `module:app` to the app that it names."""

import sys
import traceback
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from types import ModuleType

from toolwright.core.agents.agent import Agent
from toolwright.core.errors import DefinitionError
from toolwright.wiring.app import App

DEFAULT_FILE = Path("app.py")
_OURS = str(Path(__file__).parent.parent)


def find_app(target: str | None) -> App:
    """The app of that target, else the `app` in the current folder's `app.py`.

    Raises `DefinitionError` where there is none.
    """
    if target:
        return load_app(target)
    if DEFAULT_FILE.is_file():
        return load_app("app:app")
    raise DefinitionError(
        "No app was named: give --app MODULE:APP, set TOOLWRIGHT_APP, or go to a folder with an app.py."
    )


def load_app(target: str) -> App:
    """Return the app of `module:app`, or of `module` if it is called `app`; the current folder is searched first.

    `module:agent` is an app of that agent alone.

    Raises `DefinitionError`, in one sentence, where there is no such module or app, or the module fails.
    """
    name, _, path = target.partition(":")
    if name.endswith(".py") or "/" in name:
        raise DefinitionError(
            f"{target!r} is a path: name the module, as in {Path(name).stem + ':app'!r}, from its folder."
        )
    if not all(part.isidentifier() for part in name.split(".")):
        raise DefinitionError(f"{target!r} is not of the form MODULE:APP, as in 'app:app'.")
    folder = str(Path.cwd())
    if sys.path[:1] != [folder]:
        sys.path.insert(0, folder)
    return _app_in(_module(name), path or "app")


def _module(name: str) -> ModuleType:
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(f"{error.name}.")):
            raise DefinitionError(
                f"There is no module {name!r}, neither in this folder nor among the installed packages."
            ) from error
        raise _broken(name, error) from error
    except (Exception, SystemExit) as error:  # a user's module may raise anything
        raise _broken(name, error) from error


def _broken(name: str, error: BaseException) -> DefinitionError:
    """Error of a module's own fault: where it is and what it says, without the frames of others."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith(("<", _OURS))
    ]
    if isinstance(error, SyntaxError) and error.filename:
        where = f"{Path(error.filename).name}, line {error.lineno}: "
        return DefinitionError(
            f"The module {name!r} cannot be imported. {where}{type(error).__name__}: {error.msg}"
        )
    where = f"{Path(frames[-1].filename).name}, line {frames[-1].lineno}: " if frames else ""
    return DefinitionError(
        f"The module {name!r} cannot be imported. {where}{type(error).__name__}: {str(error) or 'no message'}"
    )


def _app_in(module: ModuleType, path: str) -> App:
    found: object = module
    for name in path.split("."):
        if not hasattr(found, name):
            raise DefinitionError(f"The module {module.__name__!r} has no {path!r}.{_hint(module, path)}")
        found = getattr(found, name)
    if isinstance(found, Agent):
        return App(agents=[found])
    if not isinstance(found, App):
        raise DefinitionError(
            f"'{module.__name__}:{path}' is neither a tw.App nor a tw.Agent but of the type {type(found).__name__!r}."
            f"{_hint(module, path)}"
        )
    return found


def _hint(module: ModuleType, path: str) -> str:
    apps = [name for name, value in vars(module).items() if isinstance(value, App | Agent)]
    close = get_close_matches(path, apps, n=1) or apps[:1]
    return f" Did you mean '{module.__name__}:{close[0]}'?" if close else ""
