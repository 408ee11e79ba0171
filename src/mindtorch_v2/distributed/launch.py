"""torch.distributed.launch: the launcher under its older name. Scripts read their rank from LOCAL_RANK."""

import sys
from collections.abc import Sequence

from .run import main as _main

__all__ = ["main"]


def main(args: Sequence[str] | None = None) -> None:
    given = list(sys.argv[1:] if args is None else args)
    _main([each for each in given if each not in ("--use-env", "--use_env")])


if __name__ == "__main__":
    main()
