"""SummaryWriter: a folder of event files that TensorBoard shows while they grow."""

import os
import socket
import time
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import numpy as np
from tensorboard.compat.proto import event_pb2
from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.plugins.projector.projector_config_pb2 import EmbeddingInfo, ProjectorConfig
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from ..._compat.absent import refuse
from . import summary as records

__all__ = ["FileWriter", "SummaryWriter"]


class FileWriter:
    """One event file, to which records are added."""

    def __init__(self, log_dir: Any, max_queue: int = 10, flush_secs: int = 120, filename_suffix: str = "") -> None:
        self.event_writer = EventFileWriter(str(log_dir), max_queue, flush_secs, filename_suffix)

    def get_logdir(self) -> str:
        return self.event_writer.get_logdir()

    def add_event(self, event: Any, step: Any = None, walltime: float | None = None) -> None:
        event.wall_time = time.time() if walltime is None else walltime
        if step is not None:
            event.step = int(step)
        self.event_writer.add_event(event)

    def add_summary(self, summary: Any, global_step: Any = None, walltime: float | None = None) -> None:
        self.add_event(event_pb2.Event(summary=summary), global_step, walltime)

    def flush(self) -> None:
        self.event_writer.flush()

    def close(self) -> None:
        self.event_writer.close()


def _default_bins() -> list[float]:
    """Limits that grow by a tenth, from 1e-12 to 1e20, on both sides of zero."""
    limits, value = [], 1e-12
    while value < 1e20:
        limits.append(value)
        value *= 1.1
    return [-limit for limit in reversed(limits)] + [0] + limits


class SummaryWriter:
    """Logs scalars, histograms, texts, pictures and more into the folder `log_dir`."""

    def __init__(self, log_dir: Any = None, comment: str = "", purge_step: int | None = None, max_queue: int = 10,
                 flush_secs: int = 120, filename_suffix: str = "") -> None:
        if not log_dir:
            now = datetime.now().strftime("%b%d_%H-%M-%S")
            log_dir = os.path.join("runs", f"{now}_{socket.gethostname()}{comment}")
        self.log_dir, self.purge_step = log_dir, purge_step
        self._options = (max_queue, flush_secs, filename_suffix)
        self.file_writer: FileWriter | None = None
        self.all_writers: dict[str, FileWriter] = {}
        self.default_bins = _default_bins()
        self._get_file_writer()

    def _get_file_writer(self) -> FileWriter:
        """The writer of the folder itself; after a close, a new one."""
        if self.file_writer is None:
            self.file_writer = FileWriter(self.log_dir, *self._options)
            self.all_writers[self.file_writer.get_logdir()] = self.file_writer
            if self.purge_step is not None:  # what a crashed run wrote from there on is out of date
                step = self.purge_step
                self.file_writer.add_event(Event(step=step, file_version="brain.Event:2"))
                self.file_writer.add_event(Event(step=step, session_log=SessionLog(status=SessionLog.START)))
                self.purge_step = None
        return self.file_writer

    def _add(self, summary: Any, global_step: Any, walltime: float | None) -> None:
        self._get_file_writer().add_summary(summary, global_step, walltime)

    def get_logdir(self) -> Any:
        return self.log_dir

    def add_scalar(self, tag: str, scalar_value: Any, global_step: Any = None, walltime: float | None = None,
                   new_style: bool = False, double_precision: bool = False) -> None:
        self._add(records.scalar(tag, scalar_value, new_style, double_precision), global_step, walltime)

    def add_scalars(self, main_tag: str, tag_scalar_dict: dict[str, Any], global_step: Any = None,
                    walltime: float | None = None) -> None:
        """Several curves of one chart, each in a folder of its own."""
        walltime = time.time() if walltime is None else walltime
        root = self._get_file_writer().get_logdir()
        for tag, value in tag_scalar_dict.items():
            folder = f"{root}/{main_tag.replace('/', '_')}_{tag}"
            if folder not in self.all_writers:
                self.all_writers[folder] = FileWriter(folder, *self._options)
            self.all_writers[folder].add_summary(records.scalar(main_tag, value), global_step, walltime)

    def add_tensor(self, tag: str, tensor: Any, global_step: Any = None, walltime: float | None = None) -> None:
        self._add(records.tensor_proto(tag, tensor), global_step, walltime)

    def add_histogram(self, tag: str, values: Any, global_step: Any = None, bins: Any = "tensorflow",
                      walltime: float | None = None, max_bins: int | None = None) -> None:
        bins = self.default_bins if isinstance(bins, str) and bins == "tensorflow" else bins
        self._add(records.histogram(tag, values, bins, max_bins), global_step, walltime)

    def add_histogram_raw(self, tag: str, min: float, max: float, num: float, sum: float, sum_squares: float,
                          bucket_limits: Any, bucket_counts: Any, global_step: Any = None,
                          walltime: float | None = None) -> None:
        if len(bucket_limits) != len(bucket_counts):
            raise ValueError("len(bucket_limits) != len(bucket_counts), see the document.")
        made = records.histogram_raw(tag, min, max, num, sum, sum_squares, bucket_limits, bucket_counts)
        self._add(made, global_step, walltime)

    def add_image(self, tag: str, img_tensor: Any, global_step: Any = None, walltime: float | None = None,
                  dataformats: str = "CHW") -> None:
        self._add(records.image(tag, img_tensor, dataformats), global_step, walltime)

    def add_images(self, tag: str, img_tensor: Any, global_step: Any = None, walltime: float | None = None,
                   dataformats: str = "NCHW") -> None:
        self._add(records.image(tag, img_tensor, dataformats), global_step, walltime)

    def add_image_with_boxes(self, tag: str, img_tensor: Any, box_tensor: Any, global_step: Any = None,
                             walltime: float | None = None, rescale: float = 1, dataformats: str = "CHW",
                             labels: Any = None) -> None:
        labels = [labels] if isinstance(labels, str) else labels
        if labels is not None and len(labels) != len(box_tensor):
            labels = None
        made = records.image_boxes(tag, img_tensor, box_tensor, rescale, dataformats, labels)
        self._add(made, global_step, walltime)

    def add_figure(self, tag: str, figure: Any, global_step: Any = None, close: bool = True,
                   walltime: float | None = None) -> None:
        """Matplotlib's figures, as pictures."""
        from matplotlib.backends.backend_agg import FigureCanvasAgg

        def picture(one: Any) -> np.ndarray:
            canvas = FigureCanvasAgg(one)
            canvas.draw()
            if close:
                import matplotlib.pyplot as plt

                plt.close(one)
            return np.asarray(canvas.buffer_rgba())[:, :, :3].transpose(2, 0, 1)

        several = isinstance(figure, list)
        made = np.stack([picture(one) for one in figure]) if several else picture(figure)
        self._add(records.image(tag, made, "NCHW" if several else "CHW"), global_step, walltime)

    def add_video(self, tag: str, vid_tensor: Any, global_step: Any = None, fps: int = 4,
                  walltime: float | None = None) -> None:
        refuse("SummaryWriter.add_video", "Log the frames with add_images.")

    def add_audio(self, tag: str, snd_tensor: Any, global_step: Any = None, sample_rate: int = 44100,
                  walltime: float | None = None) -> None:
        self._add(records.audio(tag, snd_tensor, sample_rate), global_step, walltime)

    def add_text(self, tag: str, text_string: str, global_step: Any = None, walltime: float | None = None) -> None:
        self._add(records.text(tag, text_string), global_step, walltime)

    def add_graph(self, model: Any, input_to_model: Any = None, verbose: bool = False,
                  use_strict_trace: bool = True) -> None:
        refuse("SummaryWriter.add_graph", "torch.utils.draw_graph draws what a result was computed from.")

    def add_onnx_graph(self, prototxt: Any) -> None:
        refuse("SummaryWriter.add_onnx_graph")

    def add_pr_curve(self, tag: str, labels: Any, predictions: Any, global_step: Any = None, num_thresholds: int = 127,
                     weights: Any = None, walltime: float | None = None) -> None:
        made = records.pr_curve(tag, records.make_np(labels), records.make_np(predictions), num_thresholds, weights)
        self._add(made, global_step, walltime)

    def add_pr_curve_raw(self, tag: str, true_positive_counts: Any, false_positive_counts: Any,
                         true_negative_counts: Any, false_negative_counts: Any, precision: Any, recall: Any,
                         global_step: Any = None, num_thresholds: int = 127, weights: Any = None,
                         walltime: float | None = None) -> None:
        made = records.pr_curve_raw(tag, true_positive_counts, false_positive_counts, true_negative_counts,
                                    false_negative_counts, precision, recall, num_thresholds, weights)
        self._add(made, global_step, walltime)

    def add_custom_scalars(self, layout: Any) -> None:
        self._add(records.custom_scalars(layout), None, None)

    def add_custom_scalars_multilinechart(self, tags: Sequence[str], category: str = "default",
                                          title: str = "untitled") -> None:
        self.add_custom_scalars({category: {title: ["Multiline", tags]}})

    def add_custom_scalars_marginchart(self, tags: Sequence[str], category: str = "default",
                                       title: str = "untitled") -> None:
        self.add_custom_scalars({category: {title: ["Margin", tags]}})

    def add_mesh(self, tag: str, vertices: Any, colors: Any = None, faces: Any = None, config_dict: Any = None,
                 global_step: Any = None, walltime: float | None = None) -> None:
        self._add(records.mesh(tag, vertices, colors, faces, config_dict), global_step, walltime)

    def add_hparams(self, hparam_dict: dict[str, Any], metric_dict: dict[str, Any],
                    hparam_domain_discrete: dict[str, list[Any]] | None = None, run_name: str | None = None,
                    global_step: Any = None) -> None:
        """A run's settings and what came of them, in a folder of its own."""
        if type(hparam_dict) is not dict or type(metric_dict) is not dict:
            raise TypeError("hparam_dict and metric_dict should be dictionary.")
        made = records.hparams(hparam_dict, metric_dict, hparam_domain_discrete)
        folder = os.path.join(str(self._get_file_writer().get_logdir()), run_name or str(time.time()))
        with SummaryWriter(log_dir=folder) as writer:
            for summary in made:
                writer._add(summary, global_step, None)
            for name, value in metric_dict.items():
                writer.add_scalar(name, value, global_step)

    def add_embedding(self, mat: Any, metadata: Any = None, label_img: Any = None, global_step: Any = None,
                      tag: str = "default", metadata_header: Any = None) -> None:
        """Points for TensorBoard's projector, with labels and small pictures."""
        mat = records.make_np(mat)
        name = f"{str(0 if global_step is None else global_step).zfill(5)}/{tag}"
        root = str(self._get_file_writer().get_logdir())
        folder = os.path.join(root, name)
        if os.path.isdir(folder):
            print("warning: Embedding dir exists, did you set global_step for add_embedding()?")
        else:
            os.makedirs(folder)
        info = EmbeddingInfo(tensor_name=f"{tag}:{str(0 if global_step is None else global_step).zfill(5)}",
                             tensor_path=f"{name}/tensors.tsv")
        if metadata is not None:
            if len(metadata) != mat.shape[0]:
                raise AssertionError("#labels should equal with #data points")
            rows = [[str(cell) for cell in row] if metadata_header else [str(row)]
                    for row in ([metadata_header, *metadata] if metadata_header else metadata)]
            _write_rows(os.path.join(folder, "metadata.tsv"), rows)
            info.metadata_path = f"{name}/metadata.tsv"
        if label_img is not None:
            if len(label_img) != mat.shape[0]:
                raise AssertionError("#images should equal with #data points")
            _write_sprite(records.make_np(label_img), os.path.join(folder, "sprite.png"))
            info.sprite.image_path = f"{name}/sprite.png"
            info.sprite.single_image_dim.extend([label_img.shape[3], label_img.shape[2]])
        if mat.ndim != 2:
            raise AssertionError("mat should be 2D, where mat.size(0) is the number of data points")
        _write_rows(os.path.join(folder, "tensors.tsv"), [[str(float(x)) for x in row] for row in mat])
        if not hasattr(self, "_projector_config"):
            self._projector_config = ProjectorConfig()
        self._projector_config.embeddings.extend([info])
        from google.protobuf import text_format

        with open(os.path.join(root, "projector_config.pbtxt"), "w", encoding="utf-8") as file:
            file.write(text_format.MessageToString(self._projector_config))

    def flush(self) -> None:
        """Writes to the disk what waits to be written."""
        for writer in self.all_writers.values():
            writer.flush()

    def close(self) -> None:
        for writer in self.all_writers.values():
            writer.flush()
            writer.close()
        self.file_writer, self.all_writers = None, {}

    def __enter__(self) -> "SummaryWriter":
        return self

    def __exit__(self, *exception: Any) -> None:
        self.close()


def _write_rows(path: str, rows: Sequence[Sequence[str]]) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.writelines("\t".join(row) + "\n" for row in rows)


def _write_sprite(images: np.ndarray, path: str) -> None:
    """All pictures in one, as many in a row as there are rows."""
    from PIL import Image

    side = int(np.ceil(np.sqrt(len(images))))
    padded = np.concatenate([images, np.zeros((side * side - len(images), *images.shape[1:]), images.dtype)])
    tiled = padded.reshape(side, side, *images.shape[1:]).transpose(0, 3, 1, 4, 2)
    whole = tiled.reshape(side * images.shape[2], side * images.shape[3], -1)
    Image.fromarray((whole * (1 if whole.dtype == np.uint8 else 255)).clip(0, 255).astype(np.uint8)).save(path)
