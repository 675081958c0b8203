"""SQL of the store, one module for each noun: its tables, their mappings, its statements and queries."""
