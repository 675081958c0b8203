"""Code that nobody trusts, run and held."""
