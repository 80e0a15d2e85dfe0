#!/bin/sh
# Builds the code objects into $1 (Debian: apt-get install clang-19 lld-19). Which sources there are stands here and nowhere else.
# `build.sh --ptx DIRECTORY` makes PTX for sm_90 of the same sources instead: for development, never shipped.
set -e
common="--offload-device-only -std=c++17 -O3 -ffp-contract=off -fno-math-errno -Wall -Wno-unused-function -Wno-unused-private-field -I."
flags="-x hip --no-gpu-bundle-output --offload-arch=gfx1151 -nogpulib -nogpuinc -mcumode -mcode-object-version=5 -fuse-cuid=none"
end=co
if [ "$1" = --ptx ]; then
    flags="-x cuda -S --offload-arch=sm_90 -nocudainc -nocudalib --cuda-feature=+ptx80 -Wno-pass-failed"
    end=ptx
    shift
fi
out="$(cd "${1:?usage: build.sh [--ptx] DIRECTORY}" && pwd)"
cd "$(dirname "$0")"
for header in weights/*.h; do
    name="$(basename "$header" .h)"
    case "$name" in unit | grid_*) continue ;; esac
    clang-19 $flags $common "-DWEIGHT=\"$header\"" linear.hip.cpp -o "$out/linear_$name.$end"
done
for source in *.hip.cpp; do
    name="$(basename "$source" .hip.cpp)"
    case "$name" in linear) continue ;; esac
    clang-19 $flags $common "$source" -o "$out/$name.$end"
done
