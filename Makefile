# SPDX-License-Identifier: BSD-3-Clause
# One non-recursive Makefile; all it makes is under build/ (or build-address/ ... with SAN=).
comma  := ,
O      ?= build$(if $(SAN),-$(firstword $(subst $(comma), ,$(SAN))))
Q       = $(if $(V),,@)

# scripts/deps.sh provides rdma-core >= 59 here; RDMA_CORE=PREFIX names another one.
RDMA_CORE ?= build/deps/rdma-core

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
endif

# The build tree finds its rdma-core without LD_LIBRARY_PATH.
rpath   = -Wl,-rpath,$(abspath $(RDMA_CORE))/lib
defs    = $(if $(SAN),,-Wl$(comma)-z$(comma)defs)
objs    = $(patsubst %.c,$(O)/obj/%.o,$(wildcard $(1)))
progs   = $(patsubst tests/$(1)/%.c,$(O)/$(1)/%,$(wildcard tests/$(1)/*.c))
link    = @echo "  LINK  $@"; mkdir -p $(@D); $(CC) $(LDFLAGS) -o $@ $(1) $(filter %.o %.a,$^) $(2) -ldl -lpthread

core    := $(call objs,core/*.c)
plugin  := $(call objs,plugin/*.c)
softefa := $(filter-out %/launcher.o,$(call objs,softefa/*.c))
host    := $(call objs,tools/host/*.c)
testlib := $(call objs,tests/lib/*.c)

all: $(O)/libsrd.a $(O)/libsrd.so $(O)/libnccl-net-efa.so $(O)/libnccl-net.so \
     $(O)/libsoftefa.so $(O)/softefa $(O)/netbench

$(O)/obj/%.o: %.c
	@echo "  CC    $<"; mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -c -o $@ $<
$(O)/libsrd.a: $(core)
	@echo "  AR    $@"
	$(Q)rm -f $@; $(AR) rcs $@ $^
$(O)/libsrd.so: $(core)
	$(call link,-shared $(defs) $(rpath))
$(O)/libnccl-net-efa.so: $(plugin) $(O)/libsrd.a
	$(call link,-shared $(defs) $(rpath) -Wl$(comma)-z$(comma)nodelete -Wl$(comma)--exclude-libs$(comma)ALL)
$(O)/libnccl-net.so: $(O)/libnccl-net-efa.so
	$(Q)ln -sf $(<F) $@
$(O)/libsoftefa.so: $(softefa)
	$(call link,-shared $(defs) -Wl$(comma)-z$(comma)nodelete)
$(O)/softefa: $(addprefix $(O)/obj/softefa/,launcher.o settings.o sysfs.o gid.o)
	$(call link)
$(O)/obj/tools/%.o: override CPPFLAGS += -Itools
$(O)/netbench: $(call objs,tools/netbench/*.c) $(host)
	$(call link,,-lm)
$(O)/unit/%: $(O)/obj/tests/unit/%.o $(testlib) $(O)/libsrd.a
	$(call link,$(rpath),-lcriterion)
$(O)/integration/%: $(O)/obj/tests/integration/%.o $(testlib) $(O)/libsrd.a
	$(call link,$(rpath),-lcriterion)

-include $(shell find $(O)/obj -name '*.d' 2>/dev/null)
.PHONY: all
.SECONDARY:
