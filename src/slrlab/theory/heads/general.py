r"""The general formula: heads with any keys, at their best values.

Values act on the value scores alone, so that with ``A_hj = π_j E_j[σ^h_ε]`` and
``B_hh' = E Σ_ℓ σ^h_ℓ σ^h'_ℓ`` the risk at values ``v_h = Σ_j V_hj v*_j`` is
``Δ² + 1 − 2 Σ V_hj A_hj + Σ_j V_jᵀ B V_j``, whose least value is

    Δ² + 1 − Σ_j A_jᵀ B⁻¹ A_j.

Heads may outnumber the directions, share one, or attend to none. The moments are sampled.
Independent of gradients.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slrlab import _checks
from slrlab._result import Estimate, Result, Status
from slrlab._types import FloatArray
from slrlab.model.activations import Activation
from slrlab.model.heads import MultiHeadSLR, head_weights, make_heads_activation

BLOCKS = 16


@dataclass(frozen=True)
class HeadsMoments(Result):
    """Moments of the weights of several heads, and the risk at the best values.

    Attributes
    ----------
    risk, error
        ``Δ² + 1 − Σ_j A_jᵀ B⁻¹ A_j``, and its standard error.
    A, B
        ``(H, K)`` and ``(H, H)``.
    values
        The best ``V = B⁻¹ A``: overlaps of the values with ``v*``.
    """

    risk: float
    error: float
    A: FloatArray
    B: FloatArray
    values: FloatArray


def best_values_risk(A: FloatArray, B: FloatArray, noise: float = 0.0) -> tuple[float, FloatArray]:
    r"""Return ``1 + Δ² − Σ_j A_jᵀ B⁻¹ A_j`` and the best values ``B⁻¹A``.

    Heads that are copies of each other make ``B`` singular; they share their values then.

    >>> best_values_risk(np.array([[0.5]]), np.array([[0.5]]))[0]
    0.5
    """
    values = np.linalg.lstsq(B, A, rcond=1e-10)[0]
    return 1.0 + noise**2 - float(np.sum(A * values)), np.asarray(values)


def heads_moments(
    task: MultiHeadSLR,
    activation: Activation | str,
    keys: FloatArray,
    *,
    biases: FloatArray | None = None,
    samples: int = 1 << 16,
    seed: int = 0,
) -> HeadsMoments:
    """Return moments and risk of heads with keys ``k_h = Σ_j keys[h, j] k*_j``.

    Parameters
    ----------
    task, activation
        Task, and attention of each head or ``"bayes-softmax"``.
    keys
        Overlaps ``(H, K)`` of the keys with ``k*``.
    biases
        One for each head; None for the activation's own, and for those of the posterior if it is
        the Bayes-softmax with a head for each direction.
    samples, seed
        Number of sequences, in blocks, and their seed.

    Returns
    -------
    HeadsMoments
        ``A``, ``B``, the best values, and the risk with its standard error.

    Raises
    ------
    ValueError
        If keys or biases have the wrong shape, or a bias is free.

    Examples
    --------
    >>> from slrlab import MultiHeadSLR, heads_moments
    >>> task = MultiHeadSLR(6.0, 5, directions=4)
    >>> aligned = heads_moments(task, "softmax", 1.3946 * np.eye(4))
    >>> abs(aligned.risk - 0.7214) < 0.02
    True
    """
    chosen = make_heads_activation(activation)
    keys = np.array(keys, dtype=float)
    if keys.ndim != 2 or keys.shape[1] != task.directions or not np.isfinite(keys).all():
        _checks.fail("keys", f"finite numbers of shape (H, {task.directions})", keys.shape)
    given = _biases(task, chosen, keys, biases)
    count = _checks.integer(samples, "samples", low=16 * BLOCKS) // BLOCKS
    streams = np.random.SeedSequence(_checks.integer(seed, "seed", low=0)).spawn(BLOCKS)
    parts = [_block(task, chosen, keys, given, count, stream) for stream in streams]
    A, B = (np.mean([part[i] for part in parts], axis=0) for i in range(2))
    risk, values = best_values_risk(A, B, task.noise)
    # the risk of each block at the common values: their mean is the risk
    linear = [2.0 * np.sum(a * values) - np.sum(values * (b @ values)) for a, b in parts]
    return HeadsMoments(
        status=Status.SAMPLED,
        risk=risk,
        error=Estimate.of(linear).error,
        A=A,
        B=B,
        values=values,
    )


def _biases(
    task: MultiHeadSLR, activation: Activation | None, keys: FloatArray, biases: FloatArray | None
) -> FloatArray:
    heads = len(keys)
    if biases is None and activation is None:
        squares = (keys**2).sum(axis=1) / 2.0
        shares = task.probabilities if heads == task.directions else np.full(heads, 1.0 / heads)
        return np.asarray(np.log(shares) - squares)
    if biases is None:
        assert activation is not None
        if activation.bias is None:
            _checks.fail(f"bias of {activation.name}", "a number for each head", "free")
        return np.full(heads, activation.bias)
    given = np.array(biases, dtype=float)
    if given.shape != (heads,) or not np.isfinite(given).all():
        _checks.fail("biases", f"{heads} finite numbers", biases)
    return given


def _block(
    task: MultiHeadSLR,
    activation: Activation | None,
    keys: FloatArray,
    biases: FloatArray,
    size: int,
    stream: np.random.SeedSequence,
) -> tuple[FloatArray, FloatArray]:
    """Return ``A`` and ``B`` of a block of sequences."""
    rng = np.random.default_rng(stream)
    heads, directions = keys.shape
    A, B = np.zeros((heads, directions)), np.zeros((heads, heads))
    for length, share in task.length.pairs():
        scores, chosen = task.sample(rng, max(2, round(share * size)), length)
        weights = head_weights(activation, scores @ keys.T, biases)
        hot = np.eye(directions)[chosen] / len(chosen)
        A += share * weights[:, 0].T @ hot
        B += share * np.einsum("nlh,nlg->hg", weights, weights) / len(chosen)
    return A, B
