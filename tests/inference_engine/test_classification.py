import numpy as np

from onnxsmith.inference_engine.classification import probabilities, softmax, top_classes


def test_softmax_of_known_logits():
    np.testing.assert_allclose(softmax(np.log([[1.0, 2.0, 7.0]])), [[0.1, 0.2, 0.7]], rtol=1e-12)


def test_softmax_does_not_overflow():
    np.testing.assert_allclose(softmax(np.array([[1e4, 1e4], [-1e4, 0.0]])), [[0.5, 0.5], [0.0, 1.0]])


def test_probabilities_are_left_as_they_are():
    rows = np.array([[0.25, 0.75], [1.0, 0.0]], np.float32)
    np.testing.assert_array_equal(probabilities(rows), rows)


def test_top_classes_come_most_probable_first():
    (row,) = top_classes(np.log(np.array([[0.1, 0.6, 0.3]])), k=2)
    assert [score.index for score in row] == [1, 2]
    np.testing.assert_allclose([score.probability for score in row], [0.6, 0.3])


def test_more_classes_than_there_are():
    assert len(top_classes(np.zeros((1, 3)), k=5)[0]) == 3
