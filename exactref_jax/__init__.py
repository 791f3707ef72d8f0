"""The exact value, rounded once, of operations and of gradients; a rigorous enclosure of it; and how far an honest implementation may be."""

from .algorithms.attention import AttentionAlgorithm as AttentionAlgorithm
from .algorithms.matrix_exp import MatrixExpAlgorithm as MatrixExpAlgorithm
from .arithmetic.budget import Budget as Budget
from .errors import ExactRefError as ExactRefError
from .errors import NotCoveredError as NotCoveredError
from .errors import ReferenceUnavailableError as ReferenceUnavailableError
from .errors import UnsupportedPrimitiveError as UnsupportedPrimitiveError
from .inputs import asarray as asarray
from .operation import Operation as Operation
from .operation import add as add
from .operation import gemm as gemm
from .operation import matmul as matmul
from .operation import matrix_exp as matrix_exp
from .operation import matrix_exp_frechet as matrix_exp_frechet
from .operation import multiply as multiply
from .operation import scaled_dot_product_attention as scaled_dot_product_attention
from .operation import sum as sum
from .result import Interval as Interval
from .result import Result as Result
from .rules.meanings import register_rule as register_rule
from .transforms import evaluate as evaluate
from .transforms import grad as grad
from .transforms import jvp as jvp
from .transforms import value_and_grad as value_and_grad
from .transforms import vjp as vjp
