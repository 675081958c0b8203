"""YAML file with the turns of a scripted model."""

from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path

import yaml

from toolwright.core.errors import DefinitionError
from toolwright.core.text import sentence


def read_turns(path: str | PathLike[str]) -> Sequence[object] | Mapping[str, Sequence[object]]:
    """Return the turns, or lists of turns by name, not validated yet.

    Raises `DefinitionError`, naming the file, if it cannot be read or contains neither.
    """
    try:
        if Path(path).exists() and not Path(path).is_file():  # reading a pipe or a device might never end
            raise DefinitionError(f"The script {str(path)!r} cannot be read: it is not a file.")
        turns: object = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise DefinitionError(f"The script {str(path)!r} cannot be read: it is not UTF-8.") from error
    except OSError as error:
        raise DefinitionError(
            sentence(f"The script {str(path)!r} cannot be read: {error.strerror}")
        ) from error
    except yaml.YAMLError as error:
        raise DefinitionError(f"The script {str(path)!r} is not YAML{_place(error)}.") from error
    except (ValueError, RecursionError) as error:  # an invalid date, or a thousand brackets
        raise DefinitionError(f"The script {str(path)!r} cannot be read as YAML.") from error
    if not isinstance(turns, list | dict):
        raise DefinitionError(f"The script {str(path)!r} must be a list of turns, or lists by name.")
    # pyright sees list[Unknown] | dict[Unknown, Unknown]: the model validates the items
    return turns  # pyright: ignore[reportUnknownVariableType]


def _place(error: yaml.YAMLError) -> str:
    """Return the line of the error, without its content: the file can be any that the process can read."""
    mark = error.problem_mark if isinstance(error, yaml.MarkedYAMLError) else None
    return "" if mark is None else f", in line {mark.line + 1}"
