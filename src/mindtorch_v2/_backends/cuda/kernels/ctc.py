"""The CTC loss and its gradient on a GPU: a block goes through the steps of a sample, a thread has a place of it."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ..array import CudaArray, empty, from_host, layout_of
from ..families import layout_for
from ..launch import c_type, kernel
from ..plans import dense, planned

# Places are the labels of a sample with blanks around them. `lengths` are those of the inputs and of the targets, and
# where in all targets those of a sample begin.
_CTC = r"""
#define NEVER (-__longlong_as_double(0x7ff0000000000000LL))
__device__ inline T added(T a, T b) {  // of logarithms
    if (a == b) return a + (T)0.693147180559945309;
    T apart = a - b;
    return apart > 0 ? a + log1p(exp(-apart)) : apart <= 0 ? b + log1p(exp(apart)) : apart;
}
struct sample {
    const int64* targets;
    int64 inputs, labels, blank;
    __device__ sample(const int64* all, const int64* lengths, int64 batch, int64 blank_) : blank(blank_) {
        inputs = lengths[blockIdx.x]; labels = lengths[batch + blockIdx.x];
        targets = all + lengths[2 * batch + blockIdx.x];
    }
    __device__ int64 label(int64 place) const { return place % 2 && place / 2 < labels ? targets[place / 2] : blank; }
    // A label may follow another without the blank between them, unless it is the same.
    __device__ bool skips(int64 place) const { return place % 2 && place > 2 && label(place) != label(place - 2); }
};
extern "C" __global__ void align(const T* shown, const int64* targets, const int64* lengths, T* losses, T* alpha,
                                 int64 steps, int64 batch, int64 classes, int64 places, int64 blank) {
    sample own(targets, lengths, batch, blank);
    alpha += blockIdx.x * steps * places;
    for (int64 t = 0; t < steps; ++t) {
        const T* now = shown + (t * batch + blockIdx.x) * classes;
        const T* before = alpha + (t - 1) * places;
        for (int64 s = threadIdx.x; s < places; s += blockDim.x) {
            T made = (T)NEVER;
            if (t == 0) { if (s < 2 && s <= 2 * own.labels) made = now[own.label(s)]; }
            else {
                made = before[s];
                if (s > 0) made = added(made, before[s - 1]);
                if (own.skips(s)) made = added(made, before[s - 2]);
                made += now[own.label(s)];
            }
            alpha[t * places + s] = made;
        }
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        T made = own.labels > 0 ? -(T)NEVER : (T)0;
        if (own.inputs > 0) {
            const T* last = alpha + (own.inputs - 1) * places + 2 * own.labels;
            made = -added(last[0], own.labels > 0 ? last[-1] : (T)NEVER);
        }
        losses[blockIdx.x] = made;
    }
}
extern "C" __global__ void align_backward(const T* grad, const T* shown, const int64* targets, const int64* lengths,
                                          const T* losses, const T* alpha, T* out, int64 steps, int64 batch,
                                          int64 classes, int64 places, int64 blank, int64 zero_infinity) {
    extern __shared__ char room[];
    T* beta = (T*)room;  // of two steps in turns
    T* shares = beta + 2 * places;
    int64* labels = (int64*)(room + (3 * places * sizeof(T) + 7) / 8 * 8);
    sample own(targets, lengths, batch, blank);
    alpha += blockIdx.x * steps * places;
    T loss = losses[blockIdx.x], g = grad[blockIdx.x];
    bool never = loss == -(T)NEVER;
    for (int64 s = threadIdx.x; s < places; s += blockDim.x) { beta[s] = (T)NEVER; labels[s] = own.label(s); }
    __syncthreads();
    for (int64 t = steps - 1; t >= 0; --t) {
        const T* now = shown + (t * batch + blockIdx.x) * classes;
        T* made = out + (t * batch + blockIdx.x) * classes;
        T *after = beta + (steps - 1 - t) % 2 * places, *next = beta + (steps - t) % 2 * places;
        bool used = t < own.inputs && !(zero_infinity && never);
        for (int64 c = threadIdx.x; c < classes; c += blockDim.x)
            made[c] = used ? (exp(now[c]) - (never ? loss - loss : (T)0)) * g : (T)0;
        for (int64 s = threadIdx.x; s < places; s += blockDim.x) {
            T state = after[s];
            if (s + 1 < places) state = added(state, after[s + 1]);
            if (s + 2 < places && own.skips(s + 2)) state = added(state, after[s + 2]);
            if (t == own.inputs - 1) state = s == 2 * own.labels || s == 2 * own.labels - 1 ? (T)0 : (T)NEVER;
            shares[s] = exp(alpha[t * places + s] + state + loss);
            next[s] = state + now[labels[s]];
        }
        __syncthreads();
        if (used)
            for (int64 s = threadIdx.x; s < places; s += blockDim.x) {
                bool first = true;  // of the places of a label, whose shares one thread adds
                for (int64 o = s - 2; o >= 0 && first; o -= 2) first = labels[o] != labels[s];
                if (s % 2 && labels[s] == blank) first = false;
                if (!first) continue;
                T total = 0;
                for (int64 o = s; o < places; ++o) if (labels[o] == labels[s]) total += shares[o];
                made[labels[s]] -= total * g;
            }
        __syncthreads();
    }
}
"""
_ROOM = 48 << 10  # bytes that the threads of a block share


def _source(kind: np.dtype) -> str:
    return f"typedef {c_type(kind)} T;\n{_CTC}"


def _lengths(targets: CudaArray, input_lengths: tuple, target_lengths: tuple) -> CudaArray:
    rows = len(targets.shape) == 2
    starts = [targets.shape[1] * i for i in range(len(target_lengths))] if rows else (
        np.cumsum(target_lengths) - target_lengths)
    return from_host(np.array([input_lengths, target_lengths, starts], np.int64), targets.device)


def _threads(places: int) -> tuple[int]:
    return (min(places + 31 & ~31, 1024),)


def _takes(log_probs: CudaArray, targets: CudaArray) -> bool:
    return bool(log_probs.size) and targets.dtype == np.dtype(np.int64)


@planned
def ctc_loss(specs: Any, log_probs: CudaArray, targets: CudaArray, input_lengths: tuple, target_lengths: tuple,
             blank: int, zero_infinity: bool) -> Callable | None:
    if not _takes(log_probs, targets):
        return None
    steps, batch, classes = log_probs.shape
    made = [layout_for(spec) for spec in specs]
    places = made[1].shape[2]
    launch = kernel(_source(log_probs.dtype), "align", "q" * 10)
    lengths, block = _lengths(targets, input_lengths, target_lengths), _threads(places)

    def run(log_probs: CudaArray, targets: CudaArray, *options: Any) -> list[CudaArray]:
        losses, alpha = (empty(layout, log_probs.device) for layout in made)
        shown, labels = dense(log_probs), dense(targets)
        launch.over((batch,), block, shown.pointer, labels.pointer, lengths.pointer, losses.pointer, alpha.pointer,
                    steps, batch, classes, places, blank)
        return [losses, alpha]

    return run


@planned
def ctc_loss_backward(spec: Any, grad_out: CudaArray, log_probs: CudaArray, targets: CudaArray, input_lengths: tuple,
                      target_lengths: tuple, neg_log_likelihood: CudaArray, log_alpha: CudaArray, blank: int,
                      zero_infinity: bool) -> Callable | None:
    steps, batch, classes = log_probs.shape
    places, made = log_alpha.shape[2], layout_of(log_probs.shape, log_probs.dtype)
    room = (3 * places * log_probs.dtype.itemsize + 7) // 8 * 8 + 8 * places
    if not _takes(log_probs, targets) or room > _ROOM:
        return None
    launch = kernel(_source(log_probs.dtype), "align_backward", "q" * 13)
    lengths, block = _lengths(targets, input_lengths, target_lengths), _threads(places)

    def run(grad_out: CudaArray, log_probs: CudaArray, targets: CudaArray, input_lengths: tuple, target_lengths: tuple,
            losses: CudaArray, alpha: CudaArray, *options: Any) -> CudaArray:
        out = empty(made, log_probs.device)
        given = [dense(each) for each in (grad_out, log_probs, targets)]
        kept = [dense(each) for each in (losses, alpha)]
        launch.over((batch,), block, *(each.pointer for each in given), lengths.pointer,
                    *(each.pointer for each in kept), out.pointer, steps, batch, classes, places, blank,
                    int(zero_infinity), shared=room)
        return out

    return run
