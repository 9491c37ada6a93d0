# make          build into build/
# make demo     install what is missing, build, run two unmodified rpings and show their handshake
# make test     install what is missing, build, run all tests
# make sim      the simulator: SEEDS=n (2000), SEED=n for one, MUTATE=n for a deliberate bug
# make interop  against Linux soft-RoCE in a virtual machine
# make pages    what verbena report makes, in headless Chromium; pictures in build/pages
# make bench    against what the machine can do without it, in one run: ROUNDS=n (5), YARDSTICKS=folder of the bare programs
# make install PREFIX=/opt/verbena, make uninstall (the last installation, or that in PREFIX=...)
# make format asan tsan fuzz cross lint coverage    the quality stages of .ci/run (docs/testing.md); fuzz takes SECONDS=n
# make soak     the simulator and the fuzzers for long: SEEDS=n (100000), SECONDS=n (600)

BUILD  ?= build
PREFIX ?= /opt/verbena
JOBS   ?= $(shell nproc)

.PHONY: all deps demo test sim interop pages bench install uninstall asan tsan fuzz coverage cross lint format soak clean

all: $(BUILD)/build.ninja
	@ninja -C $(BUILD) -j $(JOBS)

$(BUILD)/build.ninja: CMakeLists.txt
	@cmake -S . -B $(BUILD) -G Ninja $(CMAKE_FLAGS) > /dev/null

deps:
	@scripts/install-deps build test

demo: deps
	@$(MAKE) --no-print-directory all
	@scripts/demo $(BUILD)

test: deps
	@$(MAKE) --no-print-directory all
	@ctest --test-dir $(BUILD) --output-on-failure -j $(JOBS)

sim: all
	@$(BUILD)/bin/verbena-sim --seeds $(or $(SEEDS),2000) $(if $(SEED),--seed $(SEED)) $(if $(MUTATE),--mutate $(MUTATE))

interop:
	@scripts/install-deps build test interop
	@$(MAKE) --no-print-directory all
	@tests/interop/run
	@tests/interop/system

pages:
	@scripts/install-deps build test pages
	@$(MAKE) --no-print-directory all
	@tests/pages/pages_test.py $(BUILD)

bench: all
	@bench/run --build $(BUILD) --rounds $(or $(ROUNDS),5) $(if $(YARDSTICKS),--yardsticks $(YARDSTICKS))

format asan tsan cross lint coverage:
	@scripts/quality $@

fuzz:
	@SECONDS_EACH=$(or $(SECONDS),10) scripts/quality fuzz

soak: all
	@$(BUILD)/bin/verbena-sim --seeds $(or $(SEEDS),100000)
	@SECONDS_EACH=$(or $(SECONDS),600) scripts/quality fuzz

install: all
	@cmake --install $(BUILD) --prefix $(PREFIX)

uninstall:
	@scripts/uninstall $(BUILD) $(if $(filter-out file,$(origin PREFIX)),"$(PREFIX)")

clean:
	@rm -rf $(BUILD)
