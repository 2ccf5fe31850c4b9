# make demo   trains, evaluates and reports on synthetic data: the shortest way to see Emblem work
# make test   builds everything and runs all tests
# Both install what is missing (Debian, Ubuntu).
# make install, make package   the program for every CPU of this architecture, not for this machine's alone

JOBS ?= $(shell nproc)
BUILD := build/release

.PHONY: setup configure build demo test check-single check-names portable install package deb wheel docs check-portable soak sanitize sanitize-python format lint peers bench clean

setup:
	@bash tools/setup.sh

configure: setup
	@test -f $(BUILD)/build.ninja || cmake --preset release

build: configure
	@cmake --build $(BUILD) -j $(JOBS) --target emblem

# Without a GPU the demo has a build folder of its own, without CUDA and tests: that takes a third of the time.
DEMO_BUILD := $(shell nvidia-smi -L >/dev/null 2>&1 && echo $(BUILD) || echo build/cpu)
demo: setup
	@test -f $(DEMO_BUILD)/build.ninja || cmake --preset $(notdir $(DEMO_BUILD)) >/dev/null
	@cmake --build $(DEMO_BUILD) -j $(JOBS) --target emblem
	@bash tools/demo.sh $(DEMO_BUILD)/emblem build/demo

test: configure
	@python3 tools/check_layers.py src
	@bash tools/test_clients.sh >/dev/null & cmake --build $(BUILD) -j $(JOBS) && wait $$!
	@python3 tools/compile_cost.py $(BUILD)
	@cd $(BUILD) && ctest --output-on-failure -j $$(($(JOBS) + 1)) --timeout 600 -LE slow # some tests wait for most of their time

# Without objects: does every source include what it uses, are names of anonymous namespaces unique in a library? Those of
# some modules: make check-single MODULES="core config"
check-single check-names: SYNTAX = -DEMBLEM_CUDA=OFF -DEMBLEM_PCH=OFF -DEMBLEM_NATIVE=ON -DCMAKE_BUILD_TYPE=Release
check-single: setup
	@cmake -S . -B build/single -G Ninja $(SYNTAX) -DEMBLEM_UNITY=1 >/dev/null
	@cmake --build build/single -j $(JOBS) --target emblem_generated >/dev/null
	@python3 tools/check_syntax.py build/single --jobs $(JOBS) $(MODULES)

check-names: setup
	@cmake -S . -B build/names -G Ninja $(SYNTAX) -DEMBLEM_UNITY=1000 >/dev/null
	@cmake --build build/names -j $(JOBS) --target emblem_generated >/dev/null
	@python3 tools/check_syntax.py build/names --jobs $(JOBS) $(MODULES)

# Programs for other machines (cmake/Levels.cmake): three libraries on x86-64, each for a generation of CPUs.
PORTABLE := build/portable
PREFIX ?= /usr/local
portable: setup
	@test -f $(PORTABLE)/build.ninja || cmake --preset portable $(OPTIONS)
	@CMAKE_BUILD_PARALLEL_LEVEL=$(JOBS) cmake --build $(PORTABLE)

install: portable
	@cmake --install $(PORTABLE) --prefix $(PREFIX) --strip >/dev/null
	@echo "installed $(PREFIX)/bin/emblem"

package: portable
	@cd $(PORTABLE) && cpack

# The Python package as a file to install, for all CPUs of this architecture and all GPUs. For fewer of them, in less time:
# make wheel OPTIONS="-DEMBLEM_LEVELS=x86-64-v3 -DCMAKE_CUDA_ARCHITECTURES=90". For this machine's CPU, out of what make test
# has built: python3 tools/wheel.py build/release dist
WHEEL := build/wheel
wheel: setup
	@test -f $(WHEEL)/build.ninja || cmake --preset wheel $(OPTIONS)
	@CMAKE_BUILD_PARALLEL_LEVEL=$(JOBS) cmake --build $(WHEEL)
	@python3 tools/wheel.py $(WHEEL) dist

# A package for Debian and Ubuntu, with the libraries of the system that builds it: man pages, completion, a service.
DEB := build/deb
deb: setup
	@test -f $(DEB)/build.ninja || cmake --preset deb $(OPTIONS)
	@CMAKE_BUILD_PARALLEL_LEVEL=$(JOBS) cmake --build $(DEB)
	@cd $(DEB) && cpack -G DEB

# The documentation as a site to read without a server: build/docs/site/index.html.
docs:
	@bash tools/site/build.sh

check-portable: portable
	@rm -rf $(PORTABLE)/installed && cmake --install $(PORTABLE) --prefix $(PORTABLE)/installed --strip >/dev/null
	@bash tools/check_portable.sh $(PORTABLE)/installed

# Trains the shipped pipelines and judges them by their baselines: make bench DEVICE=cuda OPTIONS="--runs 5"
DEVICE ?= cpu
bench: build
	@bash tools/bench.sh $(BUILD)/emblem build/bench --device $(DEVICE) $(OPTIONS)

# Minutes of mixed load on a server, and of benchmarks that judge themselves.
soak: test
	@cd $(BUILD) && ctest --output-on-failure --timeout 1800 -L slow

# The same tests under AddressSanitizer and UndefinedBehaviorSanitizer, then those with threads under ThreadSanitizer. Each test
# program runs as a whole: looking for leaks takes seconds at the end of every process. (GCC 12's ThreadSanitizer crashes in the
# C11 threads that librdkafka makes.)
sanitize: export UBSAN_OPTIONS = halt_on_error=1:print_stacktrace=1
sanitize: export LSAN_OPTIONS = suppressions=$(CURDIR)/tools/lsan.supp:print_suppressions=0
sanitize: export TSAN_OPTIONS = halt_on_error=1:die_after_fork=0:ignore_noninstrumented_modules=1:suppressions=$(CURDIR)/tools/tsan.supp
sanitize: setup
	cmake --preset asan && cmake --build build/asan -j $(JOBS)
	set -e; for test in build/asan/*_test; do $$test --gtest_brief=1; done
	build/asan/library_program
	cd build/asan && ASAN_OPTIONS=detect_leaks=0 ctest --output-on-failure -j $(JOBS) --timeout 1800 -L end_to_end
	cmake --preset tsan && cmake --build build/tsan -j $(JOBS)
	set -e; for test in core comm data remote store embedding shard nn ps train serve; do build/tsan/$${test}_test --gtest_brief=1 --gtest_filter=-Kafka*:*TrainerStream*; done
	build/tsan/library_program

# Ten minutes of random calls of the Python package under AddressSanitizer, whose library has to be loaded before Python's.
sanitize-python: export UBSAN_OPTIONS = halt_on_error=1:print_stacktrace=1
sanitize-python: setup
	cmake --preset asan -DEMBLEM_PYTHON=ON && cmake --build build/asan -j $(JOBS) --target emblem_package
	LD_PRELOAD="$$(gcc -print-file-name=libasan.so) $$(gcc -print-file-name=libstdc++.so)" \
	  ASAN_OPTIONS=detect_leaks=0:quarantine_size_mb=16 EMBLEM_RANDOM_SECONDS=$${EMBLEM_RANDOM_SECONDS:-600} EMBLEM_GROWTH_MB=100 \
	  EMBLEM=$(CURDIR)/build/asan/emblem EMBLEM_SOURCE=$(CURDIR) python3 tests/python_slow_test.py misuse

format:
	@git ls-files '*.h' '*.cc' '*.cu' '*.cuh' | xargs clang-format -i

# clang-tidy reads its own configuration: it does not know every flag of the compiler.
lint: setup
	@python3 tools/check_layers.py src
	@test -f build/lint/build.ninja || cmake -S . -B build/lint -G Ninja -DEMBLEM_NATIVE=OFF -DEMBLEM_CUDA=OFF -DEMBLEM_PCH=OFF >/dev/null
	@cmake --build build/lint -j $(JOBS) --target emblem_config >/dev/null
	@git ls-files 'src/*.cc' | grep -v _test.cc | xargs -P $(JOBS) -n 4 clang-tidy -p build/lint --quiet

peers: build
	@bash tools/peers.sh

clean:
	rm -rf build
