"""The model of an ordinary implementation: the few numbers that a tolerance is derived from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from ..formats import FLOAT32, FORMATS, Format, format_of

#: The largest error, in ulps of the output format, of each elementary function: bfloat16, float16, float32, float64. The larger of the figures
#: that JAX publishes for CPU and GPU (JAX documentation, "Numerical accuracy", as of 2026-09-18). The 16-bit and unary float32 figures were
#: found by trying every argument, the others by sampling. exp2 is there with 101 ulps of bfloat16: an ordinary implementation can be that bad.
PUBLISHED_ULPS: Mapping[str, tuple[float, float, float, float]] = MappingProxyType(
    {
        "acos": (1.5, 1.5, 1.5, 1.5),
        "acosh": (2.0, 2.0, 4.5, 3.5),
        "asin": (1.5, 1.5, 2.0, 2.5),
        "asinh": (1.5, 1.5, 3.5, 2.5),
        "atan": (0.5, 1.0, 5.5, 3.5),
        "atan2": (1.0, 1.0, 3.0, 1.5),
        "atanh": (1.5, 1.5, 3.5, 3.5),
        "cbrt": (0.5, 1.0, 1.5, 1.5),
        "cos": (0.5, 1.0, 2.0, 1.5),
        "cosh": (0.5, 1.0, 25.0, 496.0),
        "erf": (0.5, 1.0, 7.0, 2.5),
        "erf_inv": (0.5, 1.0, 65.0, 500000.0),
        "erfc": (0.5, 1.0, 66.5, 350.0),
        "exp": (1.0, 1.0, 2.0, 2.0),
        "exp2": (101.0, 14.0, 69.0, 719.0),
        "expm1": (0.5, 2.5, 6.5, 4.5),
        "log": (0.5, 1.0, 1.5, 1.5),
        "log1p": (0.5, 1.0, 3.0, 2.0),
        "log2": (2.0, 2.0, 2.5, 1.5),
        "logistic": (2.5, 2.0, 4.0, 4.5),
        "rsqrt": (0.5, 0.5, 2.0, 1.5),
        "sin": (0.5, 1.0, 1.5, 2.5),
        "sinh": (0.5, 1.0, 25.0, 496.0),
        "sqrt": (0.5, 0.5, 1.0, 0.5),
        "tan": (0.5, 1.0, 3.5, 2.5),
        "tanh": (0.5, 0.5, 5.5, 7.0),
        # Not in JAX's table. NVIDIA, CUDA C++ Programming Guide, "Mathematical Functions": powf 4 ulps, pow 2; half formats are computed in
        # float32 and rounded.
        "pow": (1.0, 1.0, 4.0, 2.0),
    }
)

#: Factor on the published figures. They are maxima over one release of one library, in part over samples; other libraries' documented maxima
#: (CUDA's libdevice, SLEEF's "u10" functions, glibc) lie within twice the larger of JAX's CPU and GPU figures.
MARGIN = 2.0

_COLUMNS = {"bfloat16": 0, "float16": 1, "float32": 2, "float64": 3}


@dataclass(frozen=True)
class Budget:
    """How an ordinary implementation may round.

    The tolerance of a result is derived from these few statements, operation by operation (`docs/derivations.md`); none is fitted to data.

    Attributes:
        accumulation: dtype name → dtype name in which sums and contractions are accumulated before one final rounding. By default half formats
            and float8 accumulate in float32, float32 and float64 in themselves.
        ulps: elementary function → largest error in ulps of the output, overriding the default of twice the published figure
            (`PUBLISHED_ULPS`, `MARGIN`) in every dtype.
        flush_subnormals: whether subnormal operands and results of float64, float32 and bfloat16 may be replaced by zero, as XLA does on CPUs.
        reciprocal_division: whether `x / y` may be computed as `x * (1 / y)`, as XLA does for constant divisors: two roundings.
        rounds_copies: whether, in half formats and float8, each product may be rounded to the format before the copies that broadcasting made are
            summed, as PyTorch does in the backward of a broadcast `multiply` and of a `matmul` whose two operands both keep batch dimensions. An
            extra rounding, not in the default.

    Example:
        >>> Budget().unit_roundoff_of_sums("bfloat16") == 2.0 ** -24
        True
    """

    accumulation: Mapping[str, str] = field(default_factory=dict)
    ulps: Mapping[str, float] = field(default_factory=dict)
    flush_subnormals: bool = True
    reciprocal_division: bool = True
    rounds_copies: bool = False

    def __post_init__(self) -> None:
        """Check the names."""
        for name, target in self.accumulation.items():
            if name not in FORMATS or target not in FORMATS:
                raise ValueError(f"accumulation: {name!r} -> {target!r}; wanted names of floating-point dtypes.")
        for name, value in self.ulps.items():
            if name not in PUBLISHED_ULPS:
                raise ValueError(f"ulps: {name!r} is no elementary function; wanted one of {', '.join(PUBLISHED_ULPS)}.")
            if not value >= 0.5:
                raise ValueError(f"ulps: {value} for {name!r}; wanted at least 0.5, the error of a correct rounding.")

    def accumulator(self, fmt: Format) -> Format:
        """The format in which sums of `fmt` are accumulated."""
        if fmt.name in self.accumulation:
            return format_of(self.accumulation[fmt.name])
        return fmt if fmt.precision >= FLOAT32.precision else FLOAT32

    def sequential_accumulator(self, fmt: Format) -> Format:
        """The format in which running sums and scattered additions of `fmt` are accumulated: by default `fmt` itself, as XLA does on CPUs."""
        return format_of(self.accumulation[fmt.name]) if fmt.name in self.accumulation else fmt

    def flushes(self, fmt: Format) -> bool:
        """Whether subnormal numbers of `fmt` may be replaced by zero. In float16 and float8 they are not: they are computed in float32."""
        return self.flush_subnormals and fmt.minimum_exponent <= FLOAT32.minimum_exponent

    def unit_roundoff_of_sums(self, dtype: object) -> float:
        """The unit roundoff of the accumulation format of `dtype`."""
        return self.accumulator(format_of(dtype)).unit_roundoff

    def function_ulps(self, name: str, fmt: Format) -> float:
        """Ulps that an ordinary implementation of an elementary function may be off, in `fmt`. Float8: computed wider, rounded once or twice."""
        if name in self.ulps:
            return float(self.ulps[name])
        column = _COLUMNS.get(fmt.name)
        return 1.0 if column is None else MARGIN * PUBLISHED_ULPS[name][column]
