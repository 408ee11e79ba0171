"""torch.__future__: switches of how modules take converted parameters in."""

from .nn.modules._conversion import conversion


def set_overwrite_module_params_on_conversion(value: bool) -> None:
    """Lets conversions assign new parameters instead of changing the old ones' data."""
    conversion.overwrites = value


def get_overwrite_module_params_on_conversion() -> bool:
    return conversion.overwrites


def set_swap_module_params_on_conversion(value: bool) -> None:
    """Lets conversions and `load_state_dict` swap tensors instead of changing the old ones' data."""
    conversion.swaps = value


def get_swap_module_params_on_conversion() -> bool:
    return conversion.swaps
