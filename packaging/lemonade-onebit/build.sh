#!/usr/bin/env bash
# Makes lemonade-onebit_VERSION_ARCHITECTURE.deb: 1bit as Lemonade's llama-server.
#
#   packaging/lemonade-onebit/build.sh [BINARY] [FOLDER]
#
# BINARY is target/release/1bit where it is not given, FOLDER (for the package) the current one. Needs dpkg-deb. The same binary gives
# the same package, byte by byte.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
root="$(cd "$here/../.." && pwd)"
binary="${1:-$root/target/release/1bit}" out="${2:-$PWD}"
[ -x "$binary" ] || { echo "$binary: no such program; build it with cargo build --release" >&2; exit 2; }
version="$("$binary" --version | awk '{ print $2 }')"
architecture="$(dpkg --print-architecture)"

tree="$(mktemp -d)"
chmod 755 "$tree"
trap 'rm -rf "$tree"' EXIT
install -D -m 755 "$binary" "$tree/usr/lib/1bit/1bit"
ln -s 1bit "$tree/usr/lib/1bit/llama-server"
install -d "$tree/usr/bin"
ln -s ../lib/1bit/1bit "$tree/usr/bin/1bit"
# Lemonade's service, under its present and its former name.
for service in lemond lemonade-server; do
    install -D -m 644 "$here/onebit.conf" "$tree/usr/lib/systemd/system/$service.service.d/onebit.conf"
done
install -D -m 644 "$root/LICENSE" "$tree/usr/share/doc/lemonade-onebit/copyright"
install -D -m 644 "$root/docs/lemonade.md" "$tree/usr/share/doc/lemonade-onebit/README.md"
install -d "$tree/DEBIAN"
sed -e "s/@VERSION@/$version/" -e "s/@ARCHITECTURE@/$architecture/" -e "s/@SIZE@/$(du -sk "$tree/usr" | cut -f1)/" "$here/control.in" > "$tree/DEBIAN/control"
for script in postinst postrm; do
    install -m 755 "$here/services.sh" "$tree/DEBIAN/$script"
done
export SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-$(git -C "$root" log -1 --format=%ct 2>/dev/null || echo 0)}"
find "$tree" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
dpkg-deb --root-owner-group --build "$tree" "$out/lemonade-onebit_${version}_$architecture.deb"
