"""torch.backends.quantized: no engine of quantized operators is here."""

engine = "none"
supported_engines = ["none"]
