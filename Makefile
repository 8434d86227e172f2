# The two commands a newcomer needs:  make train   make test
# The rest: make (build/parl), make setup, make check (what CI runs), make format, make bench, make clean.
#
# PRESET=dev|asan|tsan picks another preset of CMakePresets.json; ARGS="--seed 2" goes to `parl train`.
# JOBS bounds the compilers that run at once (a source that includes torch takes about 2 GB).

PRESET ?= release
BUILD := $(if $(filter release,$(PRESET)),build,build-$(PRESET))
MEMORY_GB := $(shell awk '/MemAvailable/ {print int($$2 / 2200000)}' /proc/meminfo 2>/dev/null)
JOBS ?= $(shell n=$$(nproc); m=$(or $(MEMORY_GB),$$n); [ "$$m" -lt 1 ] && m=1; [ "$$m" -lt "$$n" ] && echo $$m || echo $$n)
# The main job: Pong, or Breakout on 10x10 cells in a build without Atari (PARL_WITH_ATARI=0 make train).
WITHOUT_ATARI = $(shell grep -s '^PARL_WITH_ATARI:[A-Z]*=\(OFF\|0\|NO\|FALSE\)$$' $(BUILD)/CMakeCache.txt)
TASK ?= $(if $(WITHOUT_ATARI),pixel:breakout,atari:pong)
RUN ?= runs/$(lastword $(subst :, ,$(TASK)))
ARGS ?=

.PHONY: all setup configure everything train test check format clean

all: configure
	@cmake --build $(BUILD) -j $(JOBS) --target parl_cli
	@echo "Built $(BUILD)/parl. Try: $(BUILD)/parl train impala --env $(TASK)"

setup:
	@scripts/setup.sh

# CMake is asked anew only when set-up found something else than last time; otherwise the build itself notices changes.
configure: setup
	@if [ ! -f $(BUILD)/build.ninja ] || [ .deps/config.cmake -nt $(BUILD)/build.ninja ]; then \
	  cmake --preset $(PRESET) -C .deps/config.cmake; fi

everything: configure
	@cmake --build $(BUILD) -j $(JOBS)

# The main job. The same command continues the run after Ctrl-C, a crash or a reboot.
train: all
	$(BUILD)/parl train impala --env $(TASK) --run $(RUN) $(ARGS)

test: everything
	ctest --test-dir $(BUILD) --output-on-failure -j 2

check:
	@PRESET=$(PRESET) JOBS=$(JOBS) scripts/check.sh

format:
	@git ls-files --cached --others --exclude-standard '*.h' '*.cc' | xargs clang-format -i

clean:
	rm -rf build build-dev build-asan build-tsan build-fuzz
