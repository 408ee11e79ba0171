"""The modules of torch.nn; each file's `__all__` says what it adds."""

from . import activation, container, dropout, flatten, linear, loss, normalization, sparse
from .activation import *  # noqa: F403
from .container import *  # noqa: F403
from .dropout import *  # noqa: F403
from .flatten import *  # noqa: F403
from .linear import *  # noqa: F403
from .loss import *  # noqa: F403
from .module import Module
from .normalization import *  # noqa: F403
from .sparse import *  # noqa: F403

__all__ = ["Module"]
for _part in (activation, container, dropout, flatten, linear, loss, normalization, sparse):
    __all__ += _part.__all__
