import pickle
import sys

import joblib
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from onnxsmith.errors import ExportError
from onnxsmith.model_exporter.factories import load_estimator, load_module, load_state_dict

NETS = """
import torch
net = torch.nn.Linear(3, 2)
def make(): return torch.nn.Linear(3, 2)
class Net(torch.nn.Linear):
    def __init__(self): super().__init__(3, 2)
class Outer: Inner = Net
def wrong(): return {}
def raising(): raise ValueError('no weights here')
def printing():
    print('chatter')
    return net
size = 3
"""


@pytest.mark.parametrize("name", ["net", "make", "Net", "Outer.Inner", "printing"])
def test_a_module_a_function_and_a_class_in_the_current_folder(written_module, capfd, name):
    module = load_module(f"{written_module(NETS)}:{name}")
    assert (module.in_features, module.out_features) == (3, 2)
    assert capfd.readouterr() == ("", "")


def test_the_search_path_is_as_it_was(written_module):
    before = list(sys.path)
    load_module(f"{written_module(NETS)}:make")
    assert sys.path == before


def test_random_weights_follow_the_seed(written_module):
    name = written_module("import torch\ndef make(): return torch.nn.Linear(3, 2)")
    source = f"{name}:make"
    first, second, other = (load_module(source, seed=seed).weight for seed in (1, 1, 2))
    assert torch.equal(first, second)
    assert not torch.equal(first, other)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("user_nets", "'user_nets' does not name a factory"),
        ("user_nets:", "does not name a factory"),
        (":make", "does not name a factory"),
        ("no_such_package:make", "'no_such_package:make': there is no module no_such_package"),
        ("user_nets.inner:make", "there is no module"),
        ("user_nets:makes", "the module user_nets has no 'makes'"),
        ("user_nets:wrong", "'user_nets:wrong' returned a dict, not a torch.nn.Module"),
        ("user_nets:raising", "'user_nets:raising' raised ValueError: no weights here"),
        ("user_nets:size", "'user_nets:size' is a int, neither a torch.nn.Module nor a function"),
    ],
)
def test_what_names_no_module(written_module, source, message):
    written_module(NETS)
    with pytest.raises(ExportError, match=message):
        load_module(source)


def test_the_names_that_are_there_are_offered(written_module):
    with pytest.raises(ExportError, match="It has: 'make', 'Net', 'Outer', 'wrong', 'raising' and 1 more"):
        load_module(f"{written_module(NETS)}:makes")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("import no_such_dependency", "importing user_nets failed: No module named 'no_such_dependency'"),
        ("1 / 0", "importing user_nets failed with ZeroDivisionError: division by zero"),
        ("def broken(:", "importing user_nets failed with SyntaxError"),
        ("raise SystemExit(3)", "importing user_nets failed with SystemExit: 3"),
    ],
)
def test_a_module_that_cannot_be_imported(written_module, text, message):
    with pytest.raises(ExportError, match=message):
        load_module(f"{written_module(text)}:make")


def test_a_state_dict_is_applied(written_module, tmp_path):
    source, path = f"{written_module(NETS)}:make", tmp_path / "weights.pt"
    weights = {"weight": torch.arange(6.0).reshape(2, 3), "bias": torch.tensor([1.0, -1.0])}
    torch.save(weights, path)
    torch.testing.assert_close(dict(load_module(source, path).state_dict()), weights)


def test_pickled_objects_are_refused_and_do_not_run(tmp_path):
    path, proof = tmp_path / "weights.pt", tmp_path / "ran"
    torch.save(torch.nn.Linear(3, 2), path)
    with pytest.raises(ExportError, match=r"holds pickled objects.*refused(.|\n)*module.state_dict\(\)"):
        load_state_dict(path)

    class Evil:
        def __reduce__(self):
            return open, (str(proof), "w")

    torch.save({"weight": Evil()}, path)
    with pytest.raises(ExportError, match="holds pickled objects"):
        load_state_dict(path)
    assert not proof.exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "there is no such file"),
        (b"", "is not a PyTorch state dict"),
        (b"not a checkpoint", "is not a PyTorch state dict"),
        (b"PK\x03\x04 broken", "is not a PyTorch state dict"),
        ([torch.zeros(2)], "holds a list, not a state dict"),
        (
            {"epoch": 3, "state_dict": {"weight": torch.zeros(2)}, "weight": torch.zeros(1)},
            "'epoch', 'state_dict' are no tensor",
        ),
    ],
)
def test_files_that_are_no_state_dict(tmp_path, content, message):
    path = tmp_path / "weights.pt"
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif content is not None:
        torch.save(content, path)
    with pytest.raises(ExportError, match=message):
        load_state_dict(path)


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({"weight": torch.zeros(2, 3)}, "does not fit Linear: it lacks 'bias'."),
        (
            {"weight": torch.zeros(2, 3), "module.bias": torch.zeros(2)},
            "it lacks 'bias'; it has in addition 'module.bias'.",
        ),
        ({"weight": torch.zeros(4, 3), "bias": torch.zeros(2)}, "does not fit Linear: size mismatch for weight"),
    ],
)
def test_a_state_dict_of_another_module(written_module, tmp_path, state, message):
    torch.save(state, tmp_path / "weights.pt")
    with pytest.raises(ExportError, match=message):
        load_module(f"{written_module(NETS)}:make", tmp_path / "weights.pt")


def test_a_pickled_estimator_needs_trust(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    estimator = LogisticRegression().fit([[0.0], [1.0]], [0, 1])
    joblib.dump(estimator, "model.joblib")
    (tmp_path / "plain").write_bytes(pickle.dumps(estimator))
    for name in ("model.joblib", "plain"):
        with pytest.raises(ExportError, match=r"a pickle can run any code.*trusted input only(.|\n)*--trust-pickle"):
            load_estimator(name)
        assert load_estimator(name, trust_pickle=True).coef_ == pytest.approx(estimator.coef_)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("missing.pkl", None, "missing.pkl: there is no such file"),
        ("broken.pkl", b"\x80\x05nonsense", "broken.pkl: cannot be loaded"),
        ("other.pkl", pickle.dumps([1, 2]), "other.pkl: holds a list, not a scikit-learn estimator"),
    ],
)
def test_trusted_files_that_hold_no_estimator(tmp_path, monkeypatch, name, content, message):
    monkeypatch.chdir(tmp_path)
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(ExportError, match=message):
        load_estimator(name, trust_pickle=True)


def test_an_estimator_of_a_factory(written_module):
    written_module(
        "from sklearn.linear_model import LinearRegression\ndef make(): return LinearRegression()\nrows = [1]"
    )
    assert type(load_estimator("user_nets:make")).__name__ == "LinearRegression"
    with pytest.raises(ExportError, match="is a list, neither a scikit-learn estimator nor a function"):
        load_estimator("user_nets:rows")
