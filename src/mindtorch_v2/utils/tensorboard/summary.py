"""The records of TensorBoard's file format, one function a kind."""

import io
import json
import wave
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from google.protobuf import struct_pb2
from tensorboard.compat.proto.summary_pb2 import HistogramProto, Summary, SummaryMetadata
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.plugins.custom_scalar import layout_pb2
from tensorboard.plugins.hparams import api_pb2, metadata, plugin_data_pb2
from tensorboard.plugins.mesh import metadata as mesh_metadata
from tensorboard.plugins.mesh.plugin_data_pb2 import MeshPluginData
from tensorboard.plugins.pr_curve.plugin_data_pb2 import PrCurvePluginData
from tensorboard.plugins.text.plugin_data_pb2 import TextPluginData

from ..._core.tensor import Tensor

_MOST_THRESHOLDS = 127
# a tensor's type -> TensorFlow's name of it, and the field for its values
_TYPES = {"float16": ("DT_HALF", "half_val"), "bfloat16": ("DT_BFLOAT16", "half_val"),
          "float32": ("DT_FLOAT", "float_val"), "float64": ("DT_DOUBLE", "double_val"),
          "int8": ("DT_INT8", "int_val"), "uint8": ("DT_UINT8", "uint32_val"), "int16": ("DT_INT16", "int_val"),
          "int32": ("DT_INT32", "int_val"), "int64": ("DT_INT64", "int64_val"), "bool": ("DT_BOOL", "bool_val"),
          "complex64": ("DT_COMPLEX64", "scomplex_val"), "complex128": ("DT_COMPLEX128", "dcomplex_val")}


def make_np(x: Any) -> np.ndarray:
    """An array of a tensor, an array or a number."""
    if isinstance(x, list):
        raise NotImplementedError(f"Got {type(x)}, but numpy array or torch tensor are expected.")
    if isinstance(x, Tensor):
        x = x.detach().cpu()
        return (x.float() if x.dtype.name == "bfloat16" else x).numpy()
    if isinstance(x, np.ndarray):
        return x
    if np.isscalar(x):
        return np.array([x])
    raise NotImplementedError(f"Got {type(x)}, but numpy array or torch tensor are expected.")


def _record(tag: str, proto: TensorProto, plugin: str, content: bytes = b"") -> Summary:
    data = SummaryMetadata.PluginData(plugin_name=plugin, content=content)
    return Summary(value=[Summary.Value(tag=tag, tensor=proto, metadata=SummaryMetadata(plugin_data=data))])


def _shape(*sizes: int) -> TensorShapeProto:
    return TensorShapeProto(dim=[TensorShapeProto.Dim(size=size) for size in sizes])


def scalar(tag: str, tensor: Any, new_style: bool = False, double_precision: bool = False) -> Summary:
    array = make_np(tensor).squeeze()
    if array.ndim:
        raise AssertionError("Tensor should contain one element (0 dimensions).             Was given size: "
                             f"{array.size} and {array.ndim} dimensions.")
    number = float(array)
    if not new_style:
        return Summary(value=[Summary.Value(tag=tag, simple_value=number)])
    proto = (TensorProto(double_val=[number], dtype="DT_DOUBLE") if double_precision
             else TensorProto(float_val=[number], dtype="DT_FLOAT"))
    return _record(tag, proto, "scalars")


def tensor_proto(tag: str, tensor: Tensor) -> Summary:
    """Values, type and shape of a tensor."""
    if tensor.numel() * tensor.itemsize >= 1 << 31:
        raise ValueError("tensor is bigger than protocol buffer's hard limit of 2GB in size")
    if tensor.dtype.name not in _TYPES:
        raise ValueError(f"{tag} has unsupported tensor dtype {tensor.dtype}")
    kind, field = _TYPES[tensor.dtype.name]
    flat = tensor.detach().cpu().contiguous().reshape(-1)._array
    if field == "half_val":
        flat = flat.view(np.uint16)
    elif flat.dtype.kind == "c":
        flat = flat.view(flat.real.dtype)
    return _record(tag, TensorProto(dtype=kind, tensor_shape=_shape(*tensor.shape), **{field: flat.tolist()}), "tensor")


def text(tag: str, text: str) -> Summary:
    proto = TensorProto(dtype="DT_STRING", string_val=[text.encode("utf_8")], tensor_shape=_shape(1))
    return _record(f"{tag}/text_summary", proto, "text", TextPluginData(version=0).SerializeToString())


# histograms and curves -----------------------------------------------------------------------------------------------


def histogram_raw(name: str, min: float, max: float, num: float, sum: float, sum_squares: float,
                  bucket_limits: Any, bucket_counts: Any) -> Summary:
    proto = HistogramProto(min=min, max=max, num=num, sum=sum, sum_squares=sum_squares, bucket_limit=bucket_limits,
                           bucket=bucket_counts)
    return Summary(value=[Summary.Value(tag=name, histo=proto)])


def histogram(name: str, values: Any, bins: Any, max_bins: int | None = None) -> Summary:
    """Counts in buckets, from the one before the first that is not empty to the last."""
    array = make_np(values).astype(float).reshape(-1)
    if not array.size:
        raise ValueError("The input has no element.")
    counts, limits = np.histogram(array, bins=bins)
    if max_bins is not None and len(counts) > max_bins:
        joined = len(counts) // max_bins
        counts = np.pad(counts, (0, -len(counts) % joined)).reshape(-1, joined).sum(-1)
        limits = np.append(limits[:-1][::joined], limits[-1])
    filled = np.flatnonzero(counts)
    if not filled.size:
        raise ValueError("The histogram is empty, please file a bug report.")
    first, last = filled[0], filled[-1]
    counts = counts[first - 1 : last + 1] if first else np.concatenate([[0], counts[: last + 1]])
    return histogram_raw(name, float(array.min()), float(array.max()), len(array), float(array.sum()),
                         float(array.dot(array)), limits[first : last + 2].tolist(), counts.tolist())


def pr_curve_raw(tag: str, tp: Any, fp: Any, tn: Any, fn: Any, precision: Any, recall: Any,
                 num_thresholds: int = _MOST_THRESHOLDS, weights: Any = None) -> Summary:
    count = min(num_thresholds, _MOST_THRESHOLDS)
    data = np.stack((tp, fp, tn, fn, precision, recall))
    proto = TensorProto(dtype="DT_FLOAT", float_val=data.reshape(-1).tolist(), tensor_shape=_shape(*data.shape))
    return _record(tag, proto, "pr_curves", PrCurvePluginData(version=0, num_thresholds=count).SerializeToString())


def pr_curve(tag: str, labels: Any, predictions: Any, num_thresholds: int = _MOST_THRESHOLDS,
             weights: Any = None) -> Summary:
    """Precision and recall over thresholds, each of which takes the predictions at or above it as true."""
    count = min(num_thresholds, _MOST_THRESHOLDS)
    labels, bucket = labels.astype(float), np.int32(np.floor(predictions * (count - 1)))
    weight = np.ones_like(labels) if weights is None else weights

    def at_or_above(weights: Any) -> Any:
        found = np.histogram(bucket, bins=count, range=(0, count - 1), weights=weights)[0]
        return np.cumsum(found[::-1])[::-1]

    tp, fp = at_or_above(labels * weight), at_or_above((1 - labels) * weight)
    tn, fn = fp[0] - fp, tp[0] - tp
    return pr_curve_raw(tag, tp, fp, tn, fn, tp / np.maximum(1e-7, tp + fp), tp / np.maximum(1e-7, tp + fn), count)


# pictures and sound --------------------------------------------------------------------------------------------------


def convert_to_HWC(tensor: np.ndarray, input_format: str) -> np.ndarray:
    """A picture in colours; several pictures side by side, eight in a row."""
    if len(set(input_format)) != len(input_format):
        raise AssertionError("You can not use the same dimension shorthand twice.             input_format: "
                             f"{input_format}")
    if len(tensor.shape) != len(input_format):
        raise AssertionError("size of input tensor and input format are different.         tensor shape: "
                             f"{tensor.shape}, input_format: {input_format}")
    order = [input_format.upper().find(c) for c in ("NCHW" if len(input_format) == 4 else
                                                    "HWC" if len(input_format) == 3 else "HW")]
    tensor = tensor.transpose(order)
    if len(input_format) == 4:
        return _grid(tensor)
    if len(input_format) == 2:
        tensor = tensor[..., None]
    return np.repeat(tensor, 3, 2) if tensor.shape[2] == 1 else tensor


def _grid(images: np.ndarray) -> np.ndarray:
    if images.shape[1] == 1:
        images = np.repeat(images, 3, 1)
    count, channels, height, width = images.shape
    columns = min(count, 8)
    rows = -(-count // columns)
    places = np.zeros((rows * columns, channels, height, width), images.dtype)
    places[:count] = images
    tiled = places.reshape(rows, columns, channels, height, width).transpose(0, 3, 1, 4, 2)
    return tiled.reshape(rows * height, columns * width, channels)


def _levels(tensor: Any, dataformats: str) -> np.ndarray:
    array = make_np(tensor)
    scale = 1 if array.dtype == np.uint8 else 255
    return (convert_to_HWC(array, dataformats).astype(np.float32) * scale).clip(0, 255).astype(np.uint8)


def _png(tag: str, picture: Any, rescale: float = 1) -> Summary:
    from PIL import Image

    height, width = picture.size[::-1]
    scaled = (int(width * rescale), int(height * rescale))
    file = io.BytesIO()
    (picture if scaled == picture.size else picture.resize(scaled, Image.Resampling.LANCZOS)).save(file, format="PNG")
    proto = Summary.Image(height=height, width=width, colorspace=len(picture.getbands()),
                          encoded_image_string=file.getvalue())
    return Summary(value=[Summary.Value(tag=tag, image=proto)])


def image(tag: str, tensor: Any, dataformats: str = "NCHW") -> Summary:
    from PIL import Image

    return _png(tag, Image.fromarray(_levels(tensor, dataformats)))


def image_boxes(tag: str, tensor_image: Any, tensor_boxes: Any, rescale: float = 1, dataformats: str = "CHW",
                labels: Sequence[str] | None = None) -> Summary:
    """A picture with a red frame, and a label, for each (x0, y0, x1, y1)."""
    from PIL import Image, ImageDraw, ImageFont

    picture = Image.fromarray(_levels(tensor_image, dataformats))
    draw = ImageDraw.Draw(picture)
    for i, (left, top, right, bottom) in enumerate(make_np(tensor_boxes)):
        draw.line([(left, top), (left, bottom), (right, bottom), (right, top), (left, top)], width=2, fill="Red")
        if labels is not None:
            font = ImageFont.load_default()
            x0, y0, x1, y1 = font.getbbox(labels[i])
            width, height = x1 - x0, y1 - y0
            margin = np.ceil(0.05 * height)
            draw.rectangle([(left, bottom - height - 2 * margin), (left + width, bottom)], fill="Red")
            draw.text((left + margin, bottom - height - margin), labels[i], fill="black", font=font)
    return _png(tag, picture, rescale)


def audio(tag: str, tensor: Any, sample_rate: int = 44100) -> Summary:
    array = make_np(tensor)
    if abs(array).max() > 1:
        print("warning: audio amplitude out of range, auto clipped.")
        array = array.clip(-1, 1)
    array = array.squeeze()
    if array.ndim != 1:
        raise AssertionError("input tensor should be 1 dimensional.")
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(sample_rate)
        sound.writeframes((array * np.iinfo(np.int16).max).astype("<i2").tobytes())
    proto = Summary.Audio(sample_rate=sample_rate, num_channels=1, length_frames=len(array),
                          encoded_audio_string=file.getvalue(), content_type="audio/wav")
    return Summary(value=[Summary.Value(tag=tag, audio=proto)])


def mesh(tag: str, vertices: Tensor, colors: Tensor | None, faces: Tensor | None,
         config_dict: Mapping[str, Any] | None) -> Summary:
    """Vertices, and what else there is, as three records that know of each other."""
    parts = [(tensor, kind) for tensor, kind in ((vertices, MeshPluginData.VERTEX), (faces, MeshPluginData.FACE),
                                                 (colors, MeshPluginData.COLOR)) if tensor is not None]
    components = mesh_metadata.get_components_bitmask([kind for _, kind in parts])
    config = json.dumps(config_dict, sort_keys=True)
    values = []
    for tensor, kind in parts:
        shape, flat = list(tensor.shape), tensor.float().reshape(-1).tolist()
        proto = TensorProto(dtype="DT_FLOAT", float_val=flat, tensor_shape=_shape(*shape))
        values.append(Summary.Value(tag=mesh_metadata.get_instance_name(tag, kind), tensor=proto,
                                    metadata=mesh_metadata.create_summary_metadata(
                                        tag, "", kind, components, shape, json_config=config)))
    return Summary(value=values)


# dashboards ----------------------------------------------------------------------------------------------------------


def custom_scalars(layout: Mapping[str, Mapping[str, Sequence[Any]]]) -> Summary:
    """Which curves TensorBoard draws into one chart."""
    categories = []
    for title, charts in layout.items():
        made = []
        for name, (kind, tags) in charts.items():
            if kind == "Margin":
                if len(tags) != 3:
                    raise AssertionError(f"Expected 3 tags, got {len(tags)}.")
                series = layout_pb2.MarginChartContent.Series(value=tags[0], lower=tags[1], upper=tags[2])
                made.append(layout_pb2.Chart(title=name, margin=layout_pb2.MarginChartContent(series=[series])))
            else:
                made.append(layout_pb2.Chart(title=name, multiline=layout_pb2.MultilineChartContent(tag=tags)))
        categories.append(layout_pb2.Category(title=title, chart=made))
    proto = TensorProto(dtype="DT_STRING", string_val=[layout_pb2.Layout(category=categories).SerializeToString()],
                        tensor_shape=TensorShapeProto())
    return _record("custom_scalars__config__", proto, "custom_scalars")


def _hparam(value: Any) -> tuple[struct_pb2.Value, str] | None:
    """A hyperparameter's value and type; None for one that is left out."""
    if value is None:
        return None
    if isinstance(value, (int, float)):
        return struct_pb2.Value(number_value=value), "DATA_TYPE_FLOAT64"
    if isinstance(value, str):
        return struct_pb2.Value(string_value=value), "DATA_TYPE_STRING"
    if isinstance(value, Tensor):
        return struct_pb2.Value(number_value=make_np(value).item()), "DATA_TYPE_FLOAT64"
    raise ValueError("value should be one of int, float, str, bool, or torch.Tensor")


def hparams(hparam_dict: Mapping[str, Any], metric_dict: Mapping[str, Any],
            hparam_domain_discrete: Mapping[str, Sequence[Any]] | None = None) -> tuple[Summary, Summary, Summary]:
    """The records of an experiment's settings, and of a session's start and end."""
    for name, given in (("hparam_dict", hparam_dict), ("metric_dict", metric_dict)):
        if not isinstance(given, Mapping):
            raise TypeError(f"parameter: {name} should be a dictionary, nothing logged.")
    domains = hparam_domain_discrete or {}
    for name, values in domains.items():
        if name not in hparam_dict or not isinstance(values, list) or not all(
                isinstance(v, type(hparam_dict[name])) for v in values):
            raise TypeError(f"parameter: hparam_domain_discrete[{name}] should be a list of same type as "
                            f"hparam_dict[{name}].")
    start, infos = plugin_data_pb2.SessionStartInfo(), []
    for name, value in hparam_dict.items():
        known = _hparam(value)
        if known is None:
            continue
        start.hparams[name].CopyFrom(known[0])
        choices = [_hparam(v)[0] for v in domains[name]] if name in domains else None  # type: ignore[index]
        infos.append(api_pb2.HParamInfo(name=name, type=api_pb2.DataType.Value(known[1]), domain_discrete=(
            None if choices is None else struct_pb2.ListValue(values=choices))))
    metrics = [api_pb2.MetricInfo(name=api_pb2.MetricName(tag=name)) for name in metric_dict]
    parts = {
        metadata.EXPERIMENT_TAG: {"experiment": api_pb2.Experiment(hparam_infos=infos, metric_infos=metrics)},
        metadata.SESSION_START_INFO_TAG: {"session_start_info": start},
        metadata.SESSION_END_INFO_TAG: {"session_end_info": plugin_data_pb2.SessionEndInfo(
            status=api_pb2.Status.Value("STATUS_SUCCESS"))},
    }
    made = []
    for tag, data in parts.items():
        content = plugin_data_pb2.HParamsPluginData(version=metadata.PLUGIN_DATA_VERSION, **data)
        plugin = SummaryMetadata.PluginData(plugin_name=metadata.PLUGIN_NAME, content=content.SerializeToString())
        made.append(Summary(value=[Summary.Value(tag=tag, metadata=SummaryMetadata(plugin_data=plugin))]))
    return made[0], made[1], made[2]
