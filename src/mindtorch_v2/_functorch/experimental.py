"""functorch.experimental: names that moved to torch.func."""

from .eager_transforms import functionalize, jvp
from .functional_call import replace_all_batch_norm_modules_
from .vmap import vmap

__all__ = ["functionalize", "jvp", "replace_all_batch_norm_modules_", "vmap"]
