# make demo   train a small network on handwritten digits, compile it to C, build it, show it pictures
# make test   run everything
# make bench  bench-zoo (networks), bench-threads (a second core), bench-gemm (products), bench-layers (convolutions),
#             against onnxruntime and OpenVINO
# make clean  remove what was built (distclean: also .venv)
#
# PYTHON=python3.12 make ... chooses the Python that .venv is made with.

PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python
PIP := $(RUN) -m pip --quiet --disable-pip-version-check --no-input install

.PHONY: help demo test bench bench-zoo bench-threads bench-gemm bench-layers clean distclean compiler

help:
	@sed -n 's/^# \{0,1\}//p' Makefile | sed '/^$$/q'

demo: compiler $(VENV)/.installed-demo
	@$(RUN) benchmarks/demo.py

test: compiler $(VENV)/.installed-test
	@.ci/need --optional clang:clang,libomp-dev \
	    aarch64-linux-gnu-gcc:gcc-aarch64-linux-gnu,libc6-dev-arm64-cross \
	    arm-linux-gnueabihf-gcc:gcc-arm-linux-gnueabihf,libc6-dev-armhf-cross \
	    qemu-aarch64:qemu-user qemu-arm:qemu-user g++:g++ cmake:cmake tcc:tcc musl-gcc:musl-tools \
	    s390x-linux-gnu-gcc:gcc-s390x-linux-gnu,libc6-dev-s390x-cross \
	    powerpc64-linux-gnu-gcc:gcc-powerpc64-linux-gnu,libc6-dev-ppc64-cross \
	    i686-linux-gnu-gcc:gcc-i686-linux-gnu,libc6-dev-i386-cross \
	    'test -e /etc/OpenCL/vendors/pocl.icd -a -e /usr/include/CL/cl.h':pocl-opencl-icd,ocl-icd-opencl-dev \
	    oclgrind:oclgrind \
	    'arm-none-eabi-gcc --print-file-name=rdimon.specs | grep /':gcc-arm-none-eabi,libnewlib-arm-none-eabi \
	    'riscv64-unknown-elf-gcc --print-file-name=picolibc.specs | grep /':picolibc-riscv64-unknown-elf \
	    qemu-system-arm:qemu-system-arm qemu-system-riscv32:qemu-system-misc \
	    riscv64-linux-gnu-gcc:gcc-riscv64-linux-gnu,libc6-dev-riscv64-cross clang-19:clang-19 \
	    x86_64-w64-mingw32-gcc:gcc-mingw-w64-x86-64 cppcheck:cppcheck pkg-config:pkg-config node:nodejs wasm-ld:lld \
    'test -e /usr/include/wasm32-wasi/stdio.h':wasi-libc \
    'ls /usr/lib/llvm-*/lib/clang/*/lib/wasi':libclang-rt-14-dev-wasm32 \
    'ls /usr/include/*/cblas.h':libopenblas-dev
	@command -v nvcc >/dev/null || $(MAKE) --no-print-directory $(VENV)/.installed-cuda || \
	    echo 'no nvcc: tests that need it are skipped'
	@$(RUN) -m pytest -n auto --maxprocesses 4 --dist worksteal $(PYTEST_ARGS)

bench: bench-zoo bench-threads bench-gemm bench-layers

bench-zoo bench-threads bench-gemm bench-layers: bench-%: compiler $(VENV)/.installed-benchmark
	@$(RUN) benchmarks/$*.py $(BENCH_ARGS)

clean:
	rm -rf build dist *.egg-info .pytest_cache .hypothesis
	find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +

distclean: clean
	rm -rf $(VENV)

compiler:
	@.ci/need $(or $(firstword $(CC)),cc):build-essential make:make

$(VENV)/bin/python:
	@.ci/need $(PYTHON):python3
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
	    { echo 'Ingot needs Python 3.10 or newer: make PYTHON=/path/to/python3.12 ...' >&2; exit 1; }
	@.ci/need '$(PYTHON) -c "import ensurepip, venv"':python3-venv
	@echo 'creating $(VENV)'
	@rm -rf $(VENV)
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml | $(VENV)/bin/python
	@echo 'installing ingot'
	@$(PIP) -e .
	@touch $@

$(VENV)/.installed-demo: pyproject.toml | $(VENV)/bin/python
	@echo 'installing ingot and the pictures of digits (scikit-learn)'
	@$(PIP) -e '.[demo]'
	@touch $@ $(VENV)/.installed

$(VENV)/.installed-cuda: pyproject.toml | $(VENV)/bin/python
	@echo 'installing nvcc'
	@$(PIP) -e '.[cuda]'
	@touch $@

$(VENV)/.installed-test: pyproject.toml | $(VENV)/bin/python
	@echo 'installing ingot and what its tests need'
	@$(PIP) -e '.[test]'
	@touch $@ $(VENV)/.installed

$(VENV)/.installed-benchmark: pyproject.toml | $(VENV)/bin/python
	@echo 'installing ingot and what it is compared with'
	@$(PIP) -e '.[benchmark]'
	@touch $@ $(VENV)/.installed
