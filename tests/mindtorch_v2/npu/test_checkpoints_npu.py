"""Tensors of an NPU in files."""

from typing import Any

from device_cases import loader_of_saved


def test_tensors_come_back_to_their_device_or_where_they_are_sent(npu: Any) -> None:
    loaded = loader_of_saved("npu")
    found = loaded()
    assert [str(t.device) for t in found.values()] == ["npu:0", "npu:0", "cpu"]
    assert found["turned"].cpu().tolist() == [[0, 3], [1, 4], [2, 5]]
    assert found["turned"].untyped_storage() is found["base"].untyped_storage()
    assert {t.device.type for t in loaded("cpu").values()} == {"cpu"}
    sent = loaded("npu:0")
    assert {str(t.device) for t in sent.values()} == {"npu:0"}
    assert (sent["host"] + sent["base"][:2]).cpu().tolist() == [1, 2]
