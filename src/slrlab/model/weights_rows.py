"""Rows of the scratch space of the compiled kernels, and the arithmetic that they may use."""

from __future__ import annotations

# rows of the scratch space, each of length L; TRIAL holds the scores. Entries are addressed as
# `work[row, i]`: a view of a row would cost an atomic count of its references
TRIAL, SIGMA, PI, PSI, ETA, CURVE, GAUGE = range(7)
WEIGHT_ROWS = 7
# rows of the value scores z and of Jᵀz, in kernels that predict
VALUE, FORCE = WEIGHT_ROWS, WEIGHT_ROWS + 1
ALL_ROWS = WEIGHT_ROWS + 2
# IEEE division and sums in any order let the loops be vectorised; nan and inf keep their meaning
SAFE_MATH = {"contract", "arcp", "nsz", "reassoc"}
