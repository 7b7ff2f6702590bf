"""Where training goes: the risk off the manifold M, its flows and its minima."""

from slrlab.theory.landscape.branches import follow_minimum, minimum_from
from slrlab.theory.landscape.ensemble import FlowEnsemble, flow_ensemble
from slrlab.theory.landscape.flow import gradient_flow
from slrlab.theory.landscape.minima import LocalMinima, Minimum, local_minima
from slrlab.theory.landscape.path import Flow
from slrlab.theory.landscape.ranges import MinimumBranch, minimum_branches
from slrlab.theory.landscape.risk import RiskGradient, risk_and_gradient
from slrlab.theory.landscape.sphere import sphere_flow
from slrlab.theory.landscape.stochastic import sgd_flow
from slrlab.theory.landscape.table import TabulatedLandscape, tabulate

__all__ = [
    "Flow",
    "FlowEnsemble",
    "LocalMinima",
    "Minimum",
    "MinimumBranch",
    "RiskGradient",
    "TabulatedLandscape",
    "flow_ensemble",
    "follow_minimum",
    "gradient_flow",
    "local_minima",
    "minimum_branches",
    "minimum_from",
    "risk_and_gradient",
    "sgd_flow",
    "sphere_flow",
    "tabulate",
]
