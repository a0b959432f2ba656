# SPDX-License-Identifier: BSD-3-Clause
# NCCL's host code by NCCL's own list of it, to be run in its src/ with BUILDDIR set. Its device code is not
# compiled: where its list of kernels ends the generated kernels.cc begins (scripts/deps/nccl.sh).
include Makefile

# Quick to compile: it is not measured.
CXXFLAGS := $(filter-out -O3 -g,$(CXXFLAGS)) -O1 -g0 -w

# As its own rule, less a second run for the dependencies.
$(OBJDIR)/%.o: %.cc $(INCTARGETS)
	mkdir -p $(@D)
	$(CXX) -I. -I$(INCDIR) -I$(OBJDIR)/include $(CXXFLAGS) -Iinclude -I$(INCPLUGIN) -I$(DOCA_HOME)/include -MMD -MP -c $< -o $@

.DEFAULT_GOAL := objects
.PHONY: objects
objects: $(LIBOBJ)
