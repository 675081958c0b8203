"""Arguments of calls: signatures, schemas, validation and errors."""
