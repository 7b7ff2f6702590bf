"""Names of the sums that the compiled channel and its reference return. Compiles nothing."""

# sums returned for each block of samples
(
    G_K2,
    G_V2,
    TRACE_K,
    TRACE_V,
    G_K_TEACHER,
    G_V_TEACHER,
    G_K_FIELD,
    G_V_FIELD,
    G_K_SUM,
    LOSS,
    ENVELOPE,
    BISTABLE,
    JUMPED,
    UNSOLVED,
    GG_KK,
    GG_KV,
    GG_VV,
    GG_CROSS,
) = range(18)
SUMS = 18
# Newton steps after which a prox counts as unsolved
MOST_STEPS = 60
# where each prox is searched: from the field alone; from several starts; from the minimum that was
# remembered, with several starts for those samples that were seen to have more than one
FROM_FIELD, EVERYWHERE, REMEMBERED = range(3)
