#!/usr/bin/env python3
"""Writes references.txt: the errors of llama.cpp's own encoders on the matrices of ../quality.rs.

    pip install libgguf numpy
    make_references.py > references.txt

A line holds: matrix, type, error, error weighted by the importances when those are given to the encoder; "-" where
llama.cpp refuses. Errors are roots of mean squares.
"""
import libgguf, numpy as np

ROWS, COLUMNS = 32, 1024

def splitmix(seed, n):
    with np.errstate(over="ignore"):
        z = np.uint64(seed) + np.uint64(0x9E3779B97F4A7C15) * np.arange(1, n + 1, dtype=np.uint64)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return (z ^ (z >> np.uint64(31))) >> np.uint64(40)

def normal(seed, n):                                # sums of 12 uniform numbers
    return splitmix(seed, 12 * n).reshape(n, 12).sum(1).astype(np.float64) / 2**24 - 6

def matrices():
    n, column = ROWS * COLUMNS, np.arange(ROWS * COLUMNS) % COLUMNS
    yield "normal", normal(7, n) * 0.02
    g = normal(8, n)
    yield "heavy", g * np.abs(g) * 0.02
    yield "shifted", normal(9, n) * 0.02 + 0.03
    yield "outliers", normal(10, n) * np.where(column % 64 == 5, 0.4, 0.02)
    yield "ternary", np.round(normal(11, n)).clip(-1, 1) * 0.0625

def main():
    u = splitmix(12, COLUMNS).astype(np.float64) / 2**24
    importance = (u * u * u + 0.01).astype(np.float32)
    for label, matrix in matrices():
        x = matrix.astype(np.float32).reshape(ROWS, COLUMNS)
        for name, code in libgguf.GGMLQuantizationType.__members__.items():
            if libgguf.type_size(code) < 16 or name.startswith(("Q8_1", "Q8_K")): continue
            errors = []
            for w in (None, importance):
                try:
                    if w is None and libgguf.quantize_requires_imatrix(code): raise ValueError
                    q = libgguf.quantize_rows(x, code, imatrix=w) if w is not None else libgguf.quantize_rows(x, code)
                    e = (libgguf.dequantize_rows(q, code).astype(np.float64) - x) ** 2
                    w = np.ones(COLUMNS) if w is None else w.astype(np.float64)
                    errors.append(f"{np.sqrt((e * w).sum() / (ROWS * w.sum())):.8e}")
                except Exception: errors.append("-")
            if errors != ["-", "-"]: print(label, name, *errors)

if __name__ == "__main__": main()
