"""torch.backends.quantized: quantized layers compute as fbgemm does."""

engine = "fbgemm"
supported_engines = ["fbgemm", "none"]
