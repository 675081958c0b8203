"""The store on Postgres."""
