/* SPDX-License-Identifier: BSD-3-Clause */
/* Loading the stand-in for CUDA. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "../cuda/fake.h"
#include "kids.h"

static void *lib;

static void *symbol(const char *name)
{
	void *sym = lib ? dlsym(lib, name) : NULL;

	MUST(sym, "%s", name);
	return sym;
}

struct fake_cuda *fake_cuda_load(void)
{
	fake_cuda_fn *state;
	char path[512], *slash;
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 64);

	MUST(n > 0, "no /proc");
	path[n] = '\0';
	for (int i = 0; i < 2; i++) {
		slash = strrchr(path, '/');
		MUST(slash, "%s", path);
		*slash = '\0';
	}
	strcat(path, "/cuda/libcuda.so.1");
	/* Its soname is that of the real one: whoever asks for that gets this. */
	lib = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
	MUST(lib, "%s: %s", path, dlerror());
	*(void **)&state = symbol("fake_cuda_state");
	return state();
}

void *fake_cuda_map(size_t size, size_t piece)
{
	fake_cuda_alloc_fn *alloc;
	void *p;

	*(void **)&alloc = symbol("fake_cuda_malloc");
	p = alloc(size, piece);
	MUST(p, "no device memory");
	return p;
}

void *fake_cuda_alloc(size_t size)
{
	return fake_cuda_map(size, 0);
}
