"""torch.ao.ns: numeric suites, none of which are here."""
