"""torch.utils.tensorboard: what a program logs, written in TensorBoard's event files. Needs the package tensorboard."""

try:
    import tensorboard  # noqa: F401
except ImportError as missing:
    raise ImportError("torch.utils.tensorboard writes through the package tensorboard, which is not installed: "
                      "pip install tensorboard") from missing

from tensorboard.summary.writer.record_writer import RecordWriter

from .writer import FileWriter, SummaryWriter

__all__ = ["FileWriter", "RecordWriter", "SummaryWriter"]
