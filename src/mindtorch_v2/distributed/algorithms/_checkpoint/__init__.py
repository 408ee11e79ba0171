"""Modules that keep less for backward."""
