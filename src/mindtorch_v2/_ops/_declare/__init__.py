"""How operators are declared: the declaration, families, rules, samples, documentation."""
