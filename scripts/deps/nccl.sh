# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# nccl.sh: NCCL's source, CUDA's headers, and NCCL's host code compiled, for check-nccl. Part of deps.sh.
# NCCL_SRC=DIR is another tree of NCCL's source. What was made is said in build/deps/nccl: version, source, headers.
# Status 77: it cannot be had here.
# shellcheck disable=SC2154,SC2034  # root, deps, log, tmp: deps.sh's; component: archive.sh's

nccl_recipe=1        # raise it when the way NCCL is built changes
nccl_oldest=228      # major and minor: its kernels' arguments are known from there on
cuda_oldest=13       # the fake runtime has the functions of this one
cuda_wheels=(nvidia-cuda-runtime==13.0.96 nvidia-cuda-crt==13.0.88 nvidia-cuda-cccl==13.0.85)

# nccl_number NAME: of its version
nccl_number() { sed -n "s/^NCCL_$1 *:= *\([0-9]*\).*/\1/p" "$nccl_src/makefiles/version.mk"; }

nccl_source() {
	nccl_src=$(readlink -m "${NCCL_SRC:-$deps/nccl-src}")
	if [ -z "${NCCL_SRC:-}" ] && [ ! -e "$nccl_src/stamp" ]; then
		component=contrib
		fetch_source nvidia-nccl 2 "$nccl_src"
	fi
	[ -e "$nccl_src/makefiles/version.mk" ] || die "NCCL_SRC=$NCCL_SRC: no source of NCCL"
	nccl_version=$(nccl_number MAJOR).$(nccl_number MINOR).$(nccl_number PATCH)
	[ "$(nccl_number MAJOR)$(nccl_number MINOR)" -ge $nccl_oldest ] ||
		die "NCCL $nccl_version in $nccl_src is older than ${nccl_oldest:0:1}.${nccl_oldest:1}"
}

# cuda_number DIR: 13000 for the headers of CUDA 13.0
cuda_number() { sed -n 's/^#define CUDA_VERSION \([0-9]*\)/\1/p' "$1/cuda.h" 2>/dev/null; }

cuda_new_enough() { [ "$(cuda_number "$1")" -ge ${cuda_oldest}000 ] 2>/dev/null && [ -e "$1/cuda_runtime.h" ]; }

# The toolkit's, or those that its vendor has in the package index.
cuda_headers() {
	local pip

	if have nvcc; then
		cuda_include=$(dirname "$(dirname "$(readlink -f "$(command -v nvcc)")")")/include
		! cuda_new_enough "$cuda_include" || return 0
	fi
	cuda_include=$deps/cuda/nvidia/cu13/include
	! cuda_new_enough "$cuda_include" || return 0
	say "fetching the headers of CUDA $cuda_oldest"
	install_packages python3-venv
	rm -rf "$deps/cuda"
	pip=("$tmp/venv/bin/python" -m pip --disable-pip-version-check --no-cache-dir)
	{
		/usr/bin/python3 -m venv "$tmp/venv" &&
			"${pip[@]}" install --no-deps --only-binary :all: --target "$deps/cuda" "${cuda_wheels[@]}"
	} >"$log" 2>&1 || {
		! no_index || absent "no network: pip cannot fetch ${cuda_wheels[*]}"
		die_log "the installation of ${cuda_wheels[*]}"
	}
	cuda_new_enough "$cuda_include" || die "${cuda_wheels[*]} have no headers of CUDA $cuda_oldest"
}

# The kernels' names: what NCCL's generators declare to its host code.
nccl_kernels() {
	local gen=$nccl_obj/gensrc

	python3 "$nccl_src/src/device/generate.py" "$gen" &&
		python3 "$nccl_src/src/device/symmetric/generate.py" "$gen/symmetric" &&
		sed -n 's/^ *__global__ void \([A-Za-z0-9_]*\)(\([A-Za-z0-9_]*\) const);/KERNEL(\1, \2)/p' \
			"$gen/host_table.cc" "$gen/symmetric/sym_kernels_host.cc" >"$gen/kernels.inc" &&
		grep -q ncclDevKernel_SendRecv "$gen/kernels.inc"
}

nccl_objects() {
	local number what

	number=$(cuda_number "$cuda_include")
	nccl_obj=$deps/nccl-obj-$nccl_version
	what="$nccl_recipe $nccl_src $cuda_include $number"
	if [ ! -e "$nccl_obj/made" ] || [ "$(<"$nccl_obj/made")" != "$what" ]; then
		say "compiling the host code of NCCL $nccl_version: some minutes"
		rm -rf "$nccl_obj"
		mkdir -p "$nccl_obj"
		nccl_kernels >"$log" 2>&1 || die_log "NCCL's generators"
		echo "$what" >"$nccl_obj/made" # if it is interrupted, make goes on
	fi
	nice make -j"$(nproc)" -C "$nccl_src/src" -f "$root/tests/nccl/objects.mk" BUILDDIR="$nccl_obj" CUDARTLIB=cudart \
		CUDA_INC="$cuda_include" CUDA_MAJOR=$((number / 1000)) CUDA_MINOR=$((number % 1000 / 10)) >"$log" 2>&1 ||
		die_log "the build of NCCL's host code"
}

nccl() {
	nccl_source
	cuda_headers
	nccl_objects
	echo "$nccl_version $nccl_src $cuda_include" >"$deps/nccl"
	say "NCCL $nccl_version from $nccl_src, headers of CUDA in $cuda_include"
}
