"""torch._refs.nn: references of functions of networks."""

__all__: list[str] = []
