"""What the tests load."""

import mindtorch_v2 as torch
from mindtorch_v2.utils import data


class Numbers(data.Dataset):
    def __init__(self, size: int = 5) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> int:
        return index


class Stream(data.IterableDataset):
    def __init__(self, size: int = 5) -> None:
        self.size = size

    def __iter__(self):
        return iter(range(self.size))


class SizedStream(Stream):
    def __len__(self) -> int:
        return self.size


def seeded(seed: int = 1) -> torch.Generator:
    return torch.Generator().manual_seed(seed)
