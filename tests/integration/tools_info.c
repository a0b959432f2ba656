/* SPDX-License-Identifier: BSD-3-Clause */
/* srd-info on softefa's devices, next to GPUs that a sysfs tree shows. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdlib.h>
#include <string.h>

#include "../lib/cmd.h"
#include "../lib/need.h"
#include "../lib/tree.h"

static struct cmd cmd;
static struct tree tree;

/* softefa's sysfs, and what @lines add to it; srd-info will see that one. */
static void sysfs_with(const char *lines)
{
	const char *softefa = getenv("SYSFS_PATH");

	need(softefa, "not below softefa");
	tree_copy(&tree, softefa);
	tree_add(&tree, lines);
	setenv("SYSFS_PATH", tree.root, 1);
}

static void take_down(void)
{
	if (tree.root[0])
		tree_fini(&tree);
}

TestSuite(tools_info, .fini = take_down);

/* efa_0 is 0000:10:00.0, right below its host bridge, on NUMA node 0. */
static const char gpus[] = "product p9.1xlarge\n"
			   "under pci0000:10 0 32.0x16\n"
			   "gpu - 0000:10:01.0 2330 32.0x16\n"
			   "under pci0000:ca/0000:ca:01.0 1 32.0x16\n"
			   "gpu - 0000:cb:00.0 2330 -\n";

/* Run srd-info with @args, its output through @python as j, which must print what the test expects.
 */
static void json(const char *args, int code, const char *python)
{
	cmd_run(&cmd, 60,
		"f=$(mktemp); $B/srd-info --json %s >$f; c=$?; python3 -c \"\n"
		"import json, os, sys\n"
		"j = json.load(open(sys.argv[1]))\n"
		"d = {x['name']: x for x in j.get('devices', [])}\n"
		"%s\" $f || c=99; rm $f; exit $c",
		args, python);
	cr_assert(eq(int, cmd.code, code), "%s", cmd.out);
}

#define says(text) cr_assert(cmd_says(&cmd, text), "%s", cmd.out)

/* ---- what it tells ---- */

Test(tools_info, json_has_devices_with_all_that_is_known)
{
	sysfs_with(gpus);
	json("", 0,
	     "assert sorted(d) == ['efa_0', 'efa_1', 'efa_2', 'efa_3'], d\n"
	     "x = d['efa_0']\n"
	     "assert x['efa'] is True and x['error'] is None, x\n"
	     "assert x['part_id'] == 0xefa1 and x['hardware'] == 0xefa1, x\n"
	     "assert x['speed_mbps'] == 100000 and x['firmware'], x\n"
	     "assert 'rdma_write' in x['caps'] and 'rdma_read' in x['caps'], x\n"
	     "assert x['limits']['max_qp'] == 1024 and x['limits']['max_sq_sge'] == 2, x\n"
	     "assert x['limits']['max_mr_size'] > 2 ** 32, x\n"
	     "assert x['pci']['bus_id'] == '0000:10:00.0' and x['pci']['numa'] == 0, x\n"
	     "assert x['pci']['path'].endswith('/devices/pci0000:10/0000:10:00.0'), x\n"
	     "assert x['pci']['link_mbps'] == 504123, x\n"
	     "assert len({x['gid'] for x in d.values()}) == 4, d\n"
	     "assert len({x['guid'] for x in d.values()}) == 4, d\n");
}

Test(tools_info, json_has_gpus_and_distances)
{
	sysfs_with(gpus);
	json("", 0,
	     "assert j['machine'] == 'p9.1xlarge', j\n"
	     "a, b = j['gpus']\n"
	     "assert (a['bus_id'], b['bus_id']) == ('0000:10:01.0', '0000:cb:00.0'), j\n"
	     "assert (a['numa'], b['numa']) == (0, 1), j\n"
	     "assert (a['link_mbps'], b['link_mbps']) == (504123, None), j\n"
	     "assert a['cuda'] is None and 'libcuda' in j['cuda']['error'], j\n"
	     "assert d['efa_0']['gpu_distance'] == {a['bus_id']: 'PHB', b['bus_id']: 'SYS'}, j\n"
	     "assert d['efa_1']['gpu_distance'] == {a['bus_id']: 'NODE', b['bus_id']: 'SYS'}, j\n");
}

Test(tools_info, json_has_the_libraries_that_were_found)
{
	json("", 0,
	     "r = j['rdma_core']\n"
	     "assert r['error'] is None and float(r['release']) >= 28, r\n"
	     "assert os.path.exists(r['libibverbs']) and 'libibverbs.so' in r['libibverbs'], r\n"
	     "assert os.path.exists(r['libefa']) and 'libefa' in r['libefa'], r\n");
}

Test(tools_info, table_has_the_same)
{
	sysfs_with(gpus);
	cmd_run(&cmd, 60, "$B/srd-info");
	cr_assert(zero(int, cmd.code), "%s", cmd.out);
	says("machine p9.1xlarge");
	says("libefa.so");
	says("efa_0          0xefa1     100    0  0000:10:00.0   32 GT/s x16    fe80:");
	says("0000:cb:00.0   10de:2330    1  ?");
	says("efa_0              PHB     SYS\n");
	says("efa_3             NODE     SYS\n");
	says("efa_0 efa_1 efa_2 efa_3:\n  firmware ");
	says("rdma_write");
	says("max_qp        1024");
	cmd_run(&cmd, 60, "$B/srd-info | grep -c ' $'");
	says("0\n");
}

Test(tools_info, caps_are_those_of_the_device)
{
	cmd_run(&cmd, 60, "$B/softefa --profile efa0 -- $B/srd-info --json");
	cr_assert(zero(int, cmd.code), "%s", cmd.out);
	says("\"caps\": [");
	says("\"rnr_retry\"");
	cr_assert(not(cmd_says(&cmd, "rdma_write")), "%s", cmd.out);
}

Test(tools_info, what_cannot_be_known_is_null)
{
	sysfs_with(gpus);
	tree_hide(&tree, "devices/pci0000:10/0000:10:00.0/numa_node");
	tree_hide(&tree, "devices/pci0000:10/0000:10:00.0/max_link_speed");
	json("-d efa_0", 0,
	     "p = d['efa_0']['pci']\n"
	     "assert p['numa'] is None and p['link_mbps'] is None, p\n"
	     "assert list(d['efa_0']['gpu_distance'].values()) == ['PHB', None], d\n");
	cmd_run(&cmd, 60, "$B/srd-info -d efa_0");
	says("efa_0          0xefa1     100    ?  0000:10:00.0   ?");
	says("efa_0              PHB       ?\n");
}

/* ---- CUDA ---- */

Test(tools_info, cuda_is_asked_where_it_is)
{
	/* The stand-in's device is at ca:00, which is not among the GPUs of sysfs. */
	sysfs_with(gpus);
	cmd_run(&cmd, 60, "LD_LIBRARY_PATH=$B/cuda $B/srd-info");
	cr_assert(zero(int, cmd.code), "%s", cmd.out);
	says("0000:ca:00.0   0000:0000    ?  ?              0     yes     yes       yes   none");
	cmd_run(&cmd, 60,
		"LD_LIBRARY_PATH=$B/cuda $B/srd-info --json | python3 -c \"\n"
		"import json, sys\n"
		"j = json.load(sys.stdin)\n"
		"assert j['cuda']['error'] is None, j\n"
		"assert j['gpus'][2]['cuda'] == {'device': 0, 'dmabuf': True, 'gpudirect': True,"
		" 'flush': True, 'ordering': 'none'}, j\n"
		"assert j['gpus'][0]['cuda'] is None, j\"");
	cr_assert(zero(int, cmd.code), "%s", cmd.out);
}

Test(tools_info, gpu_of_sysfs_and_of_cuda_are_one)
{
	sysfs_with("under pci0000:ca 1 32.0x16\n"
		   "gpu - 0000:ca:00.0 2330 32.0x16\n");
	cmd_run(&cmd, 60, "LD_LIBRARY_PATH=$B/cuda $B/srd-info");
	says("0000:ca:00.0   10de:2330    1  32 GT/s x16    0     yes     yes       yes   none");
}

/* ---- one device ---- */

Test(tools_info, device_that_is_asked_for_is_the_only_one)
{
	json("-d efa_2", 0, "assert list(d) == ['efa_2'], d\n");
	cmd_run(&cmd, 60, "$B/srd-info --device efa_2");
	says("efa_2 ");
	cr_assert(not(cmd_says(&cmd, "efa_1")), "%s", cmd.out);
}

Test(tools_info, device_that_is_missing_is_said_and_is_status_1)
{
	json("-d efa_9", 1, "assert d == {}, d\n");
	cmd_run(&cmd, 60, "$B/srd-info -d efa_9");
	cr_assert(eq(int, cmd.code, 1), "%s", cmd.out);
	says("srd-info: efa_9: no such RDMA device");
	says("none");
}

/* ---- what fails ---- */

/* The device node is not the one that sysfs names: libibverbs waits for that a while. */
Test(tools_info, device_that_cannot_be_opened_is_shown_with_its_reason)
{
	sysfs_with(gpus);
	tree_write(&tree, "class/infiniband_verbs/uverbs1/dev", "231:9");
	json("", 0,
	     "assert len(d) == 4, d\n"
	     "assert 'ibv_open_device' in d['efa_1']['error'], d\n"
	     "assert 'limits' not in d['efa_1'] and d['efa_1']['efa'] is True, d\n"
	     "assert d['efa_1']['pci']['bus_id'] == '0000:11:00.0', d\n"
	     "assert all(d['efa_%d' % i]['error'] is None for i in (0, 2, 3)), d\n");
	cmd_run(&cmd, 60, "$B/srd-info");
	cr_assert(zero(int, cmd.code), "%s", cmd.out);
	says("efa_1          0xefa1       ?    0  0000:11:00.0   32 GT/s x16    ibv_open_device: ");
	says("efa_0 efa_2 efa_3:");
}

Test(tools_info, machine_without_rdma_is_no_failure)
{
	cmd_run(&cmd, 60, "SYSFS_PATH=/nonexistent $B/srd-info");
	cr_assert(zero(int, cmd.code), "%s", cmd.out);
	says("none");
	setenv("SYSFS_PATH", "/nonexistent", 1);
	json("", 0, "assert j['devices'] == [] and j['gpus'] == [] and j['machine'] is None, j\n");
}

/* ---- environment ---- */

Test(tools_info, variables_are_those_that_the_libraries_read)
{
	/* All constants of theirs that end like one; what lies before them is anybody's. */
	json("--env", 0,
	     "import re, subprocess\n"
	     "names = {e['name'] for e in j['environment']}\n"
	     "found = set()\n"
	     "for f in ('libsrd.so', 'libnccl-net-efa.so'):\n"
	     "    data = subprocess.check_output(['objcopy', '-O', 'binary', '-j', '.rodata',"
	     " os.environ['B'] + '/' + f, '/dev/stdout'])\n"
	     "    found |= set(re.findall(r'((?:SRD|NCCL_EFA)_[A-Z0-9_]+)\\0',"
	     " data.decode('latin-1')))\n"
	     "assert found == names and len(names) > 4, (sorted(found ^ names), sorted(names))\n"
	     "for e in j['environment']:\n"
	     "    assert e['type'] in ('integer', 'choice', 'string'), e\n"
	     "    assert e['text'] and e['limits'], e\n"
	     "    assert e['set'] == os.environ.get(e['name']), e\n");
}

Test(tools_info, variable_that_is_set_is_shown_so)
{
	cmd_run(&cmd, 60, "SRD_LOG=info $B/srd-info --env");
	cr_assert(zero(int, cmd.code), "%s", cmd.out);
	says("SRD_LOG                    choice   warn     least severe log lines");
	says("is set to \"info\"");
	says("NCCL_EFA_RAILS             integer  0 ");
	says("one of error|warn|info");
	says("softefa(1)");
}

/* ---- command line ---- */

Test(tools_info, what_is_no_option_is_refused)
{
	cmd_run(&cmd, 60, "$B/srd-info --nonsense");
	cr_assert(eq(int, cmd.code, 2), "%s", cmd.out);
	says("--nonsense: unknown option");
	cmd_run(&cmd, 60, "$B/srd-info efa_0");
	cr_assert(eq(int, cmd.code, 2), "%s", cmd.out);
	cmd_run(&cmd, 60, "$B/srd-info --help");
	cr_assert(zero(int, cmd.code), "%s", cmd.out);
	says("--json");
}
