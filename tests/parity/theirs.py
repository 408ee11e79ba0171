"""Runs a program under the real PyTorch, and leaves as soon as it has ended.

PyTorch aborts now and then while it takes its process groups and threads down ("terminate called without an active
exception"). What the program wrote is whole by then, so the groups are left as they are, once all ranks are there.
"""

import os
import runpy
import sys
import traceback


def main() -> None:
    sys.argv = sys.argv[1:]
    sys.path[0] = os.path.dirname(sys.argv[0])
    import torch.distributed as dist

    if dist.is_available():
        dist.destroy_process_group = dist.barrier
    code = 0
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
