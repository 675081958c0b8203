"""Telemetry of a process: opened where its environment asks for it, or its program has set OpenTelemetry up."""

import os
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from types import ModuleType

from toolwright.core.errors import MissingExtra
from toolwright.core.journal.telemetry import Telemetry
from toolwright.wiring.settings import Settings
from toolwright.wiring.telemetry.choice import TelemetryChoice


def open_telemetry(
    settings: Settings,
    environment: Mapping[str, str] | None = None,
    load: Callable[[str], ModuleType] = import_module,
) -> Telemetry | None:
    """The telemetry that is wanted, None if none is. `load` finds modules by their names.

    Raises `MissingExtra`, or `DefinitionError` for an exporter that there is not.
    """
    choice = TelemetryChoice.read(settings, os.environ if environment is None else environment)
    if choice.disabled or not (choice or _set_up()):
        return None
    try:
        providers = load("toolwright.adapters.telemetry.providers")  # by name: it needs the extra
        if not choice:
            used: Telemetry = providers.use_providers(content=choice.content)
            return used
        opened: Telemetry = providers.open_providers(
            traces=choice.traces,
            metrics=choice.metrics,
            sentry_dsn=choice.sentry_dsn,
            content=choice.content,
        )
    except ModuleNotFoundError as error:
        extra = "sentry" if choice.sentry_dsn is not None else "telemetry"
        raise MissingExtra(f"Telemetry needs an extra: install toolwright[{extra}].") from error
    return opened


def _set_up() -> bool:
    """Whether the program has set OpenTelemetry up itself; what is not loaded it has not."""
    signals = {
        "trace": ("get_tracer_provider", "TracerProvider"),
        "metrics": ("get_meter_provider", "MeterProvider"),
    }
    for name, (get, provider) in signals.items():
        api, sdk = sys.modules.get(f"opentelemetry.{name}"), sys.modules.get(f"opentelemetry.sdk.{name}")
        if api is not None and sdk is not None and isinstance(getattr(api, get)(), getattr(sdk, provider)):
            return True
    return False
