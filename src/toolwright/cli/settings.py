"""Settings and apps of the commands. Raises `Refusal` for every error."""

import logging
import os
import pwd
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from toolwright.cli.output import Refusal
from toolwright.core.errors import DefinitionError
from toolwright.core.threads.decision import Decider
from toolwright.wiring.app import App
from toolwright.wiring.config import ConfigApp, find_app
from toolwright.wiring.settings import Settings, warning

log = logging.getLogger("toolwright.cli")


def read_settings(**overrides: Any) -> Settings:  # values of any type: Settings validates them
    """Return the settings of the environment, with some of them overridden."""
    try:
        return Settings(**overrides)
    except DefinitionError as error:
        raise Refusal(error.message) from error


def operator() -> Decider:
    """Return the user of this machine who has started the command, as one who decides."""
    name = None
    with suppress(KeyError):  # a container's user can have no name
        name = pwd.getpwuid(os.getuid()).pw_name
    return Decider(kind="host", door="cli", id=name, name=name)


def warn_unknown_variables(environment: Iterable[str]) -> None:
    """Log a warning that names the variables with our prefix that are not settings."""
    message = warning(environment, list(Settings.model_fields))
    if message is not None:
        log.warning(message)


def the_app(target: str | None) -> App:
    """Return the app of a command: of a module or a configuration file, or the app in this folder."""
    try:
        return ConfigApp(Path(target)) if target and target.endswith(".json") else find_app(target)
    except DefinitionError as error:
        raise Refusal(error.message) from error


def served_app(target: str | None) -> App:
    """Return the app to serve: from a module or a configuration file, or an empty app without a target."""
    return App() if target is None else the_app(target)


def declared(app: App) -> App:
    """Return the app with the agents of its configuration file as its own. They are otherwise only in the journal."""
    if not isinstance(app, ConfigApp):
        return app
    try:
        return App(agents=app.configured)
    except DefinitionError as error:
        raise Refusal(error.message) from error
