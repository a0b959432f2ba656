/* SPDX-License-Identifier: BSD-3-Clause */
/* Finding libraries and symbols at run time. */
#include "srd.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../core/libs.h"

static char logged[4096];

static void collect(void *arg, enum srd_log_level level, const char *line)
{
	(void)arg;
	(void)level;
	strncat(logged, line, sizeof(logged) - strlen(logged) - 1);
	strncat(logged, "\n", sizeof(logged) - strlen(logged) - 1);
}

static double (*cosine)(double);
static void (*nothing)(void);

static const struct srd_sym cos_sym[] = {{"cos", &cosine, true}};
static const struct srd_sym with_needed[] = {{"cos", &cosine, true},
					     {"no_such_symbol", &nothing, true}};
static const struct srd_sym with_optional[] = {{"no_such_symbol", &nothing, false},
					       {"cos", &cosine, true}};

Test(libs, symbols_are_found)
{
	cr_assert(zero(int, srd_lib_open("libm.so.6", "", cos_sym, 1)));
	cr_assert(eq(dbl, cosine(0), 1));
}

Test(libs, library_that_is_missing_is_enoent_and_named)
{
	srd_log_to(collect, NULL);
	cr_assert(eq(int, srd_lib_open("libno_such_thing.so.1", "", cos_sym, 1), -ENOENT));
	cr_assert(ne(ptr, strstr(logged, "libno_such_thing.so.1"), NULL));
}

Test(libs, needed_symbol_that_is_missing_is_eopnotsupp_and_named)
{
	srd_log_to(collect, NULL);
	cr_assert(eq(int, srd_lib_open("libm.so.6", "", with_needed, 2), -EOPNOTSUPP));
	cr_assert(ne(ptr, strstr(logged, "no_such_symbol"), NULL));
	cr_assert(ne(ptr, strstr(logged, "libm.so.6"), NULL));
}

Test(libs, optional_symbol_that_is_missing_is_null)
{
	nothing = (void (*)(void))abort;
	cr_assert(zero(int, srd_lib_open("libm.so.6", "", with_optional, 2)));
	cr_assert(eq(ptr, (void *)nothing, NULL));
	cr_assert(ne(ptr, (void *)cosine, NULL));
}

Test(libs, directory_without_the_library_is_one_warning)
{
	srd_log_to(collect, NULL);
	cr_assert(eq(int, srd_lib_open("libno_such_thing.so.1", "/no/such/dir", cos_sym, 1),
		     -ENOENT));
	cr_assert(ne(ptr, strstr(logged, "/no/such/dir/libno_such_thing.so.1"), NULL));
}

static char dir[] = "/tmp/core_libs.XXXXXX", file[64];

/* Point SRD_RDMA_CORE at a directory whose libibverbs.so.1 is another library, without verbs. */
static void make_impostor(void)
{
	Dl_info libm;

	cr_assert(ne(ptr, mkdtemp(dir), NULL));
	cr_assert(zero(int, srd_lib_open("libm.so.6", "", cos_sym, 1)));
	cr_assert(ne(int, dladdr((void *)cosine, &libm), 0));
	snprintf(file, sizeof(file), "%s/libibverbs.so.1", dir);
	cr_assert(zero(int, symlink(libm.dli_fname, file)));
	setenv("SRD_RDMA_CORE", dir, 1);
	srd_log_to(collect, NULL);
}

static void remove_impostor(void)
{
	unlink(file);
	rmdir(dir);
}

Test(libs, directory_of_the_environment_is_looked_in_first, .init = make_impostor,
     .fini = remove_impostor)
{
	struct srd_dev_info info;

	cr_assert(eq(int, srd_dev_list(&info, 1, false), -EOPNOTSUPP));
	cr_assert(ne(ptr, strstr(logged, "libibverbs.so.1 lacks ibv_get_device_list"), NULL));
}

/* The answer stays, and so does the silence: one line for one fault. */
Test(libs, second_call_repeats_the_answer_without_a_line, .init = make_impostor,
     .fini = remove_impostor)
{
	struct srd_dev dev;

	cr_assert(eq(int, srd_dev_open(&dev, "efa_0"), -EOPNOTSUPP));
	logged[0] = 0;
	cr_assert(eq(int, srd_dev_open(&dev, "efa_0"), -EOPNOTSUPP));
	cr_assert(zero(sz, strlen(logged)));
	cr_assert(eq(ptr, dev.ibv, NULL));
}
