#!/usr/bin/env python3
"""`1bit imatrix` against what llama.cpp multiplies matrices with, on the same file and text; and the file as llama-quantize reads it."""

import ctypes
import json
import os
import pathlib
import pydoc_data.topics
import sys
import tempfile

import common

WINDOW, WINDOWS = 64, 3


class Tensor(ctypes.Structure):
    """`ggml_tensor`."""

    _fields_ = [
        ("type", ctypes.c_int),
        ("buffer", ctypes.c_void_p),
        ("ne", ctypes.c_int64 * 4),
        ("nb", ctypes.c_size_t * 4),
        ("op", ctypes.c_int),
        ("op_params", ctypes.c_int32 * 16),
        ("flags", ctypes.c_int32),
        ("src", ctypes.c_void_p * 10),
        ("view_src", ctypes.c_void_p),
        ("view_offs", ctypes.c_size_t),
        ("data", ctypes.c_void_p),
        ("name", ctypes.c_char * 64),
    ]


def theirs(file, text):
    """{weight: (sums of squares of its inputs, rows)}, read by a callback for each op of the graph, as llama-imatrix does."""
    import numpy as np

    import llama_cpp

    found = {}

    @ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.POINTER(Tensor), ctypes.c_bool, ctypes.c_void_p)
    def see(pointer, asked, _):
        op = pointer.contents
        weight, x = (ctypes.cast(p, ctypes.POINTER(Tensor)) for p in op.src[:2])
        if not weight or not x or not weight.contents.name.startswith(b"blk.") or lib.ggml_op_name(op.op) != b"MUL_MAT":
            return not asked
        if not asked:
            rows, columns = x.contents.ne[1], x.contents.ne[0]
            values = np.ctypeslib.as_array(ctypes.cast(x.contents.data, ctypes.POINTER(ctypes.c_float)), (rows, columns))
            sums, count = found.get(weight.contents.name.decode(), (0.0, 0))
            found[weight.contents.name.decode()] = (sums + (values.astype(np.float64) ** 2).sum(0), count + rows)
        return True

    class Watched(llama_cpp.Model):
        def parameters(self):
            """The callback and its data are two null pointers, after which come the types of keys and values, both F16."""
            params = super().parameters()
            words = params.words
            places = [i for i in range(0, 60, 2) if words[i : i + 4] == [0] * 4 and words[i + 4 : i + 6] == [1, 1]]
            if not places:
                common.skip("this llama.cpp has its callback elsewhere")
            address = ctypes.cast(see, ctypes.c_void_p).value
            words[places[0]], words[places[0] + 1] = address & 0xFFFFFFFF, address >> 32
            return params

    model = Watched(file, WINDOW)
    lib = model.lib
    lib.ggml_op_name.restype, lib.ggml_op_name.argtypes = ctypes.c_char_p, [ctypes.c_int]
    ids, begins = model.tokenize(text), model.tokenize("")
    for w in range(WINDOWS):
        window = ids[w * WINDOW : (w + 1) * WINDOW]
        if begins:
            window[0] = begins[0]
        model.logits(window)
    return found


def main():
    args = common.arguments(__doc__)
    try:
        import gguf
        import numpy as np
        import xllamacpp  # noqa: F401
    except ImportError as e:
        common.skip(f"{e.name} cannot be imported")
    code, _, said = common.run(args.binary, "pull", "smollm2", timeout=900)
    if code:
        common.skip(f"smollm2 cannot be fetched: {said}")
    path = json.loads(common.run(args.binary, "show", "smollm2", "--json")[1])["path"]
    tally = common.Tally()
    # English prose that every CPython has.
    text = "\n".join(pydoc_data.topics.topics[k] for k in sorted(pydoc_data.topics.topics))[:4000]
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        file, exact, made = folder / "text.txt", folder / "exact.gguf", folder / "importance.gguf"
        file.write_text(text)
        code, _, said = common.run(args.binary, "quantize", path, exact, "F32", timeout=900)
        tally.check("decoded to F32", code == 0, said)
        code, _, said = common.run(args.binary, "imatrix", exact, file, "-o", made, "-c", WINDOW, "--windows", WINDOWS, "--exact", timeout=900)
        if tally.check("importance is measured", code == 0, said):
            read = gguf.GGUFReader(made)
            # llama-quantize reads both as u32, and stops at anything else.
            for key, value in (("imatrix.chunk_count", WINDOWS), ("imatrix.chunk_size", WINDOW)):
                field = read.fields[key]
                tally.check(key, field.types == [gguf.GGUFValueType.UINT32] and field.contents() == value, f"{field.types} {field.contents()}")
            tally.check("text", read.fields["imatrix.datasets"].contents() == [str(file)], read.fields["imatrix.datasets"].contents())
            tally.check("type", read.fields["general.type"].contents() == "imatrix")
            ours = {t.name: t for t in read.tensors}
            want = theirs(exact, text)
            names = {f"{n}.{part}" for n in want for part in ("in_sum2", "counts")}
            tally.check("the same tensors", names == set(ours), f"{sorted(names ^ set(ours))[:4]}")
            worst = 0.0
            for name in sorted(set(want) & {n.removesuffix(".in_sum2") for n in ours}):
                (squares, count), sums, counts = want[name], ours[f"{name}.in_sum2"], ours[f"{name}.counts"]
                shapes = (list(sums.shape), list(counts.shape))
                tally.check(f"shapes of {name}", shapes == ([len(squares), 1], [1, 1]), shapes)
                tally.check(f"rows of {name}", counts.data.item() == count, f"{counts.data} {count}")
                off = np.abs(sums.data.reshape(-1) - squares).max() / squares.max()
                worst = max(worst, off)
                # Attention is computed in f16 there.
                tally.check(f"sums of {name}", off < 0.003, off)
            print(f"{len(want)} tensors, largest difference {worst:.2e} of a tensor's largest sum")
    print(f"{tally.passed} passed, {tally.failed} failed")
    sys.stdout.flush()
    os._exit(1 if tally.failed else 0)  # llama.cpp's own end can hang


if __name__ == "__main__":
    main()
