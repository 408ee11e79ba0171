"""torch.hub's download under its older name."""

from .. import hub
from ..hub import load_state_dict_from_url as load_url

__all__ = ["load_url"]


def __getattr__(name: str) -> object:
    return getattr(hub, name)
