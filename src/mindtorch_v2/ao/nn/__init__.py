"""torch.ao.nn: quantized modules, none of which are here."""
