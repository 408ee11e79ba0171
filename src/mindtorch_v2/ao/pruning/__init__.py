"""torch.ao.pruning: names that programs import; using one raises. torch.nn.utils.prune prunes."""

from ..._compat.absent import absent_class

__all__ = ["BaseScheduler", "BaseSparsifier", "CubicSL", "LambdaSL", "WeightNormSparsifier"]

globals().update({_name: absent_class(f"torch.ao.pruning.{_name}", "Use torch.nn.utils.prune.") for _name in __all__})
