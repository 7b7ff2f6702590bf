"""Tasks and overlaps ``q_k, q_v`` at which several tests look at the channel of spiked-SLR."""

from slrlab import SpikedSLR

POINTS = [
    (SpikedSLR(2.0, 3, 0.5), 0.5, 0.4),
    (SpikedSLR(2.0, 3), 0.5, 0.999),
    (SpikedSLR(5.0, 10, 0.1), 0.8, 0.6),
    (SpikedSLR(1.0, "1,2,5"), 0.3, 0.7),
    (SpikedSLR(1.0, 2), 0.1, 5e-4),
]
