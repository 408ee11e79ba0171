"""How modules take converted parameters in; torch.__future__ switches it."""


class _Conversion:
    """What `Module.to` and its like, and `load_state_dict`, do with parameters."""

    overwrites = False  # a new parameter in the place of the old one
    swaps = False  # the old parameter becomes what the new one is: `torch.utils.swap_tensors`


conversion = _Conversion()
