"""Real constants that derivatives hold: `erf' = 2/sqrt(pi) exp(-x^2)`, `exp2' = log(2) exp2`, ..."""

from __future__ import annotations

import math
from collections.abc import Callable

from flint import arb

#: Each at the precision that is set while it is called.
BALLS: dict[str, Callable[[], arb]] = {
    "2/sqrt(pi)": lambda: 2 / arb.pi().sqrt(),
    "sqrt(pi)/2": lambda: arb.pi().sqrt() / 2,
    "log(2)": lambda: arb(2).log(),
    "1/3": lambda: arb(1) / 3,
}

#: Upper bounds in float64, for lowerings and error bounds: each constant is within an ulp of Python's.
FLOATS: dict[str, float] = {
    "2/sqrt(pi)": 2 / math.sqrt(math.pi),
    "sqrt(pi)/2": math.sqrt(math.pi) / 2,
    "log(2)": math.log(2),
    "1/3": 1 / 3,
}
