"""
Diagnose a trained head
=======================

Train attention on sequences with labels, then ask how good the trained head is as a retriever, and
how long its sequences may become. ``diagnose_scores`` needs only scores and locations, so it takes
the head of any model.
"""

from __future__ import annotations

import numpy as np

from slrlab import SingleLocationAttention, SpikedSLR, diagnose_scores, draw_dataset

drawn = draw_dataset(SpikedSLR(signal=9.0, length=16), dim=30, samples=2400, seed=1)
X = np.stack([drawn.sequence(i) for i in range(2400)])
model = SingleLocationAttention("softmax", ridge_k=0.3, ridge_v=0.3, init="random")
model.fit(X[:1600], drawn.labels[:1600])

scores = X[1600:] @ model.k_ / np.sqrt(X.shape[2])
assert drawn.locations is not None  # known, since the data are drawn
head = diagnose_scores(scores, drawn.locations[1600:], at=[64, 1024])
head.plot()

# %%
# The effective signal says what these scores are worth: it is the signal of the spiked-SLR that has
# the same Bayes risk. ``context`` is the largest length at which the risk of the head is at most
# one half.

print(head.summary())
