"""Residues of real numbers: is a number exactly zero?

A number that lies exactly on a rounding boundary, or is exactly zero without its enclosure being a point, is decided by no precision. Here it is
mapped to a finite field, where equality is a comparison of integers. The theory stands in docs/equality.md; in short:

- Rational arithmetic maps to arithmetic modulo a random prime `p = 2 k q + 1`. `exp(r)` of a rational `r` maps to `g^r`, where `g` is a random element of
  the subgroup of prime order `q`, so that `r` has a residue modulo `q` and `exp(a + b) = exp(a) exp(b)` holds. `exp(r sqrt(d))` maps to `h^r` with another
  random element `h`.
- The numbers `exp(1/D)` and `exp(sqrt(d)/D)` are algebraically independent (Lindemann and Weierstrass; Baker, Transcendental Number Theory, theorem 1.4),
  so an expression in exponentials is zero as a number if and only if it is zero identically in them. Zero at a random point is zero identically, except
  with a probability of at most degree / q (Schwartz 1980, Zippel 1979). Degrees are tracked; `Point.failure` is the bound.
- Every other function is a random symbol, keyed by its arguments' residues. What then is found zero is zero, by algebra alone; what is not found zero
  may still be.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from flint import fmpz

#: Bits of `p` beyond those of `q`: among 2**256 / 1000 candidates for `p`, the chance to meet a divisor of a given coefficient is nil.
_EXTRA_BITS = 256


@dataclass(frozen=True, slots=True)
class Algebraic:
    """What is known of a number `sum over d of c_d sqrt(d)`, with rational `c_d` and squarefree `d`: it may be an exponent.

    Attributes:
        coefficients: `c_d` modulo q, by d.
        size: log2 of a bound of the magnitude.
        twos: `e`, and
        odd: an odd number, and
        loose: bits of a further number, such that all `c_d` are integers divided by `2**e`, that odd number and that further one.
        numerator: odd part of the number's numerator, where it is a known fraction.
    """

    coefficients: tuple[tuple[int, int], ...]
    size: float
    twos: int
    odd: int = 1
    loose: float = 0.0
    numerator: int | None = None


@dataclass(frozen=True, slots=True)
class Residue:
    """One number at one random point.

    Attributes:
        value: modulo p; None where nothing is known.
        algebraic: its coefficients, while it is an algebraic number of a known form.
        degree: log2 of a bound of the degree in the transcendentals, in units that `Point.unit` turns into the true ones; -inf for degree 0.
    """

    value: int | None
    algebraic: Algebraic | None
    degree: float


#: (f, g) such that f(g(x)) = x wherever g is defined.
INVERSES = frozenset(
    tuple(pair.split("-"))
    for pair in (
        "exp-log log-exp expm1-log1p log1p-expm1 sinh-asinh asinh-sinh cosh-acosh tanh-atanh atanh-tanh "
        "sin-asin cos-acos tan-atan erf-erf_inv erf_inv-erf exp2-log2 log2-exp2"
    ).split()
)

UNKNOWN = Residue(None, None, -math.inf)


def _log_sum(a: float, b: float) -> float:
    """log2(2**a + 2**b), or a little more."""
    low, high = min(a, b), max(a, b)
    return high if low == -math.inf else high + math.log2(1 + 2.0 ** (low - high)) + 1e-9


@dataclass
class Point:
    """A random point: primes, subgroup elements, and the symbols met so far.

    Attributes:
        order: q.
        modulus: p.
        generator: random numbers.
    """

    order: int
    modulus: int
    generator: random.Random
    bases: dict[int, int] = field(default_factory=dict)
    roots: dict[int, int] = field(default_factory=dict)
    symbols: dict[Any, int] = field(default_factory=dict)
    squares: dict[int, Residue] = field(default_factory=dict)
    origins: dict[int, tuple[str, Residue]] = field(default_factory=dict)
    twos: int = 0
    odd: int = 1
    loose: float = 0.0
    checked: float = -math.inf

    @staticmethod
    def random(bits: int, generator: random.Random) -> Point:
        """A point whose subgroup has an order of `bits` bits."""
        while True:
            order = generator.getrandbits(bits) | (1 << (bits - 1)) | 1
            if fmpz(order).is_probable_prime():
                break
        while True:
            # An odd cofactor makes p = 3 mod 4, where square roots are powers; 2, 3, 5 and 7 shall have one.
            modulus = 2 * (generator.getrandbits(_EXTRA_BITS) | (1 << (_EXTRA_BITS - 1)) | 1) * order + 1
            if modulus % 8 == 7 and all(_is_square(n, modulus) for n in (3, 5, 7)) and fmpz(modulus).is_probable_prime():
                return Point(order, modulus, generator)

    def failure(self) -> float:
        """log2 of a bound of the probability that some number which was found zero is not."""
        # With k roots in it a value vanishes only where its norm does, whose degree is 2**k times as large.
        return _log_sum(self.checked, 0.0) + len(self.roots) + self.twos + self.odd.bit_length() + self.loose - (self.order.bit_length() - 1)

    def settle(self, x: Residue) -> bool:
        """Whether `x` is zero here, and, if it is found so, what that may get wrong."""
        if x.value != 0:
            return False
        self.checked = _log_sum(self.checked, x.degree)
        return True

    # Numbers ------------------------------------------------------------------------------------------------------------

    def dyadic(self, significand: int, exponent: int) -> Residue:
        """`significand * 2**exponent`."""
        p, q = self.modulus, self.order
        value = significand * pow(2, exponent, p) % p
        coefficient = significand * pow(2, exponent, q) % q
        size = significand.bit_length() + exponent if significand else -math.inf
        odd = abs(significand) // (significand & -significand) if significand else None
        return Residue(value, Algebraic(((1, coefficient),), size, max(0, -exponent) if significand else 0, numerator=odd), -math.inf)

    def rational(self, value: Fraction) -> Residue:
        """A fraction."""
        top = self.dyadic(value.numerator, 0)
        return top if value.denominator == 1 else self.div(top, self.dyadic(value.denominator, 0))

    def root(self, radicand: int) -> Residue:
        """The square root of a positive integer."""
        square, free = _squarefree(radicand)
        if free == 1:
            return self.dyadic(square, 0)
        value = square * math.prod(self._root_of_prime(f) for f in _prime_factors(free)) % self.modulus
        return Residue(value, Algebraic(((free, square % self.order),), math.log2(radicand) / 2 + 1e-9, 0), -math.inf)

    def _root_of_prime(self, prime: int) -> int:
        """A square root modulo p where there is one (either embeds the field of real square roots); else a symbol, which claims less."""
        if prime not in self.roots:
            found = _modular_root(prime, self.modulus)
            self.roots[prime] = self.generator.randrange(1, self.modulus) if found is None else found
        return self.roots[prime]

    def symbol(self, key: Any, degree: float = -math.inf) -> Residue:
        """A random number that stands for whatever has this key."""
        if key not in self.symbols:
            self.symbols[key] = self.generator.randrange(1, self.modulus)
        return Residue(self.symbols[key], None, _log_sum(0.0, degree))

    def undone(self, name: str, x: Residue) -> Residue | None:
        """The argument of the function that `name` undoes, where `x` is a value of that function."""
        found = self.origins.get(x.value) if x.value is not None else None
        return found[1] if found is not None and (name, found[0]) in INVERSES else None

    def value_of(self, name: str, x: Residue, result: Residue) -> Residue:
        """`result`, remembered as the value of a function at `x`."""
        if result.value is not None and x.value is not None:
            self.origins.setdefault(result.value, (name, x))
        return result

    def function(self, name: str, *xs: Residue) -> Residue:
        """A function of which nothing is known but that equal arguments give equal values."""
        if any(x.value is None for x in xs):
            return UNKNOWN
        for x in xs:  # two arguments are taken for equal: that, too, may fail
            self.checked = _log_sum(self.checked, x.degree)
        out = self.symbol((name, *(x.value for x in xs)))
        if name == "sqrt" and out.value is not None:
            self.squares[out.value] = xs[0]
        return out

    # Arithmetic -----------------------------------------------------------------------------------------------------------

    def neg(self, x: Residue) -> Residue:
        """-x."""
        if x.value is None:
            return x
        a, q = x.algebraic, self.order
        if a is not None:
            a = replace(a, coefficients=tuple((d, -c % q) for d, c in a.coefficients))
        return Residue(-x.value % self.modulus, a, x.degree)

    def add(self, x: Residue, y: Residue) -> Residue:
        """X + y."""
        if x.value is None or y.value is None:
            return UNKNOWN
        a, b = x.algebraic, y.algebraic
        both = None
        if a is not None and b is not None:
            sums = dict(a.coefficients)
            for d, c in b.coefficients:
                sums[d] = (sums.get(d, 0) + c) % self.order
            loose = a.loose if a.loose == b.loose == 0 else a.loose + b.loose
            both = Algebraic(tuple(sorted(sums.items())), max(a.size, b.size) + 1, max(a.twos, b.twos), math.lcm(a.odd, b.odd), loose)
        return Residue((x.value + y.value) % self.modulus, both, _log_sum(x.degree, y.degree))

    def mul(self, x: Residue, y: Residue) -> Residue:
        """X y. A square root times itself is its argument."""
        if x.value is None or y.value is None:
            return UNKNOWN
        if x.value == y.value and x.value in self.squares:
            return self.squares[x.value]
        a, b = x.algebraic, y.algebraic
        both = None
        if a is not None and b is not None:
            products: dict[int, int] = {}
            for d, c in a.coefficients:
                for e, f in b.coefficients:
                    common = math.gcd(d, e)
                    key = d * e // common**2
                    products[key] = (products.get(key, 0) + c * f * common) % self.order
            both = Algebraic(tuple(sorted(products.items())), a.size + b.size, a.twos + b.twos, a.odd * b.odd, a.loose + b.loose)
        return Residue(x.value * y.value % self.modulus, both, _log_sum(x.degree, y.degree))

    def div(self, x: Residue, y: Residue) -> Residue:
        """X / y; unknown where the divisor is zero here."""
        if x.value is None or not y.value:
            return UNKNOWN
        a, b = x.algebraic, y.algebraic
        both = None
        if a is not None and b is not None and len(b.coefficients) == 1 and b.coefficients[0][0] == 1 and b.coefficients[0][1]:
            inverse = pow(b.coefficients[0][1], -1, self.order)
            # 1 / y is at most y's denominator, and the new denominator is y's numerator: a power of two, and its odd part.
            below = b.twos + b.odd.bit_length() + b.loose
            numerator = max(b.size + below, 0.0)
            both = Algebraic(
                tuple((d, c * inverse % self.order) for d, c in a.coefficients),
                a.size + below,
                a.twos + math.ceil(numerator),
                a.odd * (b.numerator or 1),
                a.loose + (0.0 if b.numerator is not None else numerator),
            )
        return Residue(x.value * pow(y.value, -1, self.modulus) % self.modulus, both, _log_sum(x.degree, y.degree))

    def power(self, x: Residue, n: int) -> Residue:
        """X to an integer power."""
        if n < 0:
            return self.div(self.dyadic(1, 0), self.power(x, -n))
        out = self.dyadic(1, 0)
        for _ in range(n):
            out = self.mul(out, x)
        return out

    def exp(self, x: Residue) -> Residue:
        """The exponential: of an algebraic number a product of powers of the random elements, else a symbol."""
        if x.value is None:
            return x
        a = x.algebraic
        if a is None:
            return self.function("exp", x)
        value = 1
        for d, c in a.coefficients:
            value = value * pow(self._base(d), c, self.modulus) % self.modulus
        self.twos, self.odd, self.loose = max(self.twos, a.twos), math.lcm(self.odd, a.odd), self.loose + a.loose
        return Residue(value, None, a.size if value != 1 else -math.inf)

    def _base(self, d: int) -> int:
        if d not in self.bases:
            base = 1
            while base == 1:
                base = pow(self.generator.randrange(2, self.modulus - 1), (self.modulus - 1) // self.order, self.modulus)
            self.bases[d] = base
        return self.bases[d]


def _is_square(prime: int, modulus: int) -> bool:
    """Whether an odd prime is a square modulo a prime that is 3 mod 4: quadratic reciprocity."""
    half = (prime - 1) // 2
    return pow(modulus % prime, half, prime) == (1 if half % 2 == 0 else prime - 1)


def _squarefree(n: int) -> tuple[int, int]:
    """`(s, f)` with `n = s**2 f` and f squarefree."""
    square, free, divisor = 1, 1, 2
    while divisor * divisor <= n:
        power = 0
        while n % divisor == 0:
            n, power = n // divisor, power + 1
        square, free = square * divisor ** (power // 2), free * divisor ** (power % 2)
        divisor += 1
    return square, free * n


def _prime_factors(n: int) -> list[int]:
    out, divisor = [], 2
    while divisor * divisor <= n:
        if n % divisor == 0:
            out.append(divisor)
            n //= divisor
        else:
            divisor += 1
    return [*out, n] if n > 1 else out


def _modular_root(n: int, p: int) -> int | None:
    """A square root of n modulo p, or None."""
    root = pow(n, (p + 1) // 4, p)
    return root if root * root % p == n % p else None
