# `make run` runs the lifecycle, `make test` the tests; both set up .venv first. Python 3.11 or newer is all they need.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check

# A CPU build: the plain one from PyPI brings gigabytes of CUDA on Linux.
TORCH := torch==2.13.0
TORCH_INDEX := https://download.pytorch.org/whl/cpu
EXTRAS := report,images,torch,sklearn

.PHONY: run test lint install install-dev test-zoo test-peers test-large clean

run: install
	$(BIN)/onnxsmith run

test: install-dev
	$(BIN)/python -m pytest -m "not zoo and not peers and not large"

lint: install-dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

test-zoo: install-dev
	$(PIP) install --quiet -r tests/zoo/requirements.txt
	$(PIP) install --quiet --no-deps --ignore-requires-python -r tests/zoo/packages.txt
	$(BIN)/python -m pytest -m zoo

test-peers: install-dev
	$(PIP) install --quiet -e '.[peers]'
	$(BIN)/python -m pytest -m peers

test-large: install-dev
	$(BIN)/python -m pytest -m large

install: $(VENV)/.installed

install-dev: $(VENV)/.installed-dev

$(VENV)/.installed: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "onnxsmith needs Python 3.11 or newer; name one: make run PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --quiet --upgrade pip
	$(PIP) install --quiet --retries 1 --extra-index-url $(TORCH_INDEX) $(TORCH)
	$(PIP) install --quiet -e '.[$(EXTRAS)]'
	$(BIN)/python -m compileall -q src
	touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	$(PIP) install --quiet --group dev
	touch $@

clean:
	rm -rf $(VENV) outputs logs
