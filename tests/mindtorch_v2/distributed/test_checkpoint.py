"""torch.distributed.checkpoint: files of PyTorch, cutting anew on load, failures, and state dicts by plain names."""

import os
import pickle
import signal
import warnings
import zipfile
from pathlib import Path

import pytest

import mindtorch_v2 as torch
import mindtorch_v2.distributed as dist
import mindtorch_v2.distributed.checkpoint as dcp
from mindtorch_v2 import multiprocessing, nn
from mindtorch_v2.distributed.checkpoint._nested_dict import flatten_state_dict, unflatten_state_dict
from mindtorch_v2.distributed.checkpoint.format_utils import (
    BroadcastingTorchSaveReader,
    DynamicMetaLoadPlanner,
    dcp_to_torch_save,
    torch_save_to_dcp,
)
from mindtorch_v2.distributed.checkpoint.metadata import TensorProperties
from mindtorch_v2.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    get_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
    set_state_dict,
)
from mindtorch_v2.distributed.checkpoint.state_dict_loader import _load_state_dict_from_keys
from mindtorch_v2.distributed.device_mesh import init_device_mesh
from mindtorch_v2.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from mindtorch_v2.distributed.tensor.placement_types import _StridedShard

GOLDEN = Path(__file__).parents[1] / "golden" / "distributed_checkpoint.zip"
pytestmark = pytest.mark.filterwarnings("ignore:torch.distributed is", "ignore:Detected an existing checkpoint")


def counted(*shape):
    return torch.arange(torch.Size(shape).numel(), dtype=torch.float32).reshape(shape)


@pytest.fixture
def written_by_pytorch(tmp_path):
    """A checkpoint that PyTorch 2.13 wrote with four ranks: tests/parity/distributed/checkpoint.py."""
    with zipfile.ZipFile(GOLDEN) as archive:
        archive.extractall(tmp_path / "pytorch")
    return tmp_path / "pytorch"


# files ----------------------------------------------------------------------------------------------------------------


def test_a_checkpoint_of_pytorch_is_read_whole(written_by_pytorch):
    state = _load_state_dict_from_keys(checkpoint_id=written_by_pytorch)
    assert state["step"] == 7
    assert state["notes"]["names"] == ["a", "b"]
    assert state["notes"]["numbers"][1].tolist() == [2, 3]
    assert state["half"].dtype is torch.bfloat16
    assert state["half"].tolist() == [0, 1, 2, 3, 4]
    assert state["everywhere"].tolist() == [0, 1, 2]
    assert torch.equal(state["strided"], counted(8, 2))
    weight, moments = state["model"]["0.weight"], state["optimizer"]["state"]["0.weight"]
    torch.testing.assert_close(moments["exp_avg"], counted(6, 4) * 0.1)
    torch.testing.assert_close(weight.flatten()[1:], counted(6, 4).flatten()[1:] - 0.125)
    assert moments["step"].item() == 1
    assert state["optimizer"]["param_groups"][0]["params"] == ["0.weight", "0.bias", "2.weight"]
    assert _load_state_dict_from_keys("model.2.weight", checkpoint_id=written_by_pytorch).keys() == {"model"}
    assert _load_state_dict_from_keys("notes", checkpoint_id=written_by_pytorch).keys() == {"notes"}


def test_pieces_are_cut_anew(together, tmp_path, written_by_pytorch):
    """Of PyTorch's four ranks and of two of ours, onto two ranks in all placements."""

    def ranks(rank):
        mesh = init_device_mesh("cpu", (2,))
        for placement in (Shard(0), Shard(1), Replicate()):
            state = {"strided": distribute_tensor(torch.zeros(8, 2), mesh, [placement]), "half": torch.zeros(5),
                     "model": {"2.weight": distribute_tensor(torch.zeros(3, 6), mesh, [placement])}}
            dcp.load(state, checkpoint_id=written_by_pytorch)
            assert torch.equal(state["strided"].full_tensor(), counted(8, 2))
            assert state["half"].tolist() == [0, 1, 2, 3, 4]
            torch.testing.assert_close(state["model"]["2.weight"].full_tensor().flatten()[1:],
                                       counted(18)[1:] - 0.125)
        own = tmp_path / "own"
        grid = init_device_mesh("cpu", (1, 2), mesh_dim_names=("a", "b"))
        saved = {"rows": distribute_tensor(counted(5, 3), mesh, [Shard(0)]),
                 "columns": distribute_tensor(counted(2, 3), mesh, [Shard(1)]),
                 "nothing": distribute_tensor(counted(1, 3), mesh, [Shard(0)]),
                 "apart": distribute_tensor(counted(7, 2), grid, [Replicate(), _StridedShard(0, split_factor=2)]),
                 "number": distribute_tensor(torch.tensor(4.0), mesh, [Replicate()]),
                 "parameter": nn.Parameter(distribute_tensor(counted(4), mesh, [Shard(0)])),
                 "plain": counted(3), "object": {"rank": [1, 2]}}
        metadata = dcp.save(saved, checkpoint_id=own)
        chunks = {name: [(tuple(chunk.offsets), tuple(chunk.sizes)) for chunk in entry.chunks]
                  for name, entry in metadata.state_dict_metadata.items() if hasattr(entry, "chunks")}
        assert chunks["rows"] == [((0, 0), (3, 3)), ((3, 0), (2, 3))]
        assert chunks["nothing"] == [((0, 0), (1, 3)), ((1, 0), (0, 3))]
        assert sorted(chunks["apart"]) == [((0, 0), (2, 2)), ((2, 0), (2, 2)), ((4, 0), (2, 2)), ((6, 0), (1, 2))]
        assert chunks["plain"] == [((0,), (3,))]
        state = {"rows": distribute_tensor(torch.zeros(5, 3), mesh, [Shard(1)]), "columns": torch.zeros(2, 3),
                 "nothing": torch.zeros(1, 3), "apart": distribute_tensor(torch.zeros(7, 2), mesh, [Shard(0)]),
                 "number": torch.tensor(0.0), "parameter": torch.zeros(4), "object": {"rank": None},
                 "plain": distribute_tensor(torch.zeros(3), grid, [Replicate(), _StridedShard(0, split_factor=2)])}
        dcp.load(state, checkpoint_id=own)
        whole = {name: value.full_tensor() if isinstance(value, DTensor) else value for name, value in state.items()}
        assert torch.equal(whole["rows"], counted(5, 3))
        assert torch.equal(whole["columns"], counted(2, 3))
        assert torch.equal(whole["nothing"], counted(1, 3))
        assert torch.equal(whole["apart"], counted(7, 2))
        assert torch.equal(whole["plain"], counted(3))
        assert torch.equal(whole["parameter"], counted(4))
        assert whole["number"].item() == 4
        assert whole["object"] == {"rank": [1, 2]}

    together(2, ranks)


def test_a_rank_that_fails_is_named_on_all(together, tmp_path):
    def ranks(rank):
        class Failing(dcp.DefaultSavePlanner):
            def create_local_plan(self):
                if rank == 1:
                    raise ValueError("no plan today")
                return super().create_local_plan()

        with pytest.raises(dcp.CheckpointException, match="no plan today") as caught:
            dcp.save({"a": torch.ones(2)}, checkpoint_id=tmp_path / "failed", planner=Failing())
        assert list(caught.value.failures) == [1]
        assert "(RANK 1)" in str(caught.value)
        with pytest.raises(dcp.CheckpointException, match="No such file"):
            dcp.load({"a": torch.ones(2)}, checkpoint_id=tmp_path / "failed")
        # a group goes on after that; and a save in the background does not disturb its collectives
        values = torch.full((3,), 1.0)
        future = dcp.async_save({"values": values, "rank": "any"}, checkpoint_id=tmp_path / "background")
        for _ in range(20):
            values += 1
            dist.all_reduce(torch.ones(4))
        assert set(future.result().state_dict_metadata) == {"values", "rank"}
        loaded = {"values": torch.zeros(3)}
        dcp.load(loaded, checkpoint_id=tmp_path / "background")
        assert loaded["values"].tolist() == [1, 1, 1]
        # each on its own
        mine = {f"of {rank}": torch.full((2,), float(rank))}
        dcp.save(mine, checkpoint_id=tmp_path / "alone", use_collectives=False)
        files = sorted(os.listdir(tmp_path / "alone"))
        assert files == ["__0.metadata", "__0_0.distcp", "__1.metadata", "__1_0.distcp"]
        found = {f"of {rank}": torch.zeros(2)}
        dcp.load(found, checkpoint_id=tmp_path / "alone")
        assert found[f"of {rank}"].tolist() == [rank, rank]
        # a file of torch.save, read by one and sent to all
        if rank == 0:
            torch.save({"model": {"w": counted(5, 2), "b": counted(3)}}, tmp_path / "one.pt")
        dist.barrier()
        mesh = init_device_mesh("cpu", (2,))
        state = {"model": {"w": distribute_tensor(torch.zeros(5, 2), mesh, [Shard(0)]), "b": torch.zeros(3)}}
        dcp.load(state, checkpoint_id=tmp_path / "one.pt", storage_reader=BroadcastingTorchSaveReader(),
                 planner=DynamicMetaLoadPlanner())
        assert torch.equal(state["model"]["w"].full_tensor(), counted(5, 2))
        assert torch.equal(state["model"]["b"], counted(3))

    together(2, ranks)


class _Killed(dcp.DefaultSavePlanner):
    def resolve_data(self, write_item):
        if write_item.index.fqn == "second":
            os.kill(os.getpid(), signal.SIGKILL)
        return super().resolve_data(write_item)


class _KilledAtTheEnd(dcp.FileSystemWriter):
    def __init__(self, path):
        super().__init__(path)
        self.fs.rename = lambda *paths: os.kill(os.getpid(), signal.SIGKILL)


def _interrupted(folder, at_the_end):
    state = {"first": torch.full((4,), 2.0), "second": torch.full((4,), 2.0)}
    if at_the_end:
        dcp.save(state, storage_writer=_KilledAtTheEnd(folder))
    else:
        dcp.save(state, checkpoint_id=folder, planner=_Killed())


@pytest.mark.parametrize("at_the_end", [False, True])
def test_a_save_that_is_killed_leaves_the_last_checkpoint_whole(tmp_path, at_the_end):
    dcp.save({"first": torch.ones(4), "second": torch.ones(4)}, checkpoint_id=tmp_path)
    process = multiprocessing.get_context("fork").Process(target=_interrupted, args=(tmp_path, at_the_end))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    state = {"first": torch.zeros(4), "second": torch.zeros(4)}
    dcp.load(state, checkpoint_id=tmp_path)
    assert state["first"].tolist() == state["second"].tolist() == [1, 1, 1, 1]
    dcp.save({"first": torch.full((4,), 3.0), "second": torch.full((4,), 3.0)}, checkpoint_id=tmp_path)
    dcp.load(state, checkpoint_id=tmp_path)
    assert state["first"].tolist() == state["second"].tolist() == [3, 3, 3, 3]
    assert len([name for name in os.listdir(tmp_path) if name.endswith(".distcp")]) == 1


# one process ----------------------------------------------------------------------------------------------------------


def test_metadata_hold_pytorch_s_names(tmp_path):
    metadata = dcp.save({"a": {"b": torch.ones(2, dtype=torch.int64)}}, checkpoint_id=tmp_path)
    data = (tmp_path / ".metadata").read_bytes()
    assert b"torch.distributed.checkpoint.metadata" in data
    assert b"mindtorch" not in data
    assert metadata.version == "1.0.0"
    assert metadata.planner_data == {"a.b": ("a", "b")}
    entry = metadata.state_dict_metadata["a.b"]
    assert entry.size == torch.Size([2])
    assert entry.properties == TensorProperties(dtype=torch.int64)
    assert pickle.loads(pickle.dumps(entry)) == entry


def test_nested_states_flatten_as_in_pytorch():
    tensor = torch.ones(1)
    nested = {"a": {"b": tensor, 3: [1, tensor, {"c": 2}]}, "plain": [1, 2], "deep": [[1], {}], "empty": {},
              "pair": (1, tensor)}
    flat, paths = flatten_state_dict(nested)
    assert list(flat) == ["a.b", "a.3.0", "a.3.1", "a.3.2.c", "plain", "deep.0", "pair"]
    assert paths["a.3.2.c"] == ("a", "3", 2, "c")
    assert flat["plain"] == [1, 2]
    back = unflatten_state_dict(flat, paths)
    assert back["a"]["3"][2] == {"c": 2}
    assert back["deep"] == [[1]]
    with pytest.raises(ValueError, match="duplicated flatten key a.b"):
        flatten_state_dict({"a": {"b": 1}, "a.b": 2})


def test_files_and_options(tmp_path):
    state = {f"t{i}": torch.full((i + 1,), float(i)) for i in range(4)} | {"view": torch.arange(100)[10:12],
                                                                          "turned": counted(2, 3).t(), "text": "x"}

    def check(folder):
        found = {name: torch.zeros_like(value) if isinstance(value, torch.Tensor) else None
                 for name, value in state.items()}
        dcp.load(found, checkpoint_id=folder)
        assert found.pop("text") == "x"
        assert all(torch.equal(value, state[name]) for name, value in found.items())

    for number, options in enumerate(({}, {"single_file_per_rank": False}, {"thread_count": 3}, {"sync_files": False})):
        folder = tmp_path / str(number)
        dcp.save(state, storage_writer=dcp.FileSystemWriter(folder, **options))
        assert len(list(folder.iterdir())) == {0: 2, 1: 8, 2: 4, 3: 2}[number]
        check(folder)
    assert (tmp_path / "0" / "__0_0.distcp").stat().st_size < 12_000  # the view without what it is a view of
    with pytest.raises(dcp.CheckpointException, match="Checkpoint already exists and self.overwrite=False"):
        dcp.save(state, storage_writer=dcp.FileSystemWriter(tmp_path / "0", overwrite=False))
    dcp_to_torch_save(tmp_path / "0", tmp_path / "one.pt")
    torch_save_to_dcp(tmp_path / "one.pt", tmp_path / "again")
    check(tmp_path / "again")
    with pytest.raises(RuntimeError, match="`checkpoint_id` must be specified"):
        dcp.save(state)


def test_what_cannot_be_loaded_says_so(tmp_path):
    dcp.save({"a": torch.ones(2), "text": "x"}, checkpoint_id=tmp_path)
    with pytest.raises(dcp.CheckpointException, match="Missing key in checkpoint state_dict: b"):
        dcp.load({"b": torch.ones(2)}, checkpoint_id=tmp_path)
    with pytest.raises(dcp.CheckpointException, match=r"Size mismatch between saved torch.Size\(\[2\]\) and current: "
                                                      r"torch.Size\(\[3\]\) for a"):
        dcp.load({"a": torch.ones(3)}, checkpoint_id=tmp_path)
    with pytest.raises(dcp.CheckpointException, match="Invalid checkpoint metadata for a, expected BytesStorage"):
        dcp.load({"a": "text"}, checkpoint_id=tmp_path)
    state = {"a": torch.zeros(2, device="meta"), "b": torch.ones(1)}
    dcp.load(state, checkpoint_id=tmp_path, planner=dcp.DefaultLoadPlanner(allow_partial_load=True))
    assert state["a"].tolist() == [1, 1]
    assert state["b"].tolist() == [1]


def test_objects_with_a_state_and_planners_of_others(tmp_path):
    class Renaming(dcp.DefaultSavePlanner):
        def set_up_planner(self, state_dict, storage_meta=None, is_coordinator=False):
            super().set_up_planner({f"new {name}": value for name, value in state_dict.items()}, storage_meta,
                                   is_coordinator)

    class Halving(dcp.DefaultLoadPlanner):
        def commit_tensor(self, read_item, tensor):
            tensor.mul_(0.5)

    model = nn.Linear(2, 2)
    dcp.save({"model": model}, checkpoint_id=tmp_path / "model")
    other = nn.Linear(2, 2)
    dcp.load({"model": other}, checkpoint_id=tmp_path / "model")
    assert torch.equal(other.weight, model.weight)
    dcp.save({"a": torch.full((2,), 4.0)}, checkpoint_id=tmp_path / "renamed", planner=Renaming())
    state = {"new a": torch.zeros(2)}
    dcp.load(state, checkpoint_id=tmp_path / "renamed", planner=Halving())
    assert state["new a"].tolist() == [2, 2]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        dcp.save_state_dict({"a": torch.ones(1)}, dcp.FileSystemWriter(tmp_path / "old"), no_dist=True)
        dcp.load_state_dict({"a": torch.ones(1)}, dcp.FileSystemReader(tmp_path / "old"), no_dist=True)
    assert [w.category for w in caught] == [FutureWarning, FutureWarning]


# state dicts ----------------------------------------------------------------------------------------------------------


def _in_pieces(mesh, scale):
    model = nn.Sequential(nn.Linear(3, 5), nn.Linear(5, 2, bias=False))
    for layer, name in ((0, "weight"), (0, "bias"), (1, "weight")):
        value = counted(*getattr(model[layer], name).shape) * scale
        setattr(model[layer], name, nn.Parameter(distribute_tensor(value, mesh, [Shard(0)])))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.125)
    if scale:
        for parameter in model.parameters():
            parameter.grad = torch.ones_like(parameter)
        optimizer.step()
        optimizer.zero_grad()
    return model, optimizer


def _lists(state):
    if isinstance(state, DTensor):
        return state.full_tensor().tolist()
    if isinstance(state, torch.Tensor):
        return state.tolist()
    if isinstance(state, dict):
        return {key: _lists(value) for key, value in state.items()}
    return [_lists(value) for value in state] if isinstance(state, (list, tuple)) else state


def test_states_of_models_in_pieces(together):
    def ranks(rank):
        mesh = init_device_mesh("cpu", (2,))
        model, optimizer = _in_pieces(mesh, 1.0)
        expected = _lists(get_state_dict(model, optimizer))
        assert list(expected[0]) == ["0.weight", "0.bias", "1.weight"]
        assert expected[1]["param_groups"][0]["params"] == ["0.weight", "0.bias", "1.weight"]
        whole = StateDictOptions(full_state_dict=True)
        states = get_state_dict(model, optimizer, options=whole)
        assert type(states[0]["0.bias"]) is torch.Tensor
        assert states[1]["state"]["0.weight"]["exp_avg"].shape == (5, 3)
        on_rank_0 = get_state_dict(model, optimizer, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
        assert (on_rank_0 == ({}, {})) is (rank == 1)
        flat = StateDictOptions(flatten_optimizer_state_dict=True)
        names = set(get_optimizer_state_dict(model, optimizer, options=flat))
        assert {"state.0.bias.exp_avg", "state.1.weight.step", "param_groups.0.bias.lr"} <= names
        for given, options in ((states, whole), (get_state_dict(model, optimizer, options=flat), flat),
                               (on_rank_0, StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)),
                               (get_state_dict(model, optimizer), None)):
            other = _in_pieces(mesh, 0.0)
            keys = set_state_dict(*other, model_state_dict=given[0], optim_state_dict=given[1], options=options)
            assert keys.missing_keys == keys.unexpected_keys == []
            assert _lists(get_state_dict(*other)) == expected
            assert isinstance(other[1].state[other[0][0].weight]["exp_avg"], DTensor)
        with pytest.raises(ValueError, match="full_state_dict must be True when broadcast_from_rank0 is True"):
            get_model_state_dict(model, options=StateDictOptions(broadcast_from_rank0=True))
        wrapped = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(2, 2)))
        state = get_model_state_dict(wrapped)
        assert list(state) == ["0.weight", "0.bias"]
        state["0.bias"] = torch.full((2,), 3.0)
        set_model_state_dict(wrapped, state)
        assert wrapped.module[0].bias.tolist() == [3, 3]

    together(2, ranks)


def test_states_with_shared_and_frozen_parameters():
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    model[1].weight = model[0].weight
    optimizer = torch.optim.SGD([{"params": [model[0].bias]}, {"params": [model[0].weight, model[1].bias], "lr": 0.5}],
                                lr=0.1, momentum=0.9)
    state = get_optimizer_state_dict(model, optimizer)
    assert [group["params"] for group in state["param_groups"]] == [["0.bias"], ["0.weight", "1.bias"]]
    assert all(parameter.grad is None for parameter in model.parameters())
    state["state"]["0.weight"]["momentum_buffer"] = torch.full((2, 2), 5.0)
    set_optimizer_state_dict(model, optimizer, state)
    assert optimizer.state[model[1].weight]["momentum_buffer"].tolist() == [[5, 5], [5, 5]]
    assert optimizer.param_groups[1]["lr"] == 0.5
    model[0].bias.requires_grad_(False)
    assert "0.bias" not in get_model_state_dict(model, options=StateDictOptions(ignore_frozen_params=True))
    del state["state"]["1.bias"]
    with pytest.raises(RuntimeError, match="Missing optimizer state for parameter '1.bias' in checkpoint"):
        set_optimizer_state_dict(model, optimizer, state)
    set_optimizer_state_dict(model, optimizer, state, options=StateDictOptions(strict=False))
    with pytest.raises(RuntimeError, match="optim state_dict is empty"):
        set_optimizer_state_dict(model, optimizer, {})
