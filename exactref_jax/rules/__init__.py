"""What each JAX primitive means over the reals. Importing this package fills the table."""

from . import additive, bilinear, control, discrete, elementwise, matrix_functions, meanings, movement, order
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
    "matrix_functions",
    "meanings",
    "movement",
    "order",
    "register",
]
