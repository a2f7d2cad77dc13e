# AnyServe's handles: each target is one line over meson or a script in tools/ or bench/.
export PATH := $(CURDIR)/build/venv/bin:$(PATH)
# -O1 and line numbers alone: half the time of -O2 -g to compile, and reports name the same lines.
SANITIZED := -Db_lundef=false -Doptimization=1 -Ddebug=false -Dc_args=-g1 -Dcpp_args=-g1 -Dfailpoints=true
# A build folder is made anew when its options change.
configure = test "$$(cat build/$(1).args 2>/dev/null)" = "$(2)" || { rm -rf build/$(1) && \
    { meson setup build/$(1) $(2) >build/$(1).log || { cat build/$(1).log; false; }; } && \
    echo "$(2)" >build/$(1).args; }
build = $(call configure,$(1),$(2)) && ninja $(if $(MAKE_TERMOUT),,--quiet) -C build/$(1)

.DEFAULT_GOAL := all
.PHONY: all help setup debug run test quick unit e2e conform compat check wheel wheel-test asan tsan fuzz bench soak leaks crowd attack chaos sweep workers ray ray-record fmt clean

all: setup      ## build the release into build/release
	@$(call build,release,-Dbuildtype=release -Db_lto=true)
help:           ## this list
	@sed -n 's/^\([a-z0-9-]*\):.*##/\1\t/p' Makefile | expand -t 12
setup:          ## install what is missing: system packages, build/venv
	@tools/setup.sh
debug: setup    ## build with debug information and assertions on everything into build/debug
	@$(call build,debug,-Dbuildtype=debug -Dfailpoints=true)
run: all        ## serve examples/echo_add.py, show one request answered, serve on until Ctrl-C
	@python tools/demo.py
test: setup     ## everything that must pass: at most 25 minutes on two cores
	@python tools/test.py
quick: setup    ## for whoever changes a line: unit tests, simulators, the core of the end-to-end tests; 3 minutes at most
	@python tools/test.py --quick
unit: all       ## unit tests and simulator only
	@meson test -C build/release --suite unit --suite sim
e2e: all        ## end-to-end tests against the release build
	@ANYSERVE_BUILD=build/release python -m pytest -q tests/e2e
conform: all    ## h2spec, grpc-go's interoperability client, grpcurl, ghz, tritonclient and grpcio against the release build
	@python tests/conform/build_tools.py
	@ANYSERVE_BUILD=build/release python -m pytest -q tests/conform
compat: all     ## proxies, clients and load generators that others wrote against the release build (installs them)
	@tools/setup.sh compat
	@python tests/compat/install.py
	@ANYSERVE_BUILD=build/release python -m pytest -q tests/compat
check: all      ## layers, sizes, formatting, clang-tidy, generated pages
	@python tools/check.py
wheel: setup    ## an sdist and, for each Python from 3.11 on that is here, a wheel with its libraries, into dist/
	@python tools/make_wheel.py $(foreach p,$(PYTHONS),--python $(p))
wheel-test:     ## install the wheels of dist/ into bare Debian 12 and 13 roots and serve a request; the guide with a wheel; needs root
	@python tests/dist/roots.py
	@python -m pytest -q -m long tests/dist
asan: setup     ## build with AddressSanitizer and UBSan into build/asan
	@$(call build,asan,$(SANITIZED) -Db_sanitize=address$(comma)undefined)
tsan: setup     ## build with ThreadSanitizer into build/tsan
	@$(call build,tsan,$(SANITIZED) -Db_sanitize=thread)
fuzz: setup     ## libFuzzer over every target, SECONDS each (default 60); needs clang
	@python tools/fuzz.py --seconds $(or $(SECONDS),60)
bench: all      ## measure against the baselines (installs gRPC C++); rewrites the table in bench/RESULTS.md
	@tools/setup.sh bench
	@ninja -C build/release -t query bench/grpc_cpp_echo >/dev/null 2>&1 || meson setup --reconfigure build/release \
	    >build/release.log || { cat build/release.log; false; }
	@ninja --quiet -C build/release bench/grpc_cpp_echo
	@python bench/run.py
soak: all       ## simulator with 100,000 seeds and load with kills for MINUTES (default 10)
	@python tools/soak.py --minutes $(or $(MINUTES),10)
leaks: all      ## 10,000 cancelled calls and a million mixed ones: what stays behind? takes two minutes
	@python tools/leaks.py
crowd: all      ## CALLS random requests (default a million), in batches and not: did each get its own answer?
	@python tests/crowd/crowd.py --calls $(or $(CALLS),1000000)
attack: all     ## hostile clients beside healthy ones, SECONDS each (default 30); TLS=1: by TLS
	@ANYSERVE_BUILD=build/release python tests/attack/run.py --seconds $(or $(SECONDS),30) $(if $(TLS),--tls) $(NAMES)
chaos: all debug ## processes die under load, beside HAProxy; NAMES=…, COUNT kills of each part; takes an hour and a half
	@tools/setup.sh chaos
	@code=0; $(if $(chaos_other),$(chaos_run),true) || code=$$?; $(if $(chaos_failpoints),$(chaos_debug),true) || code=$$?; exit $$code
sweep: all      ## let every allocation and system call fail once, in each process of a server
	@python tests/sweep/sweep.py --build build/release --tls
workers: all    ## workers in every language, hostile ones, ones that come and go, and what reusing connections is worth
	@python tests/workers/run.py --build build/release
ray: all        ## Ray Serve 2.60 (installs it into build/ray) beside AnyServe: PROGRAMS of tests/serve_programs under both, then bench/peers; an hour
	@$(call ray_env)
	@$(if $(filter none,$(PROGRAMS)),true,build/ray/bin/python tests/serve_programs/compare.py --python build/venv/bin/python --package build/release/python $(PROGRAMS))
	@python bench/peers/run.py $(PEERS_ARGS)
	@python bench/peers/multiplex.py
	@python bench/peers/autoscale.py
ray-record: setup ## record what PROGRAMS of tests/serve_programs (default: all) print under Ray Serve (installs it into build/ray)
	@$(call ray_env)
	@build/ray/bin/python tests/serve_programs/record.py $(PROGRAMS)
fmt:            ## format C sources
	@clang-format -i $$(git ls-files -co --exclude-standard '*.c' '*.h')
clean:          ## remove builds; the Python environment stays
	@find build -mindepth 1 -maxdepth 1 ! -name venv ! -name '.setup*' -exec rm -rf {} +

comma := ,
ray_env = test -e build/ray/bin/granian || { python -m venv build/ray && build/ray/bin/pip install -q -r tests/serve_programs/requirements.txt \
    -r bench/peers/requirements.txt; }
chaos_args = $(if $(TLS),--tls) $(if $(COUNT),--count $(COUNT)) $(if $(ONLY),--only '$(ONLY)')
chaos_other = $(if $(NAMES),$(filter-out failpoints,$(NAMES)),all)
chaos_failpoints = $(if $(NAMES),$(filter failpoints,$(NAMES)),$(if $(ONLY),,failpoints))
chaos_run = ANYSERVE_BUILD=build/release python tests/chaos/run.py $(chaos_args) $(filter-out all,$(chaos_other))
chaos_debug = ANYSERVE_BUILD=build/debug python tests/chaos/run.py $(chaos_args) failpoints
