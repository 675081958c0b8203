"""Pages of the console, one module each, within a common frame."""

from toolwright.web.console.pages.shell import register

__all__ = ["register"]
