"""What each JAX primitive means over the reals. Importing this package fills the table."""

from . import additive, bilinear, control, discrete, elementwise, movement, order
from .table import RULES, TAKES_DECISIONS, Equation, lookup, register

__all__ = [
    "RULES",
    "TAKES_DECISIONS",
    "Equation",
    "additive",
    "bilinear",
    "control",
    "discrete",
    "elementwise",
    "lookup",
    "movement",
    "order",
    "register",
]
