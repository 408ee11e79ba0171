"""The next number in a direction: as whole numbers, the bits of neighbours of one sign differ by one."""

from ..language import as_float32, as_float64, as_int, copysign, function


@function
def stepped(bits, up, positive):
    """The bits of the neighbour, further from zero or nearer to it."""
    return bits + 1 if up == positive else bits - 1


@function
def beside(x, y, least, neighbour):
    """The number after x towards y, where that is `neighbour` unless x is zero or equal to y."""
    value = copysign(least, y) if x == 0.0 else neighbour
    value = y if x == y else value
    return x + y if x != x or y != y else value


@function
def nextafter_f32(x, y):
    return beside(x, y, as_float32(as_int(x) * 0 + 1), as_float32(stepped(as_int(x), y > x, x > 0.0)))


@function
def nextafter_f64(x, y):
    return beside(x, y, as_float64(as_int(x) * 0 + 1), as_float64(stepped(as_int(x), y > x, x > 0.0)))
