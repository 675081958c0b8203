"""SQL of the store, one module per noun: its tables, their mappings, statements and queries."""
