// Normalisation of runs of numbers, and rounding to columns (columns.h).
#include "columns.h"

constexpr u32 THREADS = 256, WAVES = THREADS / WAVE;

// What a norm does.
constexpr u32 WEIGHTED = 1;  // times `weight`
constexpr u32 OWN = 2;       // each run of a row has its own weights
constexpr u32 ROUNDED = 4;   // the result goes to `codes` and `steps` as well; runs are multiples of 32
constexpr u32 CENTRED = 8;   // the mean is taken off first, and `bias` added with BIASED: a layer norm
constexpr u32 BIASED = 16;

// The sum over a workgroup, in every thread.
DEVICE float sum_of_group(float x, float* parts) {
    x = sum_over(x);
    barrier();
    if (lane() == 0) parts[wave()] = x;
    barrier();
    float sum = 0;
    for (u32 w = 0; w < WAVES; w++) sum += parts[w];
    return sum;
}

// y = x / sqrt(mean(x^2) + eps) * weight over each run of `width` numbers; a workgroup has a run, runs_per_row of them a row.
KERNEL(THREADS) void norm(const float* x, const float* weight, const float* bias, float* y, u32* codes, Step* steps, u32 width, u32 runs_per_row, float eps, u32 flags) {
    SHARED float parts[WAVES];
    u64 run = group_x();
    const float* from = x + run * width;
    u32 own = flags & OWN ? (u32)(run % runs_per_row) * width : 0;
    float mean = 0, squares = 0;
    if (flags & CENTRED) {
        for (u32 i = thread(); i < width; i += THREADS) mean += from[i];
        mean = sum_of_group(mean, parts) / (float)width;
    }
    for (u32 i = thread(); i < width; i += THREADS) squares = __builtin_fmaf(from[i] - mean, from[i] - mean, squares);
    float scale = 1.0f / __builtin_sqrtf(sum_of_group(squares, parts) / (float)width + eps);
    // Four numbers a thread; eight threads have a block.
    for (u32 i = thread() * 4; i < rounded_up(width, 4); i += THREADS * 4) {
        f32x4 out = {};
        for (u32 j = 0; j < 4; j++) {
            if (i + j >= width) continue;
            float v = (from[i + j] - mean) * scale;
            if (flags & WEIGHTED) v *= weight[own + i + j];
            if (flags & BIASED) v += bias[own + i + j];
            out[j] = v;
            y[run * width + i + j] = v;
        }
        if (flags & ROUNDED) round_block(out, (run * width + i) / 32, codes, steps);
    }
}

// Rounds `count` numbers, a multiple of 32.
KERNEL(THREADS) void round_columns(const float* x, u32* codes, Step* steps, u32 count) {
    u32 i = (group_x() * THREADS + thread()) * 4;
    if (i < count) round_block(((const f32x4*)x)[i / 4], i / 32, codes, steps);
}
