r"""Exact theory of trained attention with finitely many samples per dimension.

`erm_theory` solves state evolution at given ridges, `optimal_ridge` finds the best ridges,
`ridge_map` covers a grid, `large_alpha` gives the approach to infinite data, `correlated_theory` is
for tokens with correlated coordinates. Nothing is compiled before the first call.
"""

from slrlab.theory.erm.correlated import CorrelatedTheory, correlated_theory
from slrlab.theory.erm.expansions import LargeAlpha, large_alpha
from slrlab.theory.erm.result import ErmBranch, ErmTheory
from slrlab.theory.erm.ridge import optimal_ridge
from slrlab.theory.erm.ridge_map import RidgeMap, ridge_map
from slrlab.theory.erm.solve import erm_theory

__all__ = [
    "CorrelatedTheory",
    "ErmBranch",
    "ErmTheory",
    "LargeAlpha",
    "RidgeMap",
    "correlated_theory",
    "erm_theory",
    "large_alpha",
    "optimal_ridge",
    "ridge_map",
]
