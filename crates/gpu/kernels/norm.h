// Norms of a run of numbers by a workgroup, and rounding to columns (columns.h) in the same pass.
#pragma once
#include "columns.h"

// What a norm does.
constexpr u32 WEIGHTED = 1;  // times `weight`
constexpr u32 OWN = 2;       // each run of a row has its own weights
constexpr u32 ROUNDED = 4;   // the result goes to `codes` and `steps` as well; runs are multiples of 32
constexpr u32 CENTRED = 8;   // the mean is taken off first, and `bias` added with BIASED: a layer norm
constexpr u32 BIASED = 16;
constexpr u32 LENGTH = 32;   // divided by the square root of the sum of squares, not of their mean: an L2 norm
constexpr u32 ONLY_ROUNDED = 64; // the result goes to `codes` and `steps` alone

// The sum over a workgroup, in every thread.
template <u32 threads> DEVICE float sum_of_group(float x, float* parts) {
    x = sum_over(x);
    barrier();
    if (lane() == 0) parts[wave()] = x;
    barrier();
    float sum = 0;
    for (u32 w = 0; w < threads / WAVE; w++) sum += parts[w];
    return sum;
}

// y = x / sqrt(mean(x^2) + eps) * weight over the `run`th run of `width` numbers, of runs_per_row in a row.
template <u32 threads>
DEVICE void normalise(const float* x, const float* weight, const float* bias, float* y, u32* codes, Step* steps, u64 run, u32 width, u32 runs_per_row, float eps, u32 flags, float* parts) {
    const float* from = x + run * width;
    u32 own = flags & OWN ? (u32)(run % runs_per_row) * width : 0;
    float mean = 0, squares = 0;
    if (flags & CENTRED) {
        for (u32 i = thread(); i < width; i += threads) mean += from[i];
        mean = sum_of_group<threads>(mean, parts) / (float)width;
    }
    for (u32 i = thread(); i < width; i += threads) squares = __builtin_fmaf(from[i] - mean, from[i] - mean, squares);
    float sum = sum_of_group<threads>(squares, parts);
    float scale = 1.0f / __builtin_sqrtf((flags & LENGTH ? sum : sum / (float)width) + eps);
    // Four numbers a thread; eight threads have a block.
    for (u32 i = thread() * 4; i < rounded_up(width, 4); i += threads * 4) {
        f32x4 out = {};
        for (u32 j = 0; j < 4; j++) {
            if (i + j >= width) continue;
            float v = (from[i + j] - mean) * scale;
            if (flags & WEIGHTED) v *= weight[own + i + j];
            if (flags & BIASED) v += bias[own + i + j];
            out[j] = v;
            if (!(flags & ONLY_ROUNDED)) y[run * width + i + j] = v;
        }
        if (flags & (ROUNDED | ONLY_ROUNDED)) round_block(out, (run * width + i) / 32, codes, steps);
    }
}
