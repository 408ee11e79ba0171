"""Modified Bessel functions of the first kind."""

from ..language import exp, fma, function, sqrt
from .common import polynomial

# i0(x) and i1(x) / x of z = x**2 for |x| <= 8
I0_F32 = (1.0, 0.25000006, 0.01562495, 0.00043404382, 6.779314e-06, 6.800497e-08, 4.6235185e-10, 2.6341921e-12,
          5.8155842e-15, 5.7160986e-17)  # fmt: skip
I0_F64 = (1.0, 0.25, 0.015625, 0.0004340277777777778, 6.781684027777776e-06, 6.781684027777845e-08,
          4.709502797066704e-10, 2.4028075495389625e-12, 9.385966989079761e-15, 2.896903399914767e-17,
          7.242258116162361e-20, 1.4963356605984539e-22, 2.5977699220589474e-25, 3.84353847949518e-28,
          4.892690166520844e-31, 5.535970860436935e-34, 4.722657213303958e-37, 6.914462289852209e-40)  # fmt: skip
I1_F32 = (0.5, 0.06250001, 0.0026041628, 5.4254575e-05, 6.780216e-07, 5.662106e-09, 3.318283e-11, 1.6178229e-13,
          3.5045522e-16, 2.750445e-18)  # fmt: skip
I1_F64 = (0.5, 0.0625, 0.0026041666666666665, 5.425347222222222e-05, 6.781684027777777e-07, 5.651403356481509e-09,
          3.363930569333755e-11, 1.5017547184580627e-13, 5.214426105305313e-16, 1.4484516986411001e-18,
          3.2919355565263196e-21, 6.234730552569612e-24, 9.991450893447636e-27, 1.3726501087970917e-29,
          1.6313455653081074e-32, 1.7267893622758343e-35, 1.4027469966482563e-38, 1.8939346538769603e-41)  # fmt: skip
# exp(-x) * sqrt(x) * i0(x), and the same of i1, of t = 16 / x - 1 for x >= 8
I0_FAR_F32 = (0.4021765, 0.0033605588, 0.00013639871, 1.1099952e-05, 9.915893e-07, 3.7244487e-07, 4.3174924e-07)
I0_FAR_F64 = (0.4021765094450081, 0.0033605519836678453, 0.00013621607439017757, 1.114303379237677e-05,
              1.4838476519297851e-06, 2.9735982086187185e-07, 8.872054958688995e-08, 3.932630397163744e-08,
              2.156460578285905e-08, 7.551592763800298e-09, -6.841659370573105e-09, -1.3396191417699195e-08,
              -5.060442907625558e-09, 7.519052010020174e-09, 6.601863251505631e-09, -3.448099131346984e-09,
              -4.6256198977891795e-09, 1.4550133751808388e-09, 2.2341946294712325e-09, -5.256702044095958e-10,
              -6.790342832230683e-10, 1.34333836961416e-10, 9.650630422142767e-11, -1.7035687386296818e-11)  # fmt: skip
I1_FAR_F32 = (0.38939846, -0.009749585, -0.0002191745, -1.4990118e-05, -1.9935098e-06, -4.3219575e-07, -1.0623103e-08)
I1_FAR_F64 = (0.38939845902587233, -0.009749577193235725, -0.0002192357638320565, -1.5038547201576212e-05,
              -1.8349102226101136e-06, -3.4838554985399133e-07, -1.0001116379168706e-07, -4.312949292822515e-08,
              -2.3390846630608166e-08, -8.42565647275389e-09, 6.83240765654274e-09, 1.402562319547502e-08,
              5.6158564361222405e-09, -7.619798408547906e-09, -7.02583903432317e-09, 3.387393415174107e-09,
              4.860988107056547e-09, -1.395201659973635e-09, -2.334544439808095e-09, 4.989441465935701e-10,
              7.075131868550883e-10, -1.2784022121114115e-10, -1.0039711530878546e-10,
              1.6375449009674377e-11)  # fmt: skip


@function
def bessel_parts(x, near, far):
    """What is multiplied by a power of e for |x| <= 8, what is not beyond, and |x|."""
    y = abs(x)
    return polynomial(x * x, near), polynomial(fma(16.0, 1.0 / y, -1.0), far) / sqrt(y), y


@function
def i0_of(x, near, far):
    """The modified Bessel function of order 0."""
    small, large, y = bessel_parts(x, near, far)
    value = large * exp(y)
    return small if y <= 8.0 else value


@function
def i0e_of(x, near, far):
    """exp(-|x|) * i0(x)."""
    small, large, y = bessel_parts(x, near, far)
    return small * exp(-y) if y <= 8.0 else large


@function
def i1_of(x, near, far):
    """The modified Bessel function of order 1."""
    small, large, y = bessel_parts(x, near, far)
    value = y * small if y <= 8.0 else large * exp(y)
    return -value if x < 0.0 else value


@function
def i1e_of(x, near, far):
    """exp(-|x|) * i1(x)."""
    small, large, y = bessel_parts(x, near, far)
    value = y * small * exp(-y) if y <= 8.0 else large
    return -value if x < 0.0 else value


@function
def i0_f32(x):
    """The modified Bessel function of order 0."""
    return i0_of(x, I0_F32, I0_FAR_F32)


@function
def i0_f64(x):
    """The modified Bessel function of order 0."""
    return i0_of(x, I0_F64, I0_FAR_F64)


@function
def i0e_f32(x):
    """exp(-|x|) * i0(x)."""
    return i0e_of(x, I0_F32, I0_FAR_F32)


@function
def i0e_f64(x):
    """exp(-|x|) * i0(x)."""
    return i0e_of(x, I0_F64, I0_FAR_F64)


@function
def i1_f32(x):
    """The modified Bessel function of order 1."""
    return i1_of(x, I1_F32, I1_FAR_F32)


@function
def i1_f64(x):
    """The modified Bessel function of order 1."""
    return i1_of(x, I1_F64, I1_FAR_F64)


@function
def i1e_f32(x):
    """exp(-|x|) * i1(x)."""
    return i1e_of(x, I1_F32, I1_FAR_F32)


@function
def i1e_f64(x):
    """exp(-|x|) * i1(x)."""
    return i1e_of(x, I1_F64, I1_FAR_F64)
