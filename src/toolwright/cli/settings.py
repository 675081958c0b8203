"""Settings and apps of the commands. Every error is a refusal."""

import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from toolwright.cli.output import Refusal
from toolwright.core.errors import DefinitionError
from toolwright.wiring.app import App
from toolwright.wiring.config import ConfigApp, find_app, load_app
from toolwright.wiring.settings import Settings, warning

log = logging.getLogger("toolwright.cli")


def read_settings(**given: Any) -> Settings:  # the values of settings, which it checks
    """Return the settings of the environment, overridden by the given ones."""
    try:
        return Settings(**given)
    except DefinitionError as error:
        raise Refusal(error.message) from error


def warn_of_variables(environment: Iterable[str]) -> None:
    """Log the variables that look like settings and are none."""
    said = warning(environment, list(Settings.model_fields))
    if said is not None:
        log.warning(said)


def the_app(target: str | None) -> App:
    """Return the app of a command: the target, or the one in this folder."""
    try:
        return find_app(target)
    except DefinitionError as error:
        raise Refusal(error.message) from error


def served_app(target: str | None) -> App:
    """Return the app to serve: the target, a module's or a configuration file's, or an empty one."""
    if target is None:
        return App()
    try:
        return ConfigApp(Path(target)) if target.endswith(".json") else load_app(target)
    except DefinitionError as error:
        raise Refusal(error.message) from error
