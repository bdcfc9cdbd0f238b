import logging
import os
import sys
import threading
import warnings

import pytest

from onnxsmith.model_exporter.chatter import quiet, reason


def test_what_is_printed_and_logged_goes_to_the_log(capfd, caplog):
    logging.getLogger("torch.onnx").addHandler(logging.StreamHandler(sys.stderr))
    try:
        with caplog.at_level("DEBUG", logger="onnxsmith"), quiet():
            print("from Python")
            print("to standard error", file=sys.stderr)
            os.write(1, b"from native code\n")
            logging.getLogger("torch.onnx.export").warning("from a logger")
    finally:
        logging.getLogger("torch.onnx").handlers.pop()
    assert capfd.readouterr() == ("", "")
    for text in ("from Python", "to standard error", "from native code", "torch.onnx.export: from a logger"):
        assert text in caplog.text


def test_everything_is_as_before_afterwards_even_after_an_error(capfd):
    streams, handlers = (sys.stdout, sys.stderr), list(logging.getLogger("torch").handlers)
    with pytest.raises(KeyboardInterrupt), quiet():
        raise KeyboardInterrupt
    assert (sys.stdout, sys.stderr) == streams
    assert logging.getLogger("torch").handlers == handlers
    print("heard")
    os.write(1, b"again\n")
    assert capfd.readouterr().out == "heard\nagain\n"


def test_another_thread_can_still_write_to_standard_error(capfd):
    with quiet():
        thread = threading.Thread(target=lambda: print("progress", file=sys.stderr))
        thread.start()
        thread.join()
    assert capfd.readouterr().err == "progress\n"


def test_warnings_about_the_model_are_kept_once_and_deprecations_are_not():
    with quiet() as heard:
        for _ in range(2):
            warnings.warn("the batch is odd\nand more", UserWarning, stacklevel=1)
        warnings.warn("old", DeprecationWarning, stacklevel=1)
        warnings.warn("older", FutureWarning, stacklevel=1)
    assert heard.warnings == ["the batch is odd"]


def test_the_reason_is_the_first_line_of_the_root_cause():
    error = RuntimeError("step 3 failed")
    error.__cause__ = ValueError("\n\x1b[96mno such\x1b[0m operator\nstack")
    assert reason(error) == "no such operator"
    assert reason(ValueError()) == "ValueError"
    assert len(reason(ValueError("x" * 1000))) == 301
