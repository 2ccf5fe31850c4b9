# make demo   trains, evaluates and reports on synthetic data: the shortest way to see Emblem work
# make test   builds everything and runs all tests
# Both install what is missing (Debian, Ubuntu).

JOBS ?= $(shell nproc)
BUILD := build/release

.PHONY: setup configure build demo test sanitize format lint peers bench clean

setup:
	@bash tools/setup.sh

configure: setup
	@test -f $(BUILD)/build.ninja || cmake --preset release

build: configure
	@cmake --build $(BUILD) -j $(JOBS) --target emblem

demo: build
	@bash tools/demo.sh $(BUILD)/emblem build/demo

test: configure
	@python3 tools/check_layers.py src
	@cmake --build $(BUILD) -j $(JOBS)
	@cd $(BUILD) && ctest --output-on-failure -j $(JOBS) --timeout 600

# The same tests under AddressSanitizer and UndefinedBehaviorSanitizer, then those with threads under ThreadSanitizer.
sanitize: setup
	cmake --preset asan && cmake --build build/asan -j $(JOBS)
	cd build/asan && ctest --output-on-failure -j $(JOBS) --timeout 1800
	cmake --preset tsan && cmake --build build/tsan -j $(JOBS)
	cd build/tsan && TSAN_OPTIONS=halt_on_error=1 ctest --output-on-failure -j $(JOBS) --timeout 1800 -L 'core|data|embedding|nn|train'

format:
	@git ls-files '*.h' '*.cc' '*.cu' '*.cuh' | xargs clang-format -i

lint: configure
	@python3 tools/check_layers.py src
	@git ls-files 'src/*.cc' | grep -v _test.cc | xargs -P $(JOBS) -n 4 clang-tidy -p $(BUILD) --quiet

peers: build
	@bash tools/peers.sh

clean:
	rm -rf build
