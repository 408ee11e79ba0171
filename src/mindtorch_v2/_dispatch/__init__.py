"""Keys, schemas, the registry of operators, and the call path between them."""
