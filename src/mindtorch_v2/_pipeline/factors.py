"""Which arrays that a plan is given are factors of its products, and may be kept packed from run to run."""

import sys
from collections.abc import Callable, Sequence
from typing import Any

from .._backends.cpu.factors import Factor, kept, known_factor, now
from .plan import Plan

_SETTINGS = f"{__name__.partition('.')[0]}._inductor.config"  # where a program turns packing off, if it loads it


def factors_in(plan: Plan) -> dict[int, list[int]]:
    """By the position of an input that products are computed with: how far into it, in bytes, the factors begin."""
    if plan.factors is None:
        found: dict[int, list[int]] = {}
        positions = {number: at for at, number in enumerate(plan.inputs)}
        root, offset = plan.places.root, plan.places.offset
        stay = positions.keys() - {root[number] for number in plan.writes}
        for entry in plan.entries:
            declaration = entry.operator.declaration
            packs = () if declaration is None else declaration.packs.split()
            for argument, number in zip(entry.operator.schema.arguments, entry.arguments, strict=True) if packs else ():
                if argument.name not in packs or number is None or root[number] not in stay:
                    continue
                offsets = found.setdefault(positions[root[number]], [])
                if plan.layouts[number].device.type == "cpu" and offset[number] not in offsets:
                    offsets.append(offset[number])
        plan.factors = found
    return plan.factors


def known_factors(plan: Plan, inputs: Sequence[Any], owner: Callable[[int], Any]) -> dict[int, Factor]:
    """The factors in a run of a plan on these arrays by where they begin; `owner` tells which tensor has an input."""
    table: dict[int, Factor] = {}
    found = factors_in(plan) if plan.factors is None else plan.factors
    if not found:
        return table
    settings = sys.modules.get(_SETTINGS)
    if settings is not None and not settings._config.get("cpp.weight_prepack", True):  # `settings.cpp` takes 20 us
        return table
    for position, offsets in found.items():
        tensor = owner(position)
        factor = None if tensor is None else known_factor(tensor, inputs[position])
        if factor is not None:
            for offset in offsets:
                table[factor.address + offset] = factor
    return table


def run_with_factors(table: dict[int, Factor], run: Callable[..., Any], *args: Any) -> Any:
    """What `run(*args)` gives, which may keep these factors packed."""
    if not table:
        return run(*args)
    before, now.table = now.table, table
    try:
        return run(*args)
    finally:
        now.table = before


def kept_bytes(inputs: Sequence[Any]) -> int:
    """The memory that packed forms of these arrays take now."""
    held = {id(array) for array in inputs}
    return sum(factor.nbytes for factor in kept() if id(factor.array()) in held)
