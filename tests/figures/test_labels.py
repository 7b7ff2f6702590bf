import matplotlib.pyplot as plt
import numpy as np

from slrlab.figures.labels import place_labels


def test_names_cover_no_name_and_no_marker():
    figure, panel = plt.subplots()
    at = np.random.default_rng(0).uniform(0.3, 0.7, (12, 2))
    panel.plot(*at.T, "o", markersize=4)
    panel.set(xlim=(0.0, 1.0), ylim=(0.0, 1.0))
    place_labels(panel, [f"name {i}" for i in range(12)], at)
    figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in panel.texts]
    points = panel.transData.transform(at)
    for index, box in enumerate(boxes):
        assert not box.count_overlaps(boxes[:index])
        assert not box.count_contains(points)
        assert panel.get_window_extent().count_contains(box.corners()) == 4
    plt.close(figure)
