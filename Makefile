# Python 3.11 or newer is all that must be there; everything else comes into .venv.
PYTHON ?= python3
IN_VENV := .venv/bin/python -m
# One more than there are cores: browsers and kernels are waited for. Neighbours share a browser or a server.
# PyTorch computes on one thread in each: those of several would wait for each other, busily. Where a test asks for
# more, as a recipe of training does, they sleep meanwhile: on busy cores it took twenty times as long.
WORKERS := -n 3 --dist worksteal
PYTEST := OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive .venv/bin/python -m pytest $(WORKERS)
# the files that `make test-all` takes a part of
SWEPT = $(shell grep -rlE --include='test_*.py' 'ONE_RENDERER|mark\.sweep|swept_|"--sweep"' tests)
NPM := PATH="$(CURDIR)/.venv/bin:$$PATH" npm --prefix js run --silent

# Where it is set, every process of the tests would compile Python anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: setup demo test test-all test-rest lint fuzz sweep mutants conformance wild hosts soak screenshots gallery lessons bench bench-full

setup:
	@$(PYTHON) scripts/setup.py

demo: setup
	@.venv/bin/python scripts/demo.py

# what most changes need; conftest says which tests these are. make test ARGS="-k conv" runs some of all tests
test:
	@$(PYTHON) scripts/setup.py --tests
	$(PYTEST) $(or $(ARGS),-m "not thorough")

# all tests; make test-rest runs those that make test leaves out
test-all:
	@$(PYTHON) scripts/setup.py --tests
	$(PYTEST) $(ARGS)

test-rest:
	@$(PYTHON) scripts/setup.py --tests
	$(PYTEST) -m thorough $(ARGS)

lint: setup
	$(IN_VENV) ruff check && $(IN_VENV) ruff format --check && $(IN_VENV) mypy src
	$(NPM) types && $(NPM) lint

# 110,000 damaged models through the compiler (12 minutes); make fuzz ARGS="--seed 7" repeats a run
fuzz:
	@$(PYTHON) scripts/setup.py --tests
	@.venv/bin/python scripts/fuzz.py $(ARGS)

# what make test-all has a part of: a fault at every call of WebGL on SwiftShader too, a kernel's death after every message,
# each operator's cases on both renderers and cut into strips, every operator set, the numbers of 60 random networks and of whole architectures, hundreds of
# random networks' receptive fields, gradients of every operator at a dozen sizes, extreme inputs of each module and function, threads, every view of eight networks
# at six widths (15 minutes of it), the tour and two files of notebooks on SwiftShader too
sweep:
	@$(PYTHON) scripts/setup.py --tests
	$(PYTEST) $(SWEPT) --sweep swiftshader $(ARGS)

# faults put into a copy of the code, one at a time (tests/mutants/): which of them does no test notice? (two hours;
# make mutants ARGS="weights" puts in those of one area, ARGS="--sample 200" so many at random)
mutants:
	@$(PYTHON) scripts/setup.py --tests
	@.venv/bin/python scripts/mutants.py $(ARGS)

# ONNX's own test suite on all back ends (12 minutes); make conformance ARGS="Conv --backends opengl" runs some
conformance:
	@$(PYTHON) scripts/setup.py --tests
	@.venv/bin/python scripts/conformance.py $(ARGS)

# networks of sixteen other packages with random statistics, every layer against PyTorch, into docs/wild.md (an hour; a run
# that was stopped goes on; make wild ARGS="timm/swin" runs some anew)
wild: setup
	@.venv/bin/python scripts/wild.py $(ARGS)

# every flow in JupyterLab (three kernels), Notebook, marimo and Firefox, into docs/hosts.md (7 minutes)
hosts:
	@$(PYTHON) scripts/setup.py --tests
	@.venv/bin/python scripts/hosts.py $(ARGS)

# ten minutes of a reader's doings in JupyterLab; what grows fails
soak:
	@$(PYTHON) scripts/setup.py --tests
	@.venv/bin/python scripts/soak.py $(ARGS)

# the pictures of docs/pictures anew, from notebooks in a real JupyterLab; make screenshots ARGS="inputs latent" takes some
screenshots:
	@$(PYTHON) scripts/setup.py --tests
	@.venv/bin/python scripts/screenshots.py $(ARGS)

# docs/pictures/views anew: eight networks, four widths, two themes (10 minutes; make gallery ARGS=vit takes one's)
gallery:
	@$(PYTHON) scripts/setup.py --tests
	@.venv/bin/python scripts/gallery.py $(ARGS)

# lessons, pages that run offline, into build/lessons
lessons: setup
	@.venv/bin/python scripts/lessons.py

# nbglcnn beside its peers in one browser, growth with size, first pictures in JupyterLab, into docs/performance.md
# (20 minutes; bench-full: the slowest networks and peers too; make bench ARGS="--only resnet18 --dry" prints some)
bench:
	@$(PYTHON) scripts/setup.py --tests
	@.venv/bin/python -W ignore bench/run.py $(ARGS)

bench-full:
	@$(PYTHON) scripts/setup.py --tests
	@.venv/bin/python -W ignore bench/run.py --full $(ARGS)
