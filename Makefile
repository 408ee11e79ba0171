# Each target sets up what it needs on a machine that has only Python 3.11 or newer.
#   .venv        the library and its tools, no PyTorch    (test, lint, docs)
#   .venv-demo   the library at its fastest, no PyTorch   (demo)
#   .venv-torch  the library beside the real PyTorch      (parity, bench)
#   .venv-cuda   the library with CuPy                    (test-cuda, where $(PYTHON) has no CuPy)
#   .venv-docs   the library and what builds the site     (site, site-test)
#   .venv-suite  the library and what PyTorch's own tests import, no PyTorch  (torch-tests)

PYTHON ?= python3
PIP_INSTALL = -m pip install --quiet --disable-pip-version-check

.PHONY: help demo demo-digits shim test test-quick test-npu test-cuda parity fuzz golden stubs bench bench-ops bench-cuda lint docs site \
        site-test torch-tests clean

help:
	@echo "make demo     train a small GPT, let it write, draw its loss curve, beside what PyTorch printed for this seed"
	@echo "make demo-digits  train a digit classifier and show what it learned"
	@echo "make shim     build the wheels of the library and of a package torch that stands for it, into packaging/dist"
	@echo "make test     run the test suite, without PyTorch"
	@echo "make test-quick run a part of it that takes less than a minute"
	@echo "make test-npu run the NPU's tests, on the simulator or with MINDTORCH_NPU=real on the hardware"
	@echo "make test-cuda run the CUDA backend's tests, on a machine with an NVIDIA GPU and CuPy; skipped without"
	@echo "make parity   compare with the real PyTorch, operator by operator"
	@echo "make fuzz     compare random programs, calls, configurations, indices and files with the real PyTorch, COUNT of each"
	@echo "make torch-tests SOURCE=checkout-of-pytorch  run PyTorch's own tests; one that passed before and does not is an error"
	@echo "make golden   ask the real PyTorch again for the answers that the tests compare with"
	@echo "make stubs    write the .pyi files anew from the operators' schemas"
	@echo "make bench    time the library against the real PyTorch"
	@echo "make bench-ops time every entry of PyTorch's operator database, small, with backward, and large, on one core and on all"
	@echo "make bench-cuda time it on an NVIDIA GPU, with a $(PYTHON) that has CuPy and PyTorch for CUDA"
	@echo "make lint     ruff and mypy"
	@echo "make docs     check the links of the documentation and run every example"
	@echo "make site     build the documentation site in build/site/html; make site-test looks at it in Chromium"
	@echo "make clean    remove the virtual environments and caches"

demo: .venv-demo/.ready
	@echo 'A small transformer learns to write: examples/train_gpt.py, an ordinary PyTorch script, runs on mindtorch_v2.'
	@.venv-demo/bin/python -m mindtorch_v2 examples/train_gpt.py

demo-digits: .venv-demo/.ready
	@.venv-demo/bin/python examples/digits.py

shim: .venv/.ready
	@.venv/bin/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir packaging/dist . packaging/torch-shim
	@ls packaging/dist

test: .venv/.ready
	@.venv/bin/python -m pytest -q tests/mindtorch_v2

# What a change breaks first, on all cores: tensors, views, autograd, modules, optimizers, files.
QUICK = contract nn optim test_api_names.py test_conversion.py test_creation.py test_forward_ad.py test_indexing.py \
	test_overrides.py test_printing.py test_serialization.py test_special_values.py test_torch_dispatch.py
test-quick: .venv/.ready
	@.venv/bin/python -m pytest -q -n auto $(addprefix tests/mindtorch_v2/,$(QUICK))

test-npu: .venv/.ready
	@.venv/bin/python -m pytest -q tests/mindtorch_v2/npu

# A Python that has CuPy is used as it is: which CuPy fits is known on that machine. Without a GPU there is nothing to
# install it for, and the tests say why they are skipped.
test-cuda:
	@if $(PYTHON) -c 'import cupy, pytest, scipy, ml_dtypes' 2> /dev/null; then \
	    PYTHONPATH=src $(PYTHON) -m pytest -q -rs tests/mindtorch_v2/cuda; \
	else \
	    venv=.venv; if command -v nvidia-smi > /dev/null; then venv=.venv-cuda; fi; \
	    $(MAKE) --no-print-directory $$venv/.ready && $$venv/bin/python -m pytest -q -rs tests/mindtorch_v2/cuda; \
	fi

parity: .venv-torch/.ready
	@.venv-torch/bin/python tests/parity/run_opdb.py
	@.venv-torch/bin/python tests/parity/run_opdb.py --more-types
	@.venv-torch/bin/python -m pytest -q tests/parity tests/mindtorch_v2/test_onednn.py

# All of them run, also after one has found a difference.
COUNT ?= 2000
SEED ?= 1
fuzz: .venv-torch/.ready
	@failed=; for what in programs bad_calls bad_classes configurations indices files; do \
	    echo "$$what:"; .venv-torch/bin/python tests/parity/random_$$what.py --count $(COUNT) --seed $(SEED) || failed="$$failed $$what"; \
	done; test -z "$$failed" || { echo "differences in:$$failed"; exit 1; }

# FILES="test_torch.py nn/test_pooling.py" are the files to run, UPDATE=1 writes their lists anew.
SOURCE ?=
torch-tests: .venv-suite/.ready
	@test -n "$(SOURCE)" || { echo "Name a checkout of PyTorch: make torch-tests SOURCE=../pytorch"; exit 1; }
	@.venv-suite/bin/python tools/torch_tests/run.py '$(SOURCE)' $(FILES) $(if $(UPDATE),--update)

golden: .venv-torch/.ready
	@for tool in tools/golden_*.py; do echo $$tool; .venv-torch/bin/python $$tool || exit 1; done

stubs: .venv/.ready
	@.venv/bin/python tools/stubs.py

bench: .venv-torch/.ready
	@.venv-torch/bin/python bench/run.py
	@echo; echo 'without oneDNN:'
	@MINDTORCH_ONEDNN=0 .venv-torch/bin/python bench/run.py --group large --group training

bench-ops: .venv-torch/.ready
	@.venv-torch/bin/python bench/ops.py --threads 1
	@.venv-torch/bin/python bench/ops.py --threads 1 --grad
	@.venv-torch/bin/python bench/ops.py --threads 1 --size large
	@.venv-torch/bin/python bench/ops.py --size large

bench-cuda:
	@PYTHONPATH=src $(PYTHON) bench/gpu.py
	@for size in small large; do PYTHONPATH=src $(PYTHON) bench/ops.py --device cuda --size $$size; done

lint: .venv/.ready
	@.venv/bin/ruff check .
	@.venv/bin/mypy src/mindtorch_v2

docs: .venv/.ready
	@.venv/bin/python docs/check.py

site: .venv-docs/.ready
	@.venv-docs/bin/python tools/site/build.py

site-test: .venv-docs/.ready
	@.venv-docs/bin/python tools/site/browser.py

# A stamp older than pyproject.toml means the dependencies may have changed: install again.
.venv/.ready: EXTRAS = dev,plot,progress,jit
.venv-demo/.ready: EXTRAS = plot,progress,fast
.venv-torch/.ready: EXTRAS = parity,fast
.venv-cuda/.ready: EXTRAS = dev,cuda
.venv-docs/.ready: EXTRAS = docs,plot
.venv-suite/.ready: EXTRAS = suite,fast

.venv/.ready .venv-demo/.ready .venv-torch/.ready .venv-cuda/.ready .venv-docs/.ready .venv-suite/.ready: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	    echo "mindtorch_v2 needs Python 3.11 or newer, but '$(PYTHON)' is: $$($(PYTHON) --version 2>&1)."; \
	    echo "Name a newer one, for example: make $(firstword $(MAKECMDGOALS)) PYTHON=python3.12"; exit 1; }
	@echo "Setting up $(@D), once: a virtual environment with the library, its extras $(EXTRAS), and what they need ..."
	@$(PYTHON) -m venv $(@D)
	@$(@D)/bin/python $(PIP_INSTALL) --editable '.[$(EXTRAS)]'
	@touch $@

clean:
	rm -rf .venv .venv-demo .venv-torch .venv-cuda .venv-docs .venv-suite build/site build/torch_tests .mypy_cache .ruff_cache .pytest_cache .hypothesis examples/out
