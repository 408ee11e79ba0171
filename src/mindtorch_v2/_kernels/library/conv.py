"""Convolutions of few elements, each element of the result from its window; larger ones are products of matrices.

Arrays are (batch, channels, depth, height, width), weights (made channels, channels of a group, depth, height, width).
"""

from ..language import function, kernel, like, parallel


@function
def window_start(at, stride, padding):
    return at * stride - padding


@function
def source_of(at, stride):
    """The place that `at` comes from by a stride, -1 if it comes from none."""
    return at // stride if at >= 0 and at % stride == 0 else -1


@kernel
def forward(out, x, weight, bias, stride_d, stride_h, stride_w, pad_d, pad_h, pad_w, dil_d, dil_h, dil_w, groups, *,
            biased):
    channels, made = weight.shape[1], out.shape[1]
    room = out.shape[2] * out.shape[3] * out.shape[4]
    for plane in parallel(out.shape[0] * made, room * channels * weight.shape[2] * weight.shape[3] * weight.shape[4]):
        n, o = plane // made, plane % made
        first = o // (made // groups) * channels
        for i in range(out.shape[2]):
            for j in range(out.shape[3]):
                for k in range(out.shape[4]):
                    total = like(0, x)
                    for c in range(channels):
                        for a in range(weight.shape[2]):
                            z = window_start(i, stride_d, pad_d) + a * dil_d
                            if 0 <= z < x.shape[2]:
                                for b in range(weight.shape[3]):
                                    y = window_start(j, stride_h, pad_h) + b * dil_h
                                    if 0 <= y < x.shape[3]:
                                        for e in range(weight.shape[4]):
                                            v = window_start(k, stride_w, pad_w) + e * dil_w
                                            if 0 <= v < x.shape[4]:
                                                total += x[n, first + c, z, y, v] * weight[o, c, a, b, e]
                    out[n, o, i, j, k] = total + bias[o] if biased else total


@kernel
def to_input(out, grad, weight, bias, stride_d, stride_h, stride_w, pad_d, pad_h, pad_w, dil_d, dil_h, dil_w, groups, *,
             biased):
    """The transposed map: from all results whose window an element is in."""
    channels, made, each = weight.shape[1], out.shape[1], weight.shape[0] // groups
    room = out.shape[2] * out.shape[3] * out.shape[4]
    for plane in parallel(out.shape[0] * made, room * each * weight.shape[2] * weight.shape[3] * weight.shape[4]):
        n, o = plane // made, plane % made
        first, own = o // channels * each, o % channels
        for i in range(out.shape[2]):
            for j in range(out.shape[3]):
                for k in range(out.shape[4]):
                    total = like(0, grad)
                    for a in range(weight.shape[2]):
                        z = source_of(i + pad_d - a * dil_d, stride_d)
                        if 0 <= z < grad.shape[2]:
                            for b in range(weight.shape[3]):
                                y = source_of(j + pad_h - b * dil_h, stride_h)
                                if 0 <= y < grad.shape[3]:
                                    for e in range(weight.shape[4]):
                                        v = source_of(k + pad_w - e * dil_w, stride_w)
                                        if 0 <= v < grad.shape[4]:
                                            for c in range(each):
                                                total += grad[n, first + c, z, y, v] * weight[first + c, own, a, b, e]
                    out[n, o, i, j, k] = total + bias[o] if biased else total


@kernel
def to_weight(out, grad, x, stride_d, stride_h, stride_w, pad_d, pad_h, pad_w, dil_d, dil_h, dil_w, groups):
    """The gradient of the weight: from all pairs of a result and the element that it takes by a tap."""
    each = out.shape[0] // groups
    taps, work = out.shape[2] * out.shape[3] * out.shape[4], grad.shape[2] * grad.shape[3] * grad.shape[4]
    for row in parallel(out.shape[0] * out.shape[1], taps * work * grad.shape[0]):
        o, c = row // out.shape[1], row % out.shape[1]
        of_x = o // each * out.shape[1] + c
        for a in range(out.shape[2]):
            for b in range(out.shape[3]):
                for e in range(out.shape[4]):
                    total = like(0, x)
                    for n in range(grad.shape[0]):
                        for i in range(grad.shape[2]):
                            z = window_start(i, stride_d, pad_d) + a * dil_d
                            if 0 <= z < x.shape[2]:
                                for j in range(grad.shape[3]):
                                    y = window_start(j, stride_h, pad_h) + b * dil_h
                                    if 0 <= y < x.shape[3]:
                                        for k in range(grad.shape[4]):
                                            v = window_start(k, stride_w, pad_w) + e * dil_w
                                            if 0 <= v < x.shape[4]:
                                                total += grad[n, o, i, j, k] * x[n, of_x, z, y, v]
                    out[o, c, a, b, e] = total
