"""Deferred execution: operators are recorded, planned together, and run as few kernels.

Recording happens below autograd, autocast and modes, at the place of the device's kernels: nodes, versions, hooks and
views are eager's own, and only elements come later. A tensor that was recorded has a `Deferred` array
(_core/deferred.py) until a flush gives it memory.

    with torch.pipeline() as pipe:          record.Pipeline
        y = (x * 2).exp().sum()             record.py: one entry a call in pipe.trace, no elements
    pipe.flush()                            also at the block's end, and wherever elements are looked at

    pipe.keeps = True                       notes each flush in pipe.history, a list of (Trace, Plan); else the last one
    pipe.lines = True                       notes the source line of every entry, not only of those that may fail

Trace (trace.py), what was recorded between two flushes. Values are numbered, inputs (arrays of tensors from outside)
and results alike, in the order in which they came.
    trace.layouts    [Layout(shape, strides in bytes, dtype, device)] by value
    trace.inputs     {number: array}
    trace.entries    [Entry]: operator, arguments (in the schema's order, `Value(number)` for a tensor, `Free(position)`
                     for a number of `trace.numbers`), results (numbers), kind, where ("file.py:12" or None)
    trace.numbers    Python numbers that a run is given anew, and that are no part of the signature
    trace.outputs    numbers of the values that somebody holds
    trace.writes     numbers of the inputs whose memory is written
    trace.signature()  hashable; traces of one signature have one plan

Plan (plan.py)
    plan_of(trace) -> Plan                  cache.py: the known one, or planner.planned(trace)
    plan.run(inputs, numbers) -> [array]    inputs and numbers in the trace's order, results in that of plan.outputs;
                                            inputs named in plan.writes are written in place
    plan.steps       [Step]: kind ("pointwise", "reduction", "row", "gather", "product", "view", "call"), entries
                     (indices into plan.entries), inputs, outputs (numbers), kernel (ir.Kernel or None), source(),
                     bytes, flops, seconds (of the last run while plan.timed is True), launches (on an NPU, the names of
                     ACLNN's operators)
    plan.memory      [Buffer(number, nbytes, first, last)]: memory a run takes, with the steps between which it is held
    plan.peak        bytes of it at most
"""
