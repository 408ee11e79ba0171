"""What several ranks have is written by one."""

import dataclasses

from .metadata import MetadataIndex
from .planner import SavePlan, WriteItem

__all__ = ["dedup_save_plans"]


def dedup_save_plans(all_plans: list[SavePlan], save_to_lowest_rank: bool = False) -> list[SavePlan]:
    """Plans where each item stands once: with the rank that has least to write, or with the first."""
    owners: dict[MetadataIndex, list[int]] = {}
    items: dict[MetadataIndex, WriteItem] = {}
    for rank, plan in enumerate(all_plans):
        for item in plan.items:
            ranks = owners.setdefault(item.index, [])
            if rank not in ranks[-1:]:
                ranks.append(rank)
            items[item.index] = item
    load = [0] * len(all_plans)
    writer: dict[MetadataIndex, int] = {}
    for index, ranks in owners.items():
        writer[index] = ranks[0] if save_to_lowest_rank else min(ranks, key=load.__getitem__)
        load[writer[index]] += items[index].tensor_storage_size() or 1
    return [dataclasses.replace(plan, items=[item for item in plan.items if writer[item.index] == rank])
            for rank, plan in enumerate(all_plans)]
