# One virtual environment for everything. PYTHON may name another interpreter (3.11 or newer).
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test slow check clean

demo: .venv/core  ## the built-in model learns arithmetic
	$(BIN)/covey demo

test: .venv/dev  ## all tests that need nothing more, under ten minutes
	$(BIN)/pytest

slow: .venv/dev  ## the demo for real, a pretrained model, the README's commands
	$(BIN)/pytest -m slow

check: .venv/dev  ## style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

.venv/core: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --constraint constraints.txt --editable .
	touch $@

.venv/dev: .venv/core
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev,gym,gguf]'
	touch $@

clean:
	rm -rf .venv build dist runs .pytest_cache .ruff_cache .hypothesis
