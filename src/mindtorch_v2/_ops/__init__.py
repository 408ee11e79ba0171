"""The operators: one declaration each, grouped by what they mean."""
