// Normalisation of runs of numbers, with what stands before and after it, and rounding to columns (columns.h).
#include "norm.h"

constexpr u32 THREADS = 256, WAVES = THREADS / WAVE;

// A workgroup has a run, runs_per_row of them a row.
KERNEL(THREADS) void norm(const float* x, const float* weight, const float* bias, float* y, u32* codes, Step* steps, u32 width, u32 runs_per_row, float eps, u32 flags) {
    SHARED float parts[WAVES];
    normalise<THREADS>(x, weight, bias, y, codes, steps, group_x(), width, runs_per_row, eps, flags, parts);
}

// sum = x + factor * branch, which is normalised first with BRANCH; then y, codes and steps are a norm of the sum. `sum` may be x.
constexpr u32 BRANCH = 128;
KERNEL(THREADS) void add_norm(const float* x, const float* branch, const float* branch_weight, const float* weight, const float* bias, float* sum, float* y, u32* codes, Step* steps, u32 width, float factor, float eps, u32 flags) {
    SHARED float parts[WAVES];
    u64 row = (u64)group_x() * width;
    float squares = 0;
    if (flags & BRANCH) {
        for (u32 i = thread(); i < width; i += THREADS) squares = __builtin_fmaf(branch[row + i], branch[row + i], squares);
        squares = 1.0f / __builtin_sqrtf(sum_of_group<THREADS>(squares, parts) / (float)width + eps);
    }
    for (u32 i = thread(); i < width; i += THREADS) {
        float b = branch[row + i];
        if (flags & BRANCH) b = b * squares * branch_weight[i];
        sum[row + i] = __builtin_fmaf(factor, b, x[row + i]);
    }
    // What a thread wrote, others of its workgroup read.
    group_fence();
    normalise<THREADS>(sum, weight, bias, y, codes, steps, group_x(), width, 1, eps, flags, parts);
}

// Rounds `count` numbers, a multiple of 32.
KERNEL(THREADS) void round_columns(const float* x, u32* codes, Step* steps, u32 count) {
    u32 i = (group_x() * THREADS + thread()) * 4;
    if (i < count) round_block(((const f32x4*)x)[i / 4], i / 32, codes, steps);
}

// H x over each run of `block` numbers of a row in LDS, H being Sylvester's Hadamard matrix, by sums and differences of pairs.
DEVICE void mix(float* numbers, u32 width, u32 block) {
    for (u32 step = 1; step < block; step *= 2) {
        for (u32 i = thread(); i < width / 2; i += THREADS) {
            u32 a = i / step * step * 2 + i % step;
            float p = numbers[a], q = numbers[a + step];
            numbers[a] = p + q;
            numbers[a + step] = p - q;
        }
        barrier();
    }
}

// A part of a row, the blocks of `block` numbers that PART holds, turned by R or its inverse (crates/plan/src/rotation.rs) and rounded:
// y, codes and steps as the flags of norms say. `signs` are as many as the row is wide, `block` is PART at most.
constexpr u32 PART = 4096, SIGNED_ROWS = 1, INVERSE = 2;
KERNEL(THREADS) void rotate(const float* x, const float* signs, float* y, u32* codes, Step* steps, u32 width, u32 block, float factor, u32 how, u32 flags) {
    SHARED float numbers[PART];
    u32 whole = PART / block * block;
    u32 start = group_y() * whole, count = smaller(whole, width - start);
    u64 row = (u64)group_x() * width + start;
    for (u32 i = thread(); i < count; i += THREADS) {
        float v = x[row + i];
        if (how == SIGNED_ROWS) v *= signs[start + i];
        numbers[i] = v;
    }
    barrier();
    mix(numbers, count, block);
    for (u32 i = thread() * 4; i < count; i += THREADS * 4) {
        f32x4 out;
        for (u32 j = 0; j < 4; j++) {
            out[j] = numbers[i + j] * factor;
            if (how == (SIGNED_ROWS | INVERSE)) out[j] *= signs[start + i + j];
            if (!(flags & ONLY_ROUNDED)) y[row + i + j] = out[j];
        }
        if (flags & (ROUNDED | ONLY_ROUNDED)) round_block(out, (row + i) / 32, codes, steps);
    }
}
