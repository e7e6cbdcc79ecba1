# make test      sets everything up in .venv, lints the files that differ from the last commit, builds and runs the tests
#                that take minutes; tests/tiers.py says which. Arguments for pytest: make test ARGS="-k huffman"
# make test-all  lints all files, then runs the same tests, more cases of each, and the slow suites: faults, frameworks,
#                environments, builds, sanitizers
# make weekly    runs what make test-all leaves out: further cases, clang, aarch64, other builds
# make campaign MINUTES=60   makes loaders, files and faults at random for so long; tests/campaign.py; a line in
#                tests/campaigns.md
# make fuzz MINUTES=60       runs the targets of fuzz/ under libFuzzer for so long; needs clang; lines in tests/campaigns.md
# make soak MINUTES=30       runs the same loaders again and again: memory, threads, descriptors; a line in tests/campaigns.md
# make lint      checks all files; make check those that differ from the last commit
# make unit      builds and runs tests/unit; make cpp the unit tests of the core; both take ARGS
# make bench     sets everything up in .venv, compares fastload with torch and draws a chart in benchmarks/results;
#                DATA=folder takes your own images, a folder of images per class; ARGS="--rows all", see benchmarks/README.md
# make test-gpu  on a machine with a GPU: builds in PYTHON's own environment, which needs the CUDA torch you train with,
#                torchvision and pytest, and runs the tests that need a GPU; installs nothing there
# make bench-gpu likewise (it needs tabulate, not pytest); measures copies, waits and training against torch's loader;
#                DATA=folder, ARGS=--quick
# make docs      builds the documentation site in build/site, with the tools of docs/requirements.txt in .venv-docs
# make build     compiles the extension in place, and the fake CUDA runtime of the tests
# make format    rewrites sources in the layout that make lint asks for
# make test-torch TORCH=2.4.1  tests one wheel, built with the torch below, on another torch (downloads it)
# make test-wheel WHEELS=folder  tests the wheel for PYTHON among the wheels of a folder
# make test-ray  installs Ray in build/ray and runs its test, which takes minutes
# make fresh     makes Debian systems with nothing but what the documents name, and runs the README's commands in them;
#                tests/fresh.py. ARGS="trixie --bench=--quick", ARGS="--image cpu". Needs root and mmdebstrap
# make clean     removes what was built, not .venv
# PYTHON names the interpreter that .venv is made from, CXX the compiler.

PYTHON ?= python3
TORCH ?= 2.13.0
ARGS ?=

BASE_TORCH := 2.13.0
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet
# torchvision 0.x belongs to torch 2.(x - 15). Without its dependencies, so that it cannot exchange torch.
torchvision_of = 0.$(shell expr $(word 2,$(subst ., ,$(1))) + 15).*

CPP := $(shell find csrc tests/cpp tests/fake_cuda fuzz benchmarks -name '*.h' -o -name '*.cpp' -o -name '*.cu' 2>/dev/null)
FAKE_CUDA := $(wildcard tests/fake_cuda/*.cpp tests/fake_cuda/*.h tests/fake_cuda/library.py)
NATIVE := $(shell find csrc -name '*.h' -o -name '*.cpp' -o -name '*.cu' -o -name '*.map')

.PHONY: test test-all weekly campaign fuzz soak check unit cpp bench test-gpu bench-gpu build docs lint format clean test-torch test-wheel test-ray fresh
.DELETE_ON_ERROR:

# Three processes at least: many tests wait.
PYTEST := $(BIN)/python -m pytest -n $(shell n=$$(nproc); echo $$((n > 3 ? n : 3))) --dist loadgroup --durations 15

# With arguments for pytest one wants to know about some tests soon. In the test tier files run in the order of
# tests/tiers.py; with the slow suites it is better that the largest groups begin first, as xdist has it.
TIER ?= test
test: $(if $(ARGS),,$(if $(filter test,$(TIER)),check,lint)) $(VENV)/.built
	$(PYTEST) $(if $(filter test,$(TIER)),--no-loadscope-reorder) --tier $(TIER) $(ARGS)

# One run of pytest for both tiers: each run collects all tests and makes their folders of images.
test-all:
	$(MAKE) test TIER=ci

weekly: $(VENV)/.built
	$(PYTEST) --tier weekly $(ARGS)

MINUTES ?= 60
campaign: $(VENV)/.built
	$(BIN)/python tests/campaign.py --minutes $(MINUTES) $(ARGS)

fuzz: $(VENV)/.built
	$(BIN)/python tests/fuzzing.py --minutes $(MINUTES) $(ARGS)

soak: $(VENV)/.built
	$(BIN)/python tests/soak.py --minutes $(MINUTES) $(ARGS)

unit: $(VENV)/.built
	$(PYTEST) tests/unit $(ARGS)

cpp: $(VENV)/.built
	$(BIN)/python tests/cpp/build.py quick unit_tests
	build/cpp/quick/unit_tests $(ARGS)

# Nothing without git, as in the systems of make fresh.
CHANGED = $(shell (git diff --name-only --diff-filter=d HEAD; git ls-files --others --exclude-standard) 2>/dev/null)
CHANGED_PYTHON = $(filter %.py %.pyi,$(CHANGED))
CHANGED_CPP = $(filter $(CPP),$(CHANGED))
check: $(VENV)/.tools
	$(if $(CHANGED_PYTHON),$(BIN)/ruff check $(CHANGED_PYTHON))
	$(if $(CHANGED_PYTHON),$(BIN)/ruff format --check $(CHANGED_PYTHON))
	$(if $(filter fastload/% benchmarks/%,$(CHANGED_PYTHON)),$(BIN)/mypy)
	$(if $(CHANGED_CPP),$(BIN)/clang-format --dry-run -Werror $(CHANGED_CPP))

bench: $(VENV)/.built
	$(BIN)/python -m benchmarks $(if $(DATA),--data "$(DATA)") $(ARGS)
	$(BIN)/python -m benchmarks.chart benchmarks/results/latest.json

# Nothing is installed here: a torch without CUDA must not replace the one that is there.
build_on_gpu = FASTLOAD_CUDA=auto $(PYTHON) setup.py --quiet build_ext --inplace
on_gpu = @if $(PYTHON) -m benchmarks._gpu_machine; then set -ex; $(build_on_gpu); $(1); else test $$? -eq 3; fi

GPU_TESTS := tests/device tests/loader tests/examples/test_cuda_op_in_dataset.py tests/oracle/test_device_decode.py
# These also run under torch's own finder of races, which sees the operations that Python gives to the device.
ORDER_TESTS := tests/device/test_on_gpu.py tests/loader/test_device_order.py

# Nothing is installed, so the processes that tests start are told where fastload is.
test-gpu: export PYTHONPATH := $(CURDIR)$(if $(PYTHONPATH),:$(PYTHONPATH))
test-gpu:
	$(call on_gpu,FASTLOAD_REQUIRE_CUDA=1 $(PYTHON) -m pytest -m gpu $(GPU_TESTS) $(ARGS); \
	    TORCH_CUDA_SANITIZER=1 $(PYTHON) -m pytest -m gpu $(ORDER_TESTS) $(ARGS))

bench-gpu:
	$(call on_gpu,$(PYTHON) -m benchmarks.gpu $(if $(DATA),--data "$(DATA)") $(ARGS))

build: $(VENV)/.built

# The tools have an environment of their own: they read the sources and import none of them.
SITE ?= build/site
DOCS := .venv-docs
docs: $(DOCS)/.tools
	NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs build --quiet --strict --site-dir "$(abspath $(SITE))"

$(DOCS)/.tools: docs/requirements.txt
	$(PYTHON) -m venv $(DOCS)
	$(DOCS)/bin/python -m pip --disable-pip-version-check install --quiet -r docs/requirements.txt
	@touch $@

lint: $(VENV)/.tools
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	@echo "clang-format --dry-run -Werror <$(words $(CPP)) files>"
	@$(BIN)/clang-format --dry-run -Werror $(CPP)

format: $(VENV)/.tools
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(CPP)

$(VENV)/.created:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
	    { echo "fastload: need Python 3.10 or newer, and '$(PYTHON)' is not. Name one: make PYTHON=python3.11" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
	    { echo "fastload: '$(PYTHON)' has no venv module. Debian, Ubuntu: apt install python3-venv" >&2; exit 1; }
	@$(PYTHON) -c 'import os, sys, sysconfig; sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))' || \
	    { echo "fastload: '$(PYTHON)' comes without Python.h. Debian, Ubuntu: apt install python3-dev" >&2; exit 1; }
	@command -v $${CXX:-g++} >/dev/null || \
	    { echo "fastload: no C++ compiler '$${CXX:-g++}'. Debian, Ubuntu: apt install g++; or name one in CXX" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.tools: tests/requirements.txt benchmarks/requirements.txt Makefile | $(VENV)/.created
	$(PIP) torch==$(BASE_TORCH) -r tests/requirements.txt -r benchmarks/requirements.txt
	$(PIP) --no-deps "torchvision==$(call torchvision_of,$(BASE_TORCH))"
	@touch $@

# In place, so that ninja compiles only what changed; tests/packaging builds and installs as users do. The fake runtime
# is built here so that no test waits for it.
$(VENV)/.built: $(VENV)/.tools setup.py setup_cuda.py pyproject.toml $(NATIVE) $(FAKE_CUDA)
	$(BIN)/python setup.py --quiet build_ext --inplace
	$(BIN)/python tests/fake_cuda/library.py
	# Not an editable install, which compiles everything each time.
	echo "$(CURDIR)" > "$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/fastload-source.pth"
	@touch $@

test-ray: $(VENV)/.built
	$(PIP) --upgrade --target build/ray -r tests/requirements-ray.txt
	PYTHONPATH=build/ray $(BIN)/python -m pytest tests/frameworks/test_ray_train.py $(ARGS)

OTHER := .venv-torch-$(TORCH)
test-torch: $(VENV)/.built
	rm -rf build/wheel build/lib*  # a module that is gone must not come back from an older build
	$(BIN)/python -m pip --disable-pip-version-check wheel --quiet --no-build-isolation --no-deps -w build/wheel .
	$(MAKE) test-wheel WHEELS=build/wheel

WHEELS ?= wheels
test-wheel:
	test -d $(OTHER) || $(PYTHON) -m venv $(OTHER)
	$(OTHER)/bin/python -m pip install --quiet torch==$(TORCH) -r tests/requirements.txt -r benchmarks/requirements.txt
	$(OTHER)/bin/python -m pip install --quiet --no-deps "torchvision==$(call torchvision_of,$(TORCH))"
	$(OTHER)/bin/python -m pip install --quiet --no-deps --force-reinstall --no-index --find-links "$(WHEELS)" "fastload>=0.dev0"
	$(OTHER)/bin/pytest -m "not slow" $(ARGS)

fresh:
	$(PYTHON) tests/fresh.py $(ARGS)

clean:
	rm -rf build dist *.egg-info fastload/*.so $(VENV)/.built .pytest_cache .mypy_cache .ruff_cache .hypothesis
