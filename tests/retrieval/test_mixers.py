"""Scans and mixers against loops over tokens, and attention against that of PyTorch."""

import math

import numpy as np
import pytest

from slrlab.retrieval import mixers
from slrlab.retrieval.attention_maps import MAPS
from slrlab.retrieval.mixers import MIXERS, RECURRENT, make_mixer, tnl_log_decay

ALL = sorted({*MIXERS, *MAPS})
extra = pytest.mark.extra


def by_steps(torch, queries, keys, values, gates):
    """Return ``q_t S_t`` with ``S_t = diag(gates_t) S_{t−1} + k_tᵀ v_t``, token by token."""
    state = torch.zeros(keys.shape[0], keys.shape[2], values.shape[2], dtype=keys.dtype)
    read = []
    for t in range(keys.shape[1]):
        state = gates[:, t, :, None] * state + keys[:, t, :, None] * values[:, t, None, :]
        read.append((queries[:, t, None, :] @ state)[:, 0])
    return torch.stack(read, 1)


def random_tensors(torch, count, *shape):
    rng = np.random.default_rng(0)
    return [torch.from_numpy(rng.standard_normal(shape)).requires_grad_(True) for _ in range(count)]


def assert_same_with_gradients(torch, ours, reference, inputs):
    assert torch.allclose(ours, reference, rtol=1e-9, atol=1e-11)
    weights = torch.from_numpy(np.random.default_rng(1).standard_normal(ours.shape))
    for one, other in zip(
        torch.autograd.grad((weights * ours).sum(), inputs, retain_graph=True),
        torch.autograd.grad((weights * reference).sum(), inputs, retain_graph=True),
        strict=True,
    ):
        assert torch.allclose(one, other, rtol=1e-8, atol=1e-10)


@extra
@pytest.mark.parametrize("length", [1, 7, 16, 37])
@pytest.mark.parametrize("log_decay", [0.0, -0.3, -40.0])
def test_the_decayed_scan_is_the_recurrence(length, log_decay):
    import torch

    from slrlab.retrieval.scans import decayed_scan

    inputs = random_tensors(torch, 3, 2, length, 5)
    gates = torch.full((2, length, 5), math.exp(log_decay), dtype=torch.float64)
    reference = by_steps(torch, *inputs, gates)
    for chunk in (4, 8, 64):
        ours = decayed_scan(*inputs, log_decay, chunk=chunk)
        assert_same_with_gradients(torch, ours, reference, inputs)


@extra
@pytest.mark.parametrize("length", [1, 7, 16, 37])
@pytest.mark.parametrize("shift", [-30.0, 0.0, 4.0])
def test_the_gated_scan_is_the_recurrence(length, shift):
    import torch

    from slrlab.retrieval.scans import gated_scan

    inputs = random_tensors(torch, 4, 2, length, 5)
    log_gates = torch.nn.functional.logsigmoid(inputs[3] + shift)
    reference = by_steps(torch, *inputs[:3], log_gates.exp())
    for chunk in (1, 4, 64):
        ours = gated_scan(*inputs[:3], log_gates, chunk=chunk)
        assert_same_with_gradients(torch, ours, reference, inputs)


@extra
def test_the_memory_of_scans_is_not_quadratic():
    """A table of all pairs of 60,000 tokens would take 14 GB."""
    import torch

    from slrlab.retrieval.scans import decayed_scan, gated_scan

    long = torch.ones(1, 60_000, 2)
    with torch.no_grad():
        sums = decayed_scan(long, long, long)
        gated = gated_scan(long, long, long, torch.full_like(long, -1.0))
    assert sums[0, -1].tolist() == pytest.approx([120_000.0] * 2, rel=1e-5)
    assert gated[0, -1].tolist() == pytest.approx([2.0 / (1.0 - math.exp(-1.0))] * 2, rel=1e-5)


def parameters_of(torch, name, width=6):
    rng = np.random.default_rng(2)
    given = {
        key: torch.from_numpy(rng.standard_normal((width, width)))
        for key in ("query", "key", "value")
    }
    sizes = {"one": 1, "width": width}
    for key, (size, start) in make_mixer(name).own.items():
        given[key] = torch.full((sizes[size],), start, dtype=torch.float64)
    return given


def tokens_and_positions(torch, length=11, width=6):
    rng = np.random.default_rng(3)
    x = torch.from_numpy(rng.standard_normal((2, length, width)))
    return x, torch.tensor([[0, 4, 10], [3, 9, 10]])


@extra
def test_softmax_is_the_attention_of_pytorch():
    import torch

    p = parameters_of(torch, "softmax")
    x, positions = tokens_and_positions(torch)
    whole = torch.nn.functional.scaled_dot_product_attention(
        x @ p["query"], x @ p["key"], x @ p["value"], is_causal=True
    )
    ours = make_mixer("softmax").mix(x, positions, p)
    assert torch.allclose(ours, mixers.at_positions(whole, positions), rtol=1e-10, atol=1e-12)


def naive(torch, name, x, p):
    """Return what each position of one sequence reads, by sums over all earlier tokens."""
    silu, width = torch.nn.functional.silu, x.shape[-1]
    q, k, v = (x @ p[key] for key in ("query", "key", "value"))
    read = []
    for i in range(len(x)):
        total = torch.zeros(width, dtype=x.dtype)
        for j in range(i + 1):
            if name == "hgrn2":
                forget = torch.sigmoid(k + p["forget"])
                kept = torch.ones(width, dtype=x.dtype)
                for t in range(j + 1, i + 1):
                    kept = kept * forget[t]
                weight = (silu(q[i]) * kept * (1.0 - forget[j])).sum() / math.sqrt(width)
            else:
                product = silu(q[i]) * silu(k[j]) / math.sqrt(width)
                if name == "cosformer2":
                    half = width // 2
                    angles = 10000.0 ** (-2.0 * torch.arange(half, dtype=x.dtype) / width)
                    turn = torch.ones(width, dtype=x.dtype)
                    turn[:half] = torch.cos(angles * (i - j))
                    product = product * turn
                decay = math.exp(-(2.0**-8) * (1.0 + 1e-5)) if name == "tnl" else 1.0
                weight = product.sum() * decay ** (i - j)
            total = total + weight * v[j]
        read.append(total)
    return torch.stack(read)


@extra
@pytest.mark.parametrize("name", RECURRENT)
def test_a_recurrent_mixer_is_its_sum_over_earlier_tokens(name):
    import torch

    p = {key: one.requires_grad_(True) for key, one in parameters_of(torch, name).items()}
    x, positions = tokens_and_positions(torch)
    whole = torch.stack([naive(torch, name, row, p) for row in x])
    ours = make_mixer(name).mix(x, positions, p)
    reference = mixers.at_positions(whole, positions)
    assert_same_with_gradients(torch, ours, reference, list(p.values()))


@extra
@pytest.mark.parametrize("name", ALL)
def test_no_mixer_sees_what_comes_later(name):
    import torch

    p = parameters_of(torch, name)
    x, _ = tokens_and_positions(torch)
    positions = torch.tensor([[0, 4], [0, 4]])
    before = make_mixer(name).mix(x, positions, p)
    changed = x.clone()
    changed[:, 5:] = 7.0
    after = make_mixer(name).mix(changed, positions, p)
    assert torch.allclose(before, after, rtol=1e-12, atol=1e-12)
    changed[:, 4] = -1.0
    other = make_mixer(name).mix(changed, positions, p)
    assert torch.allclose(before[:, 0], other[:, 0], rtol=1e-12, atol=1e-12)
    assert not torch.allclose(before[:, 1], other[:, 1], rtol=1e-3, atol=1e-3)


def test_both_published_decays():
    assert tnl_log_decay(head=1, heads=2) == pytest.approx(-(2.0**-8) * (1.0 + 1e-5))
    assert tnl_log_decay(layer=1, layers=2) == pytest.approx(-(2.0**-8) * 1e-5)
    assert tnl_log_decay("fla") == 0.0
    assert tnl_log_decay("fla", head=1, heads=4, layer=1, layers=2) == -1.0


def test_the_decay_of_tnl_is_that_of_its_slope():
    assert make_mixer("tnl", slope="fla").name == "tnl"
    with pytest.raises(ValueError, match=r"^slope must be one of lightning, fla, got retnet$"):
        make_mixer("tnl", slope="retnet")
    with pytest.raises(ValueError, match=r"^mixer must be one of .*, got mamba$"):
        make_mixer("mamba")
