// Q4_0 matrix times a vector of int8 blocks: y[row] = sum over blocks of dw (dx dot(w, x) - 8 dx sum(x)).
// Weights in planes: for each row its codes (16 bytes a block: values 0..15 in low nibbles, 16..31 in high ones), then its scales.
#include "target.h"

typedef u32 u32x4 __attribute__((ext_vector_type(4)));

// One wave a row: a lane takes every 32nd block. `x_scales` has scale and scale times sum for each block.
KERNEL void matvec_q4_0(const u32x4* codes, const f16* scales, const u32x4* x, const float* x_scales, float* y, u32 blocks) {
    u32 row = group() * (__builtin_amdgcn_workgroup_size_x() / 32) + lane() / 32;
    u32 l = lane() % 32;
    const u32x4* w = codes + (u64)row * blocks;
    const f16* d = scales + (u64)row * blocks;
    float sum = 0;
    for (u32 b = l; b < blocks; b += 32) {
        u32x4 q = w[b];
        u32x4 low = x[2 * b], high = x[2 * b + 1];
        i32 dot = 0;
        for (int i = 0; i < 4; i++) {
            dot = __builtin_amdgcn_sudot4(false, q[i] & 0x0f0f0f0f, true, low[i], dot, false);
            dot = __builtin_amdgcn_sudot4(false, q[i] >> 4 & 0x0f0f0f0f, true, high[i], dot, false);
        }
        sum += (float)d[b] * (x_scales[2 * b] * (float)dot - 8 * x_scales[2 * b + 1]);
    }
    for (int step = 16; step > 0; step >>= 1) {
        sum += __builtin_bit_cast(float, __builtin_amdgcn_ds_bpermute((l ^ step) << 2, __builtin_bit_cast(i32, sum)));
    }
    if (l == 0) y[row] = sum;
}
