#!/bin/sh
# Builds the code objects into $1 (Debian: apt-get install clang-19 lld-19). Which sources there are stands here and nowhere else.
set -e
out="$(cd "${1:?usage: build.sh DIRECTORY}" && pwd)"
cd "$(dirname "$0")"
flags="-x hip --offload-device-only --no-gpu-bundle-output --offload-arch=gfx1151 -nogpulib -nogpuinc -std=c++17 -O3 -mcumode
    -mcode-object-version=5 -fuse-cuid=none -ffp-contract=off -fno-math-errno -Wall -Wno-unused-function -Wno-unused-private-field -I."
for header in weights/*.h; do
    name="$(basename "$header" .h)"
    case "$name" in unit | grid_*) continue ;; esac
    clang-19 $flags "-DWEIGHT=\"$header\"" linear.hip.cpp -o "$out/linear_$name.co"
done
for source in *.hip.cpp; do
    name="$(basename "$source" .hip.cpp)"
    case "$name" in linear) continue ;; esac
    clang-19 $flags "$source" -o "$out/$name.co"
done
