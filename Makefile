# SPDX-License-Identifier: BSD-3-Clause
# One non-recursive Makefile; all it makes is under build/ (or build-address/ ... with SAN=).
MAKEFLAGS += --no-builtin-rules
comma  := ,
O      ?= build$(if $(SAN),-$(firstword $(subst $(comma), ,$(SAN))))
Q       = $(if $(V),,@)

# scripts/deps.sh provides rdma-core >= 59 here; RDMA_CORE=PREFIX names another one.
RDMA_CORE ?= build/deps/rdma-core
efadv     := $(RDMA_CORE)/include/infiniband/efadv.h

CFLAGS ?= -O2 -g
override CPPFLAGS += -Iinclude -isystem $(RDMA_CORE)/include -D_GNU_SOURCE
override CFLAGS += -std=c11 -fPIC -fvisibility=hidden -MMD -MP \
	-Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Wvla \
	-Wformat=2 -Wundef -Wwrite-strings $(WERROR)
ifdef SAN
override CFLAGS  += -fsanitize=$(SAN) -fno-sanitize-recover=all -fno-omit-frame-pointer
override LDFLAGS += -fsanitize=$(SAN)
# Criterion ignores a leak report that does not abort; softefa is preloaded before the runtime.
export ASAN_OPTIONS  := abort_on_error=1:verify_asan_link_order=0
export UBSAN_OPTIONS := print_stacktrace=1
# dlopen() goes through the sanitizer, which looks in its own run path and not in the caller's.
export SRD_RDMA_CORE  = $(firstword $(wildcard $(abspath $(RDMA_CORE))/lib $(abspath $(RDMA_CORE))/lib64))
endif

# The build tree finds its rdma-core without LD_LIBRARY_PATH.
rpath   = -Wl,-rpath,$(abspath $(RDMA_CORE))/lib:$(abspath $(RDMA_CORE))/lib64
defs    = $(if $(SAN),,-Wl$(comma)-z$(comma)defs)
objs    = $(patsubst %.c,$(O)/obj/%.o,$(wildcard $(1)))
progs   = $(patsubst tests/$(1)/%.c,$(O)/$(1)/%,$(wildcard tests/$(1)/*.c))
archive = @echo "  AR    $@"; mkdir -p $(@D); rm -f $@; $(AR) rcs $@ $^
link    = @echo "  LINK  $@"; mkdir -p $(@D); $(CC) $(LDFLAGS) -o $@ $(1) $(filter %.o,$^) $(filter %.a,$^) $(2) -ldl -lpthread

core    := $(call objs,core/*.c)
plugin  := $(call objs,plugin/*.c)
softefa := $(filter-out %/launcher.o %/report.o,$(call objs,softefa/*.c))
common  := $(call objs,tools/common/*.c)
host    := $(call objs,tools/host/*.c) $(common)
# Tools on libsrd; each has a page in docs/.
srd_tools := srd-pingpong srd-bw srd-info

# Before 1.0 the soname says nothing of the ABI: see srd.h.
version := $(shell sed -n 's/^.define SRD_VERSION "\([0-9.]*\)".*/\1/p' include/srd.h)
soname  := libsrd.so.$(firstword $(subst ., ,$(version)))

all: ## libraries and tools, into build/
all: $(O)/libsrd.a $(O)/libsrd.so $(O)/$(soname) $(O)/libnccl-net-efa.so $(O)/libnccl-net.so \
     $(O)/libsoftefa.so $(O)/softefa $(O)/softefa.1 $(O)/netbench $(O)/netcheck $(srd_tools:%=$(O)/%)

$(O)/obj/%.o: %.c | $(efadv)
	@echo "  CC    $<"; mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -c -o $@ $<
$(O)/libsrd.a: $(core)
	$(archive)
# What is installed looks for rdma-core where the system does, or where RDMA_CORE=PREFIX said.
$(O)/installed/%: rpath := $(if $(filter-out build/deps/%,$(RDMA_CORE)),$(rpath))
$(O)/libsrd.so $(O)/installed/libsrd.so: $(core) core/libsrd.map
	$(call link,-shared $(defs) $(rpath) -Wl$(comma)-soname$(comma)$(soname) -Wl$(comma)--version-script=core/libsrd.map)
$(O)/$(soname): $(O)/libsrd.so
	$(Q)ln -sf $(<F) $@
$(O)/libnccl-net-efa.so $(O)/installed/libnccl-net-efa.so: $(plugin) $(O)/libsrd.a
	$(call link,-shared $(defs) $(rpath) -Wl$(comma)-z$(comma)nodelete -Wl$(comma)--exclude-libs$(comma)ALL)
$(O)/libnccl-net.so: $(O)/libnccl-net-efa.so
	$(Q)ln -sf $(<F) $@
$(O)/libsoftefa.so: $(softefa)
	$(call link,-shared $(defs) -Wl$(comma)-z$(comma)nodelete)
$(O)/softefa: $(patsubst %,$(O)/obj/softefa/%.o,launcher report settings parse profile rule sysfs hw_counters gid \
	fabric_file fabric_view numbers stats log real)
	$(call link)
$(O)/softefa.1: docs/softefa.1.in scripts/manual.sh $(O)/softefa
	@echo "  MAN   $@"
	$(Q)scripts/manual.sh $(O)/softefa >$@.new && mv $@.new $@
$(O)/obj/tools/%.o: override CPPFLAGS += -Itools
# Its ioctl() stands before that of libraries: it counts the queue pairs that plugins make.
$(O)/netbench: override LDFLAGS += -Wl,--export-dynamic-symbol=ioctl
$(O)/netbench: $(call objs,tools/netbench/*.c) $(host)
	$(call link,,-lm)
$(O)/netcheck: $(call objs,tools/netcheck/*.c) $(host)
	$(call link)
$(O)/srd-pingpong $(O)/installed/srd-pingpong: $(O)/obj/tools/srd-pingpong.o $(common) $(O)/libsrd.a
	$(call link,$(rpath))
$(O)/srd-bw $(O)/installed/srd-bw: $(call objs,tools/srd-bw/*.c) $(common) $(O)/obj/tools/host/buf.o $(O)/libsrd.a
	$(call link,$(rpath))
# It lists what the plugin reads from the environment: that table, and no more of it.
$(O)/srd-info $(O)/installed/srd-info: $(call objs,tools/srd-info/*.c) $(common) $(O)/obj/plugin/param.o $(O)/libsrd.a
	$(call link,$(rpath))
# Subjects for netbench; tcpnet-vN exports no table newer than N.
$(O)/obj/tests/plugins/tables-v%.o: tests/plugins/tables.c
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) -DTABLES_NEWEST=$* $(CFLAGS) -c -o $@ $<
tcpnet := $(call objs,tests/plugins/tcpnet/*.c) $(O)/obj/tests/plugins/fault.o
$(O)/plugins/tcpnet-v%.so: $(tcpnet) $(O)/obj/tests/plugins/tables-v%.o
	$(call link,-shared $(defs))
$(O)/plugins/tcpnet.so: $(tcpnet) $(O)/obj/tests/plugins/tables.o
	$(call link,-shared $(defs))
$(O)/plugins/nullnet.so: $(patsubst %,$(O)/obj/tests/plugins/%.o,nullnet tables fault)
	$(call link,-shared $(defs))
# Wrong as a library, for netcheck: a function in place of a table; something of CUDA's needed; no errors.
$(O)/plugins/tcpnet-odd.so: $(tcpnet) $(patsubst %,$(O)/obj/tests/plugins/%.o,tables-v8 odd)
	$(call link,-shared $(defs))
$(O)/plugins/tcpnet-cuda.so: $(tcpnet) $(O)/obj/tests/plugins/tables.o $(O)/cuda/libcuda.so.1
	$(call link,-shared $(defs) -Wl$(comma)--no-as-needed $(O)/cuda/libcuda.so.1 -Wl$(comma)-rpath$(comma)$(abspath $(O)/cuda))
$(O)/plugins/deaf.so: $(O)/obj/tests/plugins/deaf.o
	$(call link,-shared $(defs))
# In place of CUDA; its soname is that of the real one.
$(O)/cuda/libcuda.so.1: $(O)/obj/tests/cuda/libcuda.o
	$(call link,-shared $(defs) -Wl$(comma)-soname$(comma)libcuda.so.1)
$(patsubst %,$(O)/integration/%,core_cuda core_kth plugin_cuda plugin_flush plugin_config plugin_quiet): | $(O)/cuda/libcuda.so.1
# Where calls of the C library are made to fail: those that tests/lib/kth.h lists.
$(O)/integration/core_kth: rpath += $(patsubst %,-Wl$(comma)--wrap=%,malloc calloc free open opendir closedir \
	fopen fclose fcntl poll pthread_mutex_init dlopen dlsym)
# Its own take the place of the C library's, also for what is loaded later.
$(O)/integration/plugin_lean: rpath += $(patsubst %,-Wl$(comma)--export-dynamic-symbol=%,malloc calloc realloc free \
	pthread_mutex_lock pthread_mutex_trylock pthread_spin_lock pthread_spin_trylock)
netbench_subjects := $(O)/netbench $(patsubst %,$(O)/plugins/%.so,tcpnet tcpnet-v9 nullnet) \
	$(O)/softefa $(O)/libsoftefa.so $(O)/libnccl-net-efa.so
$(patsubst tests/%.c,$(O)/%,$(wildcard tests/integration/netbench*.c)): | $(netbench_subjects)
$(patsubst tests/%.c,$(O)/%,$(wildcard tests/integration/netcheck*.c)): | $(O)/netcheck $(netbench_subjects) $(O)/cuda/libcuda.so.1
# It runs others below the system's rdma-core.
$(O)/integration/softefa_old: | $(filter $(patsubst %,$(O)/integration/%,softefa_verbs core_% plugin_conn plugin_group),$(call progs,integration)) \
	$(netbench_subjects)
$(O)/integration/config_run: | $(O)/libnccl-net-efa.so $(O)/libsrd.so
$(O)/integration/config_check: | $(O)/netbench $(O)/plugins/tcpnet.so
$(O)/integration/tools_info: | $(O)/srd-info $(O)/softefa $(O)/libsoftefa.so $(O)/libsrd.so $(O)/libnccl-net-efa.so \
	$(O)/cuda/libcuda.so.1
# As a user would: by the public headers and the library.
examples := $(patsubst %.c,$(O)/%,$(wildcard examples/*.c))
$(O)/examples/%: $(O)/obj/examples/%.o $(O)/libsrd.a
	$(call link,$(rpath))
$(O)/integration/examples: | $(examples) $(O)/softefa $(O)/libsoftefa.so
$(patsubst tests/%.c,$(O)/%,$(wildcard tests/integration/tools_*.c)): | $(srd_tools:%=$(O)/%) $(O)/softefa $(O)/libsoftefa.so
$(O)/obj/tests/unit/%.o $(O)/obj/tests/fuzz/%.o: override CPPFLAGS += -Itools
$(patsubst tests/%.c,$(O)/%,$(wildcard tests/integration/plugin*.c)): | $(O)/libnccl-net-efa.so
$(O)/unit/tools_payload: $(O)/obj/tools/netbench/reduce.o
$(O)/unit/tools_content: $(O)/obj/tools/srd-bw/content.o
$(O)/unit/netcheck_runner: $(filter-out %/main.o,$(call objs,tools/netcheck/*.c))
$(O)/fuzz/tools_bw: $(patsubst %,$(O)/obj/tools/srd-bw/%.o,wire plan)
# Where the plugin's topology files are compared, and written.
$(O)/obj/tests/unit/plugin_topo_xml.o: override CPPFLAGS += -DTOPO_FILES='"$(CURDIR)/nccl-tests-config/topo"'
$(O)/obj/tests/integration/config_%.o $(O)/obj/tests/unit/plugin_platform.o: override CPPFLAGS += -DCONFIG='"$(CURDIR)/nccl-tests-config"'
$(O)/obj/tests/lib/%.o: override CPPFLAGS += -DFIXTURES='"$(CURDIR)/tests/fixtures"'
# For tests only; softefa.a is the adapter without what stands before the C library.
$(O)/test/lib.a: $(call objs,tests/lib/*.c) $(host)
	$(archive)
$(O)/test/plugin.a: $(plugin)
	$(archive)
$(O)/test/softefa.a: $(filter-out %/shim.o,$(softefa))
	$(archive)
parts := $(O)/test/lib.a $(O)/test/plugin.a $(O)/test/softefa.a $(O)/libsrd.a
$(O)/unit/%: $(O)/obj/tests/unit/%.o $(parts)
	$(call link,$(rpath),-lcriterion)
$(O)/integration/%: $(O)/obj/tests/integration/%.o $(parts)
	$(call link,$(rpath),-lcriterion)
# Also for a real EFA: no part of this project is in it.
$(O)/conformance/%: $(O)/obj/tests/conformance/%.o $(O)/test/lib.a
	$(call link,$(rpath),-lcriterion)
$(O)/gpu/%: $(O)/obj/tests/gpu/%.o $(O)/libsrd.a
	$(call link,$(rpath))
$(O)/peers/%: $(O)/obj/tests/peers/%.o $(O)/libsrd.a
	$(call link,$(rpath))
$(O)/stress/%: $(O)/obj/tests/stress/%.o $(parts)
	$(call link,$(rpath))
$(O)/soak/%: $(O)/obj/tests/soak/%.o $(O)/test/lib.a
	$(call link,)
$(O)/fuzz/%: $(O)/obj/tests/fuzz/%.o $(parts)
	$(call link,-fsanitize=fuzzer $(rpath))

# ---- tests -------------------------------------------------------------------------------------
conformance := $(call progs,conformance)
tests := $(call progs,unit) $(call progs,integration) $(conformance)
check: all $(tests) check-layers check-exports check-headers check-manual check-docs check-install ## build and run all tests
	$(Q)BUILD=$(O) scripts/run-tests.sh $(tests)
netcheck_subjects := $(patsubst %,$(O)/plugins/%.so,tcpnet tcpnet-odd tcpnet-cuda deaf)
check-netcheck: $(O)/netcheck $(netcheck_subjects) $(O)/softefa $(O)/libsoftefa.so $(O)/libnccl-net-efa.so ## netcheck on a correct plugin, and on one wrong in each way
	$(Q)BUILD=$(O) scripts/check-netcheck.sh
conformance: all $(conformance) ## what an EFA does, on softefa; SOFTEFA=0: on the machine's own
	$(Q)BUILD=$(O) scripts/run-tests.sh $(conformance)
check-plugin: all $(O)/cuda/libcuda.so.1 ## netcheck on the plugin: each version of the ABI, each protocol, rails 1 and 4
	$(Q)BUILD=$(O) scripts/check-plugin.sh
check-plugin-tsan: $(O)/softefa $(O)/libsoftefa.so ## the same under ThreadSanitizer, ranks as threads
	$(Q)$(MAKE) SAN=thread build-thread/netcheck build-thread/libnccl-net-efa.so
	$(Q)BUILD=$(O) SRD_RDMA_CORE=$(firstword $(wildcard $(abspath $(RDMA_CORE))/lib $(abspath $(RDMA_CORE))/lib64)) \
		scripts/check-plugin.sh tsan build-thread
check-gpu: $(O)/gpu/gpu ## srd_cuda on a real GPU; says what it could not check
	$(Q)$<
check-gpu-nccl: all ## a stock NCCL over the plugin, two ranks on one real GPU; Error 77: not run
	$(Q)BUILD=$(O) CC="$(CC)" scripts/gpu-nccl.sh
stress: ## threads under ThreadSanitizer
	$(Q)$(MAKE) SAN=thread run-stress
run-stress: $(call progs,stress)
	$(Q)for t in $^; do echo "$$t"; timeout -k 5 600 $$t || exit 1; done
SOAK_SECONDS ?= 600
soak: all $(O)/soak/softefa_soak ## traffic, faults, processes that come and go, SOAK_SECONDS (600): nothing grows
	$(Q)BUILD=$(O) scripts/soak.sh $(SOAK_SECONDS)
FUZZ_SECONDS ?= 10
fuzz: ## what parses bytes of others, FUZZ_SECONDS (10) each
	$(Q)$(MAKE) CC=clang O=build-fuzz SAN=address,undefined,fuzzer-no-link run-fuzz
# Inputs are long from the start: the targets make sense of any bytes, and go deep only with many.
run-fuzz: $(call progs,fuzz)
	$(Q)for t in $^; do $$t -max_total_time=$(FUZZ_SECONDS) -timeout=20 -len_control=0 -max_len=1024 -print_final_stats=1 -artifact_prefix=$$t- \
		>$$t.log 2>&1 || { cat $$t.log; exit 1; }; \
		sed -n "s|^stat::number_of_executed_units: *|$$t: inputs: |p" $$t.log; done
# Who may include whom: a folder sees itself, include/ and what is listed here.
layer = $(Q)! grep -nE '\#include "($(2))' -r $(1)
check-layers: ## the parts keep apart
	$(call layer,include core,plugin|softefa|tools|tests)
	$(call layer,include/srd* core,nccl)
	$(call layer,plugin,core|softefa|tools|tests)
	$(call layer,softefa,core|plugin|tools|tests|srd|nccl)
	$(call layer,tools,core|plugin|softefa|tests)
	$(call layer,examples,core|plugin|softefa|tests|tools|nccl)
	$(Q)! grep -nE '#include [<"](efadv|cuda|infiniband/efadv)' -r include plugin tools examples
	$(Q)! grep -nE '#include [<"]infiniband' -r softefa
check-exports: $(O)/libnccl-net-efa.so $(O)/libsrd.so $(O)/libsoftefa.so ## only what is meant is exported or needed
	$(Q)scripts/exports.sh $(O)
check-headers: ## each public header compiles alone, as C11 and C++17
	$(Q)for h in include/*.h; do for x in "c -std=c11" "c++ -std=c++17"; do \
		echo "#include \"$$h\"" | $(CC) $(CPPFLAGS) -Wall -Wextra -Wundef -pedantic -Werror \
			-fsyntax-only -x $$x - || exit 1; done; done
check-manual: $(O)/softefa $(O)/softefa.1 $(O)/netbench $(O)/netcheck $(srd_tools:%=$(O)/%) ## manual pages have all options and settings
	$(Q)scripts/manual.sh $(O)/softefa check $(O)/softefa.1
	$(Q)for t in netbench netcheck $(srd_tools); do scripts/manual.sh $(O)/$$t check docs/$$t.1 || exit 1; done
check-docs: | $(efadv) ## README.md, srd(7), the map from Python, docs/compare.md and tests/README.md agree with the code
	$(Q)CC="$(CC)" RDMA_CORE=$(RDMA_CORE) scripts/docs.sh
check-install: all $(O)/installed/libsrd.so $(O)/installed/libnccl-net-efa.so $(srd_tools:%=$(O)/installed/%) ## what make install installs works
	$(Q)CC="$(CC)" CFLAGS="$(if $(SAN),-fsanitize=$(SAN)) -isystem $(RDMA_CORE)/include" \
		SRD_RDMA_CORE=$(firstword $(wildcard $(abspath $(RDMA_CORE))/lib $(abspath $(RDMA_CORE))/lib64)) \
		scripts/check-install.sh O=$(O)

topology: $(O)/unit/plugin_topo_xml ## write nccl-tests-config/topo anew, as the plugin writes it on tests/fixtures
	$(Q)TOPO_WRITE=1 $< --filter 'topo_xml/files*'

# A goal that tests fetches what is missing; plain make only says so.
$(efadv): | $(if $(filter demo check% conformance bench% %fuzz %stress,$(MAKECMDGOALS)),deps)
	@test -e $@ || { echo "$@ is missing: run make deps, or set RDMA_CORE to an rdma-core >= 59"; exit 1; }
bench_level = -O1
$(O)/bench/srd_calls: bench_level = # its raw loops are compared with what the library is compiled to
$(O)/bench/%: tests/bench/%.c $(O)/libsrd.a
	@echo "  CC    $@"; mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) $(bench_level) -fno-ipa-icf -o $@ $^ $(rpath) -ldl -lpthread
bench: all $(call progs,bench) ## measure: instructions per call, latency, bandwidth, idle CPU; PLUGIN=FILE: of another net plugin
	$(Q)BUILD=$(O) PLUGIN="$(PLUGIN)" scripts/bench.sh
bench-softefa: all $(call progs,bench) ## softefa next to the machine's limits and libfabric's tcp and shm; ROUNDS=5
	$(Q)BUILD=$(O) scripts/bench-softefa.sh
demo: all ## move verified data on software devices, show it
	$(Q)BUILD=$(O) RDMA_CORE=$(RDMA_CORE) scripts/demo.sh
deps: ## install packages and rdma-core >= 59 (as root or with sudo)
	$(Q)scripts/deps.sh
check-peers: all $(call progs,peers) $(patsubst tests/%.c,$(O)/%,$(wildcard tests/integration/core_*.c)) ## other projects' programs on softefa; PEERS="perftest ..." for some
	$(Q)scripts/deps.sh peers
	$(Q)BUILD=$(O) scripts/peers.sh $(PEERS)
check-nccl: all $(O)/test/lib.a ## NCCL's own host code over the plugin, without a GPU; NCCL_SRC=DIR: of another version
	$(Q)BUILD=$(O) scripts/nccl.sh
lint: ## shellcheck, clang-format
	$(Q)shellcheck -x scripts/*.sh scripts/*/*.sh .ci/run nccl-tests-config/*.sh nccl-tests-config/*/*.sh nccl-tests-config/slurm/*.sbatch
	$(Q)clang-format --dry-run -Werror $$(git ls-files '*.c' '*.cc' '*.h')
pre-push: lint ## what a push must pass: lint, check without warnings, check under sanitizers
	$(Q)$(MAKE) WERROR=-Werror O=build-werror check
	$(Q)$(MAKE) WERROR=-Werror SAN=address,undefined check
	$(Q)$(MAKE) FUZZ_SECONDS=30 fuzz
PREFIX ?= /usr/local
dest    = $(DESTDIR)$(PREFIX)
doc     = share/doc/nccl-net-efa/examples
# Not of libsrd: NCCL's own, and what only parts of this project use.
private = $(wildcard include/nccl_*.h) include/srd_env.h
install: all $(O)/installed/libsrd.so $(O)/installed/libnccl-net-efa.so $(srd_tools:%=$(O)/installed/%) ## below PREFIX (/usr/local), in DESTDIR
	$(Q)install -d $(addprefix $(dest)/,bin include lib/pkgconfig share/man/man1 share/man/man7 $(doc))
	$(Q)install $(O)/softefa $(O)/netbench $(O)/netcheck $(srd_tools:%=$(O)/installed/%) $(dest)/bin
	$(Q)install -m 644 $(filter-out $(private),$(wildcard include/*.h)) $(dest)/include
	$(Q)install -m 644 $(O)/libsrd.a $(O)/libsoftefa.so $(O)/installed/libnccl-net-efa.so $(dest)/lib
	$(Q)install -m 644 $(O)/installed/libsrd.so $(dest)/lib/libsrd.so.$(version)
	$(Q)ln -sf libsrd.so.$(version) $(dest)/lib/$(soname)
	$(Q)ln -sf $(soname) $(dest)/lib/libsrd.so
	$(Q)ln -sf libnccl-net-efa.so $(dest)/lib/libnccl-net.so
	$(Q)sed 's|@PREFIX@|$(PREFIX)|; s|@VERSION@|$(version)|' core/srd.pc.in >$(dest)/lib/pkgconfig/srd.pc
	$(Q)install -m 644 $(O)/softefa.1 docs/netbench.1 docs/netcheck.1 $(srd_tools:%=docs/%.1) $(dest)/share/man/man1
	$(Q)install -m 644 docs/*.7 $(dest)/share/man/man7
	$(Q)install -m 644 examples/* $(dest)/$(doc)
clean: ## remove all that was built, except build/deps
	$(Q)rm -rf build-*; test ! -d build || find build -mindepth 1 -maxdepth 1 ! -name deps -exec rm -rf {} +
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' Makefile
	@echo "with V=1 (show commands), SAN=address,undefined or thread, RDMA_CORE=PREFIX, CC=, CFLAGS="

-include $(shell find $(O)/obj -name '*.d' 2>/dev/null)
.PHONY: all bench bench-softefa check check-netcheck check-plugin check-plugin-tsan check-layers check-exports check-headers check-gpu check-gpu-nccl check-manual check-docs check-install conformance \
	install stress run-stress fuzz run-fuzz demo deps \
	check-nccl check-peers lint pre-push clean help topology
.SECONDARY:
