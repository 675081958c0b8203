"""Where code runs that nobody trusts: Deno for JavaScript and TypeScript, Monty for Python."""
