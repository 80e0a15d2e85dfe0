#!/bin/sh
# Builds the code objects of the tests into $1 (Debian: apt-get install clang-19 lld-19).
set -e
cd "$(dirname "$0")"
out="${1:?usage: build.sh DIRECTORY}"
common="-mcode-object-version=5"
hip="clang-19 -x hip --offload-device-only --no-gpu-bundle-output --offload-arch=gfx1151 -nogpulib -nogpuinc -mcumode -fuse-cuid=none -ffp-contract=off $common"
assembler="clang-19 -target amdgcn-amd-amdhsa -mcpu=gfx1151 $common"
for source in harness memory; do
    $assembler "$source.s" -o "$out/$source.co"
done
$hip -O3 both.cpp -o "$out/both.co"
$hip -O0 both.cpp -o "$out/both_O0.co"
for kernel in matvec faults wmma; do
    $hip -O3 "$kernel.hip.cpp" -o "$out/$kernel.co"
done
