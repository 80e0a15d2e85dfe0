// Numbers brought to other places of their rows, and functions of them that need more than the number itself.
#include "functions.h"

constexpr u32 THREADS = 256;

DEVICE u32 index() { return group_x() * THREADS + thread(); }

// Copies `length` numbers of each run: run r of x begins at r * x_stride + x_start, that of y at r * y_stride + y_start.
KERNEL(THREADS) void runs(const float* x, float* y, u32 count, u32 length, u32 x_stride, u32 x_start, u32 y_stride, u32 y_start) {
    u32 i = index();
    if (i >= count) return;
    u64 r = i / length, at = i % length;
    y[r * y_stride + y_start + at] = x[r * x_stride + x_start + at];
}

// Each row is `rows` times `columns` runs of `length` numbers; run (r, c) becomes run (c, r).
KERNEL(THREADS) void transposed(const float* x, float* y, u32 count, u32 length, u32 rows, u32 columns) {
    u32 i = index();
    if (i >= count) return;
    u32 run = i / length, place = run % (rows * columns), from = place % rows * columns + place / rows;
    y[i] = x[(u64)(run - place + from) * length + i % length];
}

// y[g][i] = sum over c of x[g][c][i], in order; x is [.., terms, length].
KERNEL(THREADS) void sums(const float* x, float* y, u32 count, u32 length, u32 terms) {
    u32 i = index();
    if (i >= count) return;
    const float* from = x + (u64)(i / length) * terms * length + i % length;
    float sum = 0;
    for (u32 c = 0; c < terms; c++) sum += from[(u64)c * length];
    y[i] = sum;
}

// Not below `low` and not above `high`.
KERNEL(THREADS) void clamped(const float* x, float* y, u32 count, float low, float high) {
    u32 i = index();
    if (i < count) y[i] = __builtin_fminf(__builtin_fmaxf(x[i], low), high);
}

// x + w or x * w with a weight of `length` numbers, each of which serves a run of the row.
enum : u32 { ADD, MULTIPLY };
KERNEL(THREADS) void weighted(const float* x, const float* w, float* y, u32 count, u32 width, u32 length, u32 what) {
    u32 i = index();
    if (i >= count) return;
    float other = w[i % width / (width / length)];
    y[i] = what == ADD ? x[i] + other : x[i] * other;
}

// Each row times a number of its own.
KERNEL(THREADS) void by_row(const float* x, const float* factors, float* y, u32 count, u32 width) {
    u32 i = index();
    if (i < count) y[i] = x[i] * factors[i / width];
}

// xIELU (Huang and Schlag 2024, arXiv:2411.13010).
KERNEL(THREADS) void xielu(const float* x, float* y, u32 count, float above, float below, float beta, float most) {
    u32 i = index();
    if (i >= count) return;
    float v = x[i];
    y[i] = v > 0 ? above * v * v + beta * v : below * (exponential_less_one(__builtin_fminf(v, most)) - v) + beta * v;
}

// Each row rounded to whole multiples of its largest magnitude / 127. A workgroup has a row.
KERNEL(THREADS) void rounded_rows(const float* x, float* y, u32 width) {
    SHARED float parts[THREADS / WAVE];
    u64 row = (u64)group_x() * width;
    float largest = 1e-5f;
    for (u32 i = thread(); i < width; i += THREADS) largest = __builtin_fmaxf(largest, __builtin_fabsf(x[row + i]));
    largest = largest_over(largest);
    if (lane() == 0) parts[wave()] = largest;
    barrier();
    for (u32 w = 0; w < THREADS / WAVE; w++) largest = __builtin_fmaxf(largest, parts[w]);
    float scale = 127.0f / largest;
    for (u32 i = thread(); i < width; i += THREADS) y[row + i] = __builtin_rintf(x[row + i] * scale) / scale;
}

// f(gate) gates up, each in its own rows (`Gating` in crates/plan); y may be gate.
KERNEL(THREADS) void gated_apart(const float* gate, const float* up, float* y, u32 count, u32 function, float limit, float offset) {
    u32 i = index();
    if (i < count) y[i] = gated_by(function, limit, offset, gate[i], up[i]);
}
