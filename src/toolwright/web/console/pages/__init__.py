"""Pages of the console, a module for each, below one shell."""

from toolwright.web.console.pages.shell import register

__all__ = ["register"]
