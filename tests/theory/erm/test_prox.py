"""The compiled channel against its dense reference, brute force and the envelope theorem."""

import itertools
import math
import threading
from dataclasses import replace

import numba
import numpy as np
import pytest

from kernel_activations import ALL, SEES_LENGTH, SMOOTH, by_name
from slrlab import LengthScaled, MaxSLR, SpikedSLR, make_activation
from slrlab.model.activation_code import activation_code
from slrlab.model.weights_reference import CodedWeights
from slrlab.theory.erm import codes, prox_kernel, prox_reference
from slrlab.theory.erm.equations import Channel
from slrlab.theory.erm.fields import draw_fields
from slrlab.theory.erm.overlaps import ErmOverlaps

M_K, Q_K, M_V, Q_V, NOISE = 0.8, 1.2, 0.7, 0.8, 0.1
POINT = ErmOverlaps(m_k=0.7, q_k=0.9, V_k=0.6, m_v=0.6, q_v=0.7, V_v=0.4)
FLAGS = [codes.BISTABLE, codes.JUMPED, codes.UNSOLVED]


def fields(length, count, seed=0):
    """Normals in blocks of one sample, so that the means are those of single samples."""
    rng = np.random.default_rng(seed)
    base = np.zeros((count, 1, length))
    base[..., 0] = 2.0
    shape = (count, 1, length)
    return (
        base,
        rng.standard_normal(shape),
        rng.standard_normal(shape),
        rng.standard_normal(shape[:2]),
    )


def order(V_k=1.0, V_v=0.5, **changes):
    values = {"m_k": M_K, "std": math.sqrt(Q_K), "slope": M_K / math.sqrt(Q_K), "bias": 0.1}
    values |= {"m_v": M_V, "q_v": Q_V, "noise": NOISE, "V_k": V_k, "V_v": V_v}
    return tuple(float(value) for value in (values | changes).values())


def no_memory(arrays):
    """Return a memory of minima for `run` to fill."""
    return np.zeros(arrays[3].shape, dtype=bool), np.zeros(arrays[1].shape)


def run(module, arrays, numbers, activation, search=codes.EVERYWHERE, squares=False, memory=None):
    code = activation_code(activation)
    memory = no_memory(arrays) if memory is None else memory
    numbers = (numbers, code.numbers, code.table)
    return module.channel_sums(*arrays, *numbers, *memory, search, squares)


def omegas(arrays, numbers):
    """Return the fields ``ω_χ, ω_z`` and the label of each sample."""
    base, n_k, n_z, n_y = arrays
    m_k, std, _, bias, m_v, q_v, noise, *_ = numbers
    y = m_v / math.sqrt(q_v) * n_z[:, 0, :1] + math.sqrt(1 - m_v**2 / q_v + noise**2) * n_y
    return (m_k * base + std * n_k + bias)[:, 0], math.sqrt(q_v) * n_z[:, 0], y


def samples(arrays, numbers, activation):
    code = activation_code(activation)
    weights = CodedWeights(code.numbers, code.table)
    return prox_reference._Samples(*omegas(arrays, numbers), numbers[-2], numbers[-1], weights)


def slow(*values):
    return pytest.param(*values, marks=pytest.mark.slow)


@by_name(ALL)
@pytest.mark.parametrize(
    ("length", "V_k", "search"),
    [
        (1, 1.0, codes.EVERYWHERE),
        (2, 5.0, codes.FROM_FIELD),
        (3, 5.0, codes.EVERYWHERE),
        *(slow(length, 1.0, codes.EVERYWHERE) for length in (2, 3, 8)),
        *(slow(length, 5.0, codes.EVERYWHERE) for length in (1, 2, 8)),
        *(slow(length, 5.0, codes.FROM_FIELD) for length in (1, 3, 8)),
    ],
)
def test_the_kernel_is_its_reference(activation, length, V_k, search):
    arrays, numbers = fields(length, 200, seed=length), order(V_k)
    ours, reference = (
        run(module, arrays, numbers, activation, search, squares=True)
        for module in (prox_kernel, prox_reference)
    )
    np.testing.assert_array_equal(ours[:, FLAGS], reference[:, FLAGS])
    settled = ours[:, codes.UNSOLVED] == 0.0
    assert settled.mean() > 0.99
    gap = np.abs(ours - reference)[settled] / (1.0 + np.abs(reference[settled]))
    # a diagonal entry near zero costs one sample in a hundred its digits: how many, rounding says
    assert np.quantile(gap.max(axis=1), 0.99) < 1e-9
    assert gap.max() < 1e-3


@by_name(ALL)
@pytest.mark.parametrize("V_k", [pytest.param(1.0, marks=pytest.mark.slow), 5.0])
def test_remembered_minima_are_those_of_a_full_search(activation, V_k):
    """From a search at other overlaps, but where samples have got second minima since."""
    arrays, numbers = fields(3, 400), order(V_k)
    everywhere, nearby = run(prox_kernel, arrays, numbers, activation), order(1.05 * V_k, 0.52)
    sums = {}
    for module in (prox_kernel, prox_reference):
        memory = no_memory(arrays)
        run(module, arrays, nearby, activation, memory=memory)
        several = memory[0].copy()
        sums[module] = run(module, arrays, numbers, activation, codes.REMEMBERED, memory=memory)
        np.testing.assert_array_equal(memory[0], several)
    ours, reference = sums.values()
    np.testing.assert_array_equal(ours[:, FLAGS], reference[:, FLAGS])
    solved = (ours[:, codes.UNSOLVED] == 0.0) & (everywhere[:, codes.UNSOLVED] == 0.0)
    same = solved & (everywhere[:, codes.BISTABLE] == several[:, 0])
    assert same.mean() > 0.97
    moved = same & (np.abs(ours[:, codes.G_K2] - everywhere[:, codes.G_K2]) > 1e-6)
    # the search may miss a minimum that is close to another one, where the memory has it
    assert moved.mean() <= 0.005
    assert (ours[moved, codes.ENVELOPE] < everywhere[moved, codes.ENVELOPE]).all()
    np.testing.assert_allclose(ours[solved, codes.LOSS], reference[solved, codes.LOSS], atol=1e-6)


@by_name(ALL)
def test_blocks_and_groups_of_samples_average(activation):
    arrays, numbers = fields(3, 64), order()
    single = run(prox_kernel, arrays, numbers, activation, squares=True)
    base, n_k, n_z, n_y = arrays
    blocked = (*(array.reshape(4, 16, 3) for array in (base, n_k, n_z)), n_y.reshape(4, 16))
    for module in (prox_kernel, prox_reference):
        means = run(module, blocked, numbers, activation, squares=True)
        assert means.shape == (4, codes.SUMS)
        np.testing.assert_allclose(means, single.reshape(4, 16, -1).mean(axis=1), atol=1e-7)
    plain = run(prox_kernel, blocked, numbers, activation, squares=False)
    np.testing.assert_array_equal(plain[:, codes.GG_KK :], 0.0)


@by_name(SMOOTH)
@pytest.mark.parametrize("V_k", [0.3, 5.0])
def test_gradient_and_hessian_of_the_objective_by_differences(activation, V_k):
    batch = samples(fields(3, 40), order(V_k), activation)
    chi = batch.omega_k + 0.3
    slope, hessian = batch.newton(chi)
    h = 1e-5
    for i in range(3):
        e = h * np.eye(3)[i]
        ahead, behind = batch.objective(chi + e), batch.objective(chi - e)
        np.testing.assert_allclose(slope[:, i], (ahead - behind) / (2 * h), rtol=1e-6, atol=1e-7)
        change = (batch.newton(chi + e)[0] - batch.newton(chi - e)[0]) / (2 * h)
        np.testing.assert_allclose(hessian[:, i], change, rtol=2e-5, atol=1e-5)


@by_name(SMOOTH)
@pytest.mark.parametrize("V_k", [0.3, 5.0])
def test_the_prox_is_stationary_and_a_minimum(activation, V_k):
    batch = samples(fields(4, 200), order(V_k), activation)
    chi, _, _, settled = prox_reference._solve(batch, batch.omega_k, np.ones(200, dtype=bool))
    slope, hessian = (part[settled] for part in batch.newton(chi))
    step = np.linalg.solve(hessian, slope[..., None])
    assert np.abs(step).max() < 2e-6
    assert np.linalg.eigvalsh(hessian).min() > 0.0
    lowest = batch.objective(chi)
    rng = np.random.default_rng(0)
    for size in (1e-2, 0.3, 2.0):
        other = chi + size * rng.standard_normal(chi.shape)
        assert (batch.objective(other) >= lowest - 1e-10).mean() > 0.99


@by_name(ALL)
@pytest.mark.parametrize("V_k", [pytest.param(1.0, marks=pytest.mark.slow), 5.0])
def test_the_prox_is_the_global_minimum(activation, V_k):
    """Against a dense grid, on samples some of which have two minima."""
    arrays, numbers = fields(2, 60, seed=3), order(V_k)
    sums = run(prox_kernel, arrays, numbers, activation)
    batch = samples(arrays, numbers, activation)
    line = np.linspace(-1.0, 1.0, 81) * math.sqrt(2 * V_k * sums[:, codes.ENVELOPE].max())
    grid = np.stack(np.meshgrid(line, line, indexing="ij"), axis=-1).reshape(-1, 2)
    missed = 0
    for i in range(len(sums)):
        one = batch.take(np.full(len(grid), i))
        missed += one.objective(one.omega_k + grid).min() < sums[i, codes.ENVELOPE] - 1e-8
    assert missed <= 0.01 * len(sums)


@pytest.mark.parametrize("length", [2, 3, 6])
def test_third_cumulants_under_weights_are_bounded(length):
    """The bound for two tokens, ``1/(3√3)`` of the range, holds for any number of them."""
    rng = np.random.default_rng(length)
    sigma = rng.dirichlet(np.full(length, 0.5), size=200_000)
    u = rng.standard_normal(sigma.shape)
    u /= np.linalg.norm(u, axis=1, keepdims=True)
    c = rng.integers(0, 2, sigma.shape)  # the cumulant is linear in c: corners suffice
    square = (u - (sigma * u).sum(axis=1, keepdims=True)) ** 2
    cumulant = (sigma * c * square).sum(1) - (sigma * c).sum(1) * (sigma * square).sum(1)
    assert np.abs(cumulant).max() <= prox_kernel._CUMULANT
    assert np.abs(cumulant).max() > 0.7 * prox_kernel._CUMULANT


@pytest.mark.parametrize(("length", "V_k"), [(2, 3.0), (3, 1.0), (8, 0.5)])
def test_samples_called_convex_are(length, V_k):
    """Their Hessian is positive wherever one looks, so the search for other minima is skipped."""
    activation, numbers = make_activation("softmax"), order(V_k)
    batch = samples(fields(length, 400, seed=length), numbers, activation)
    prior = (V_k, 1.0 / V_k, numbers[-1], 1e-4)
    work = np.zeros((prox_kernel.SCRATCH_ROWS, length))
    convex = np.zeros(400, dtype=bool)
    for i in range(400):
        work[prox_kernel.OM_Z] = batch.omega_z[i]
        y = float(batch.y[i, 0])
        convex[i] = prox_kernel._is_convex(work, y, prior, activation_code(activation).numbers)
    assert 0.2 < convex.mean() < 1.0
    sure = batch.take(np.flatnonzero(convex))
    rng = np.random.default_rng(0)
    for size in (0.5, 2.0, 2.0, 4.0):
        chi = size * rng.standard_normal(sure.omega_k.shape)
        assert np.linalg.eigvalsh(sure.newton(chi)[1]).min() > 0.0
    other = activation_code(make_activation("softplus")).numbers
    assert not prox_kernel._is_convex(work, 0.0, prior, other)


@by_name(SMOOTH)
def test_gains_are_minus_the_slopes_of_g(activation):
    """Traces and squares of ``G = −∂g/∂ω`` against differences of the reference prox."""
    arrays, numbers = fields(3, 60, seed=5), order(0.8)
    sums = run(prox_kernel, arrays, numbers, activation, codes.FROM_FIELD, squares=True)
    batch = samples(arrays, numbers, activation)

    def g(omega):
        part = replace(batch, omega_k=omega[:, :3], omega_z=omega[:, 3:])
        chi, *_ = prox_reference._solve(part, part.omega_k, np.zeros(60, dtype=bool))
        for _ in range(2):
            slope, hessian = part.newton(chi)
            chi = chi - np.linalg.solve(hessian, slope[..., None])[..., 0]
        sigma = part.attention.weights(chi)
        return np.concatenate([(chi - part.omega_k) / part.V_k, part.values(sigma)[0] * sigma], 1)

    omega, h = np.concatenate([batch.omega_k, batch.omega_z], axis=1), 1e-5
    steps = h * np.eye(6)
    G = -np.stack([(g(omega + e) - g(omega - e)) / (2 * h) for e in steps], axis=2)
    kk, kv, vk, vv = G[:, :3, :3], G[:, :3, 3:], G[:, 3:, :3], G[:, 3:, 3:]
    expected = {
        codes.TRACE_K: np.trace(kk, axis1=1, axis2=2),
        codes.TRACE_V: np.trace(vv, axis1=1, axis2=2),
        codes.GG_KK: (kk**2).sum(axis=(1, 2)),
        codes.GG_KV: (kv**2).sum(axis=(1, 2)),
        codes.GG_VV: (vv**2).sum(axis=(1, 2)),
        codes.GG_CROSS: (kk * vv + kv * vk).sum(axis=(1, 2)),
    }
    # a difference across a jump, or across the edge of a support, is no derivative
    fair = np.abs(G - G.swapaxes(1, 2)).max(axis=(1, 2)) < 1e-4
    assert fair.mean() > 0.95
    for index, value in expected.items():
        np.testing.assert_allclose(sums[fair, index], value[fair], rtol=1e-4, atol=1e-5)


def test_a_factor_of_zero_leaves_nothing_to_learn():
    """Scores times 0 leave the keys free of forces; weights times 0 the values too."""
    task, base = SpikedSLR(3.0, 2, 0.2), make_activation("erf", bias=0.1)
    for part, other in (("k", "v"), ("v", "k")):
        name = "score" if part == "k" else "factor"
        silent = LengthScaled("silent", base=base, bias=0.1, **{name: lambda n: 0.0})
        channel = Channel.of(draw_fields(task, 6), silent, task.noise)
        (hats,) = channel.means(POINT, squares=True).pooled.conjugates(2.0, POINT)
        assert getattr(hats, f"q_{part}") == getattr(hats, f"V_{part}") == 0.0
        assert (getattr(hats, f"q_{other}") > 0.0) == (part == "k")


TASKS = [SpikedSLR(3.0, 3, 0.2), MaxSLR(2.0, 3, 0.2)]
ENVELOPE_CASES = ["softmax", "softplus", "linear", "normalised: 1 + x + x**2/2", "erf"]


@pytest.mark.parametrize(
    ("task", "name"),
    [
        *itertools.product(TASKS, ENVELOPE_CASES),
        *itertools.product(TASKS[:1], ["l2-softmax", "stick-breaking", SEES_LENGTH]),
        (SpikedSLR(3.0, "1,3", 0.2), SEES_LENGTH),
    ],
    ids=lambda item: str(getattr(item, "name", item)),
)
def test_the_map_is_the_gradient_of_the_free_energy(task, name):
    """``q̂ = −2α∂_V EM``, ``V̂ = 2α∂_q EM``, ``m̂ = −α∂_m EM`` with the envelope ``M``."""
    activation, alpha = make_activation(name, bias=0.2), 2.0
    channel = Channel.of(draw_fields(task, 10, seed=2), activation, task.noise)
    rows = channel.means(POINT).conjugates(alpha, POINT)

    def slope(field, h):
        up, down = (
            channel.means(replace(POINT, **{field: getattr(POINT, field) + side * h}))
            for side in (1, -1)
        )
        return (up.rows - down.rows)[:, codes.ENVELOPE] / (2 * h)

    for part in "kv":
        q_hat = np.array([getattr(row, f"q_{part}") for row in rows])
        np.testing.assert_allclose(-2 * alpha * slope(f"V_{part}", 1e-4), q_hat, rtol=1e-6)
        for conjugate, field, factor in (("V", "q", 2.0), ("m", "m", -1.0)):
            hats = np.array([getattr(row, f"{conjugate}_{part}") for row in rows])
            gap = factor * alpha * slope(f"{field}_{part}", 1e-3) - hats
            error = gap.std(ddof=1) / math.sqrt(gap.size)
            assert abs(gap.mean()) <= 4.5 * error + 2e-5 * abs(hats.mean()) + 1e-6, (field, part)
            assert error < 0.02


def test_where_the_prox_jumps_only_the_form_of_stein_is_the_gradient():
    """``V̂_k = 2α∂_q EM`` at weak stiffness, where many samples have two minima."""
    task, jumpy = SpikedSLR(3.0, 3, 0.2), replace(POINT, V_k=20.0)
    channel = Channel.of(draw_fields(task, 12, seed=2), make_activation("softmax"), task.noise)
    means = channel.means(jumpy)
    assert means.mean("BISTABLE") > 0.02
    up, down = (channel.means(replace(jumpy, q_k=jumpy.q_k + h)).rows for h in (0.05, -0.05))
    slopes = 2.0 * (up - down)[:, codes.ENVELOPE] / 0.1
    gaps = {}
    for form in ("stein", "trace"):
        hats = np.array([row.V_k for row in means.conjugates(1.0, jumpy, form)])
        gap = slopes - hats
        gaps[form] = abs(gap.mean()) / (gap.std(ddof=1) / math.sqrt(gap.size))
    assert gaps["stein"] < 4.5
    assert gaps["trace"] > 20.0


@by_name(ALL)
@pytest.mark.parametrize("length", [1, 3])
@pytest.mark.parametrize(
    "changes",
    [
        {"V_k": 1e-12, "V_v": 1e-12},
        {"V_k": 1e6},
        {"V_v": 1e6},
        {"V_k": 1e6, "V_v": 1e6},
        {"m_k": 0.0, "std": 0.0, "slope": 0.0},
        {"m_k": 30.0, "std": 30.0},
        {"q_v": 0.49, "noise": 0.0},
        {"m_v": 0.0, "q_v": 1e-300},
    ],
    ids=str,
)
def test_degenerate_inputs_give_finite_numbers_that_add_up(activation, length, changes):
    numbers = order(**changes)
    base, n_k, n_z, n_y = fields(length, 50)
    silent = (base, n_k, np.zeros_like(n_z), np.zeros_like(n_y))  # y = 0 and ω_z = 0
    for arrays in ((base, n_k, n_z, n_y), silent):
        sums = run(prox_kernel, arrays, numbers, activation, squares=True)
        assert np.isfinite(sums).all()
        # at the minimum ``½ρ² + |χ − ω_χ|²/(2V_k) + |z − ω_z|²/(2V_v)``, where ``g = (x − ω)/V``
        parts = sums[:, [codes.LOSS, codes.G_K2, codes.G_V2]] @ [1.0, *numbers[-2:]]
        np.testing.assert_allclose(sums[:, codes.ENVELOPE], parts / 2.0, rtol=1e-12)


def test_without_noise_in_the_label_nothing_pulls():
    """At ``y = 0, ω_z = 0`` the loss is zero where it starts: no force at all."""
    base, n_k, n_z, n_y = fields(3, 20)
    arrays = (base, n_k, np.zeros_like(n_z), np.zeros_like(n_y))
    sums = run(prox_kernel, arrays, order(), make_activation("softmax"))
    for index in (codes.G_K2, codes.G_V2, codes.LOSS, codes.ENVELOPE, codes.TRACE_K):
        np.testing.assert_array_equal(sums[:, index], 0.0)


def test_two_threads_may_use_one_channel():
    task = SpikedSLR(3.0, 3, 0.2)
    channel = Channel.of(draw_fields(task, 8), make_activation("softmax"), task.noise)
    points = [replace(POINT, V_k=0.1 * i + 0.1) for i in range(8)]
    alone = [channel.means(point).rows for point in points]
    together: dict[int, np.ndarray] = {}

    def work(i):
        together[i] = channel.means(points[i]).rows

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for i, rows in enumerate(alone):
        np.testing.assert_array_equal(together[i], rows)


def test_results_do_not_depend_on_the_number_of_threads():
    channel = Channel.of(draw_fields(SpikedSLR(3.0, 3), 8), make_activation("softmax"), 0.1)
    point = ErmOverlaps(m_k=0.7, q_k=0.9, V_k=2.0, m_v=0.6, q_v=0.7, V_v=0.4)
    many, before = channel.means(point).rows, numba.get_num_threads()
    try:
        numba.set_num_threads(1)
        np.testing.assert_array_equal(channel.means(point).rows, many)
    finally:
        numba.set_num_threads(before)
