"""torch.distributed.launch: the launcher under its older name."""

from .run import main

__all__ = ["main"]

if __name__ == "__main__":
    main()
