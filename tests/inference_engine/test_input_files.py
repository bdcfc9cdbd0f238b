import numpy as np
import pytest

from onnxsmith.config import InferenceConfig
from onnxsmith.errors import OutputError, TensorError
from onnxsmith.inference_engine.input_files import read_inputs, save_outputs
from onnxsmith.model import TensorSpec

IMAGE = TensorSpec(name="image", kind="tensor", dtype="float32", shape=("n", 3, 4, 6))
RATE = TensorSpec(name="rate", kind="tensor", dtype="int64", shape=())
TEXT = TensorSpec(name="text", kind="tensor", dtype="string", shape=("n",))


def read(*texts, specs=(IMAGE, RATE), config=None):
    return read_inputs(texts, specs, config or InferenceConfig())


def test_numbers_and_strings_as_json():
    assert read("rate=16000") == {"rate": 16000}
    assert read('text=["a", "b=c"]', specs=[TEXT]) == {"text": ["a", "b=c"]}
    assert read("text=plain words", specs=[TEXT]) == {"text": ["plain words"]}


def test_an_array_and_an_archive(tmp_path):
    array = np.arange(72, dtype=np.float32).reshape(1, 3, 4, 6)
    np.save(tmp_path / "a.npy", array)
    np.savez(tmp_path / "all.npz", image=array, rate=np.array(8000))
    np.testing.assert_array_equal(read(f"image={tmp_path / 'a.npy'}")["image"], array)
    both = read(str(tmp_path / "all.npz"))
    np.testing.assert_array_equal(both["image"], array)
    assert both["rate"] == 8000


def test_with_one_input_its_name_may_be_left_out(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros(3))
    assert list(read(str(tmp_path / "a.npy"), specs=[TEXT])) == ["text"]
    with pytest.raises(TensorError, match="say which one"):
        read(str(tmp_path / "a.npy"))


def test_pickled_arrays_are_refused(tmp_path):
    np.save(tmp_path / "a.npy", np.array([{"x": 1}], object))
    with pytest.raises(TensorError, match="cannot be read"):
        read(f"image={tmp_path / 'a.npy'}")


@pytest.mark.parametrize("name", ["a.npy", "a.npz", "a.png"])
def test_files_that_are_missing_or_broken(tmp_path, name):
    pytest.importorskip("PIL", reason="Pillow is an extra")
    text = f"image={tmp_path / name}" if name != "a.npz" else str(tmp_path / name)
    with pytest.raises(TensorError, match="no such file"):
        read(text)
    (tmp_path / name).write_bytes(b"nonsense")
    with pytest.raises(TensorError, match="cannot be read"):
        read(text)


def test_unknown_names_and_values_that_are_nothing():
    with pytest.raises(TensorError, match=r"no input 'images'. Did you mean 'image'\?"):
        read("images=1")
    with pytest.raises(TensorError, match=r"neither a \.npy file, nor an image, nor JSON"):
        read("rate=fast")


def test_an_image_is_resized_scaled_and_normalised(tmp_path):
    image_module = pytest.importorskip("PIL.Image", reason="Pillow is an extra")
    image_module.new("RGB", (12, 8), (255, 0, 51)).save(tmp_path / "i.png")
    config = InferenceConfig(image_mean=(0.5, 0.0, 0.2), image_std=(0.5, 1.0, 0.1))
    image = read(f"image={tmp_path / 'i.png'}", config=config)["image"]
    assert (image.shape, image.dtype) == ((1, 3, 4, 6), np.float32)
    np.testing.assert_allclose(image[0, :, 0, 0], [1.0, 0.0, 0.0], atol=1e-6)


def test_images_of_other_layouts(tmp_path):
    image_module = pytest.importorskip("PIL.Image", reason="Pillow is an extra")
    image_module.new("RGB", (5, 7), (10, 20, 30)).save(tmp_path / "i.png")
    last = TensorSpec(name="x", kind="tensor", dtype="uint8", shape=(1, None, None, 3))
    image = read(f"x={tmp_path / 'i.png'}", specs=[last])["x"]
    assert (image.shape, image.dtype) == ((1, 7, 5, 3), np.uint8)
    assert list(image[0, 0, 0]) == [10, 20, 30]
    grey = TensorSpec(name="x", kind="tensor", dtype="float32", shape=("n", 1, 8, 8))
    assert read(f"x={tmp_path / 'i.png'}", specs=[grey])["x"].max() <= 1.0
    with pytest.raises(TensorError, match="rank 4"):
        read(f"rate={tmp_path / 'i.png'}")


def test_outputs_are_saved_and_read_back(tmp_path):
    outputs = {"y": np.arange(3, dtype=np.float32), "s": np.array(["a", "bc"], object)}
    save_outputs(tmp_path / "out.npz", outputs)
    with np.load(tmp_path / "out.npz", allow_pickle=False) as archive:
        np.testing.assert_array_equal(archive["y"], [0, 1, 2])
        assert list(archive["s"]) == ["a", "bc"]
    with pytest.raises(OutputError, match="'z' is a list"):
        save_outputs(tmp_path / "other.npz", {"z": []})
    assert not (tmp_path / "other.npz").exists()
