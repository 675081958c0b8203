"""What a call takes: signatures, schemas, the judgement of arguments, and what is wrong with them."""
