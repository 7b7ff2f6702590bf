"""Names and constants that the compiled channel and its reference share."""

from slrlab.model.activation_code import NORMALISED, NORMMAX, ORDERED, PROJECTION, REWEIGHTED

# columns of the sums of each block of samples
G_K2, G_V2, TRACE_K, TRACE_V, G_K_TEACHER, G_V_TEACHER = range(6)
G_K_FIELD, G_V_FIELD, G_K_SUM, LOSS, ENVELOPE = range(6, 11)
BISTABLE, JUMPED, UNSOLVED = range(11, 14)
GG_KK, GG_KV, GG_VV, GG_CROSS = range(14, 18)
SUMS = 18
# Newton steps after which a prox counts as unsolved
MOST_STEPS = 60
# starts of each prox: the field alone; several; the remembered minimum, but several for samples
# that had more than one minimum
FROM_FIELD, EVERYWHERE, REMEMBERED = range(3)
# families whose prox is searched from higher scores only: lower ones raise the other weights
ONE_SIDED = (NORMALISED, REWEIGHTED)
# families whose weights do not move where one token has them all: the prox is searched from higher
# scores, and from where a token would share with the largest other one
FLAT = (PROJECTION, NORMMAX)
# families whose Jacobian is not diagonal plus rank one
DENSE = (ORDERED, NORMMAX)
