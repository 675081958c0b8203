"""Arguments of calls: signatures, schemas, judgement, and faults."""
