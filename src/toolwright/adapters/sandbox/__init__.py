"""Sandboxes for untrusted code: Deno for JavaScript and TypeScript, Monty for Python."""
