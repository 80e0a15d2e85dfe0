// Operations on numbers one by one.
#include "columns.h"
#include "functions.h"

constexpr u32 THREADS = 256;

// y = f(x).
KERNEL(THREADS) void function(const float* x, float* y, u32 count, u32 function) {
    u32 i = group_x() * THREADS + thread();
    if (i < count) y[i] = apply(function, x[i]);
}

// y = f(gate) * up.
KERNEL(THREADS) void gated(const float* gate, const float* up, float* y, u32 count, u32 function) {
    u32 i = group_x() * THREADS + thread();
    if (i < count) y[i] = apply(function, gate[i]) * up[i];
}

// The same for rows of `inner` gates, then `inner` numbers that they gate, rounded to columns; y only with `kept`. inner is a multiple of 32.
KERNEL(THREADS) void gated_rows(const float* x, float* y, u32* codes, Step* steps, u32 inner, u32 count, u32 function, float limit, float offset, u32 kept) {
    u32 i = (group_x() * THREADS + thread()) * 4;
    if (i >= count) return;
    const float* gate = x + (u64)(i / inner) * 2 * inner + i % inner;
    f32x4 out;
    for (u32 j = 0; j < 4; j++) {
        out[j] = gated_by(function, limit, offset, gate[j], gate[inner + j]);
        if (kept) y[i + j] = out[j];
    }
    round_block(out, i / 32, codes, steps);
}

// y = a + b, or a * b; each number of a narrower b serves a run of a.
enum : u32 { ADD, MULTIPLY };
KERNEL(THREADS) void binary(const float* a, const float* b, float* y, u32 count, u32 a_width, u32 b_width, u32 what) {
    u32 i = group_x() * THREADS + thread();
    if (i >= count) return;
    u32 row = i / a_width, column = i % a_width;
    float other = b[row * b_width + column / (a_width / b_width)];
    y[i] = what == ADD ? a[i] + other : a[i] * other;
}

// y = scale * x.
KERNEL(THREADS) void scale(const float* x, float* y, u32 count, float factor) {
    u32 i = group_x() * THREADS + thread();
    if (i < count) y[i] = x[i] * factor;
}

// Rows of x, `width` numbers each, by their numbers: the tokens whose logits are wanted.
KERNEL(THREADS) void rows(const float* x, const u32* numbers, float* y, u32 width) {
    u64 from = (u64)numbers[group_x()] * width, to = (u64)group_x() * width;
    for (u32 i = thread(); i < width; i += THREADS) y[to + i] = x[from + i];
}

// The number of the largest of each row, the first of several.
KERNEL(THREADS) void largest(const float* x, u32* out, u32 width) {
    SHARED float values[THREADS / WAVE];
    SHARED u32 places[THREADS / WAVE];
    const float* row = x + (u64)group_x() * width;
    float best = -__builtin_inff();
    u32 place = 0xffffffff;
    for (u32 i = thread(); i < width; i += THREADS)
        if (row[i] > best || place == 0xffffffff) { best = row[i]; place = i; }
    float most = largest_over(best);
    // Of the lanes that have it the lowest place.
    u32 mine = lowest_over(best == most ? place : 0xffffffff);
    if (lane() == 0) { values[wave()] = most; places[wave()] = mine; }
    barrier();
    if (thread() == 0) {
        for (u32 w = 1; w < THREADS / WAVE; w++)
            if (values[w] > most || (values[w] == most && places[w] < mine)) { most = values[w]; mine = places[w]; }
        out[group_x()] = mine;
    }
}
