"""Steps of optimizers over one parameter: each operation rounded, as those of single operators are."""

from ..language import flat, function, kernel, ordered, parallel, sqrt


@function
def followed(gradient, parameter, decay, decays, maximize):
    """The gradient to follow down, with weight decay in it."""
    down = -gradient if maximize else gradient
    return ordered(down + ordered(decay * parameter)) if decays else down


@kernel
def sgd(parameter: flat, gradient: flat, count, lr: float, decay: float, *, decays, maximize):
    for i in parallel(count, 3):
        p = parameter[i]
        g = followed(gradient[i], p, decay, decays, maximize)
        parameter[i] = ordered(p - ordered(lr * g))


@kernel
def sgd_with_momentum(parameter: flat, gradient: flat, buffer: flat, count, lr: float, decay: float, momentum: float,
                      share: float, *, decays, maximize, first, damped, nesterov):
    for i in parallel(count, 6):
        p = parameter[i]
        g = followed(gradient[i], p, decay, decays, maximize)
        b = g if first else ordered(ordered(buffer[i] * momentum) + (ordered(share * g) if damped else g))
        buffer[i] = b
        if nesterov:
            g = ordered(g + ordered(momentum * b))
        else:
            g = b
        parameter[i] = ordered(p - ordered(lr * g))


@kernel
def adam(parameter: flat, gradient: flat, mean: flat, square_mean: flat, count, step_size: float, correction: float,
         share1: float, beta2: float, share2: float, eps: float, decay: float, *, decays, maximize):
    """`decays` is "not", "within" the gradient by `decay`, or "apart", where `decay` is what is left of a parameter."""
    for i in parallel(count, 20):
        p = parameter[i]
        if decays == "apart":
            p = ordered(p * decay)
        g = followed(gradient[i], p, decay, decays == "within", maximize)
        m = mean[i]
        m = ordered(m + ordered(ordered(g - m) * share1))
        s = ordered(ordered(square_mean[i] * beta2) + ordered(ordered(g * g) * share2))
        mean[i] = m
        square_mean[i] = s
        change = m / ordered(sqrt(s) / correction + eps)
        parameter[i] = ordered(p + ordered(change * step_size))


@kernel
def adagrad(parameter: flat, gradient: flat, total: flat, count, rate: float, eps: float, decay: float, *, decays,
            maximize):
    for i in parallel(count, 12):
        p = parameter[i]
        g = followed(gradient[i], p, decay, decays, maximize)
        t = ordered(total[i] + ordered(g * g))
        total[i] = t
        parameter[i] = ordered(p - ordered(g / ordered(sqrt(t) + eps) * rate))
