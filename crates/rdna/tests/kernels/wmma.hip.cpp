// Matrix products with each lane's operands taken from memory as they lie in registers, and a workgroup's sum through LDS.
#include "target.h"

typedef f16 half16 __attribute__((ext_vector_type(16)));
typedef short short16 __attribute__((ext_vector_type(16)));
typedef float float8 __attribute__((ext_vector_type(8)));
typedef i32 int8v __attribute__((ext_vector_type(8)));
typedef i32 int4v __attribute__((ext_vector_type(4)));
typedef i32 int2v __attribute__((ext_vector_type(2)));

KERNEL void wmma_f32_f16(const half16* a, const half16* b, const float8* c, float8* d) {
    d[lane()] = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(a[lane()], b[lane()], c[lane()]);
}
KERNEL void wmma_f32_bf16(const short16* a, const short16* b, const float8* c, float8* d) {
    d[lane()] = __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(a[lane()], b[lane()], c[lane()]);
}
KERNEL void wmma_f16_f16(const half16* a, const half16* b, const half16* c, half16* d, u32 high) {
    d[lane()] = high ? __builtin_amdgcn_wmma_f16_16x16x16_f16_w32(a[lane()], b[lane()], c[lane()], true)
                     : __builtin_amdgcn_wmma_f16_16x16x16_f16_w32(a[lane()], b[lane()], c[lane()], false);
}
KERNEL void wmma_bf16_bf16(const short16* a, const short16* b, const short16* c, short16* d, u32 high) {
    d[lane()] = high ? __builtin_amdgcn_wmma_bf16_16x16x16_bf16_w32(a[lane()], b[lane()], c[lane()], true)
                     : __builtin_amdgcn_wmma_bf16_16x16x16_bf16_w32(a[lane()], b[lane()], c[lane()], false);
}
// Signs of A and B, and the clamp.
#define SIGNS(K, a, b, c, d) \
    switch (which) { \
        case 0: d = K(false, a, false, b, c, false); break; \
        case 1: d = K(true, a, false, b, c, false); break; \
        case 2: d = K(false, a, true, b, c, false); break; \
        case 3: d = K(true, a, true, b, c, false); break; \
        default: d = K(true, a, true, b, c, true); break; \
    }
KERNEL void wmma_i32_iu8(const int4v* a, const int4v* b, const int8v* c, int8v* d, u32 which) {
    SIGNS(__builtin_amdgcn_wmma_i32_16x16x16_iu8_w32, a[lane()], b[lane()], c[lane()], d[lane()])
}
KERNEL void wmma_i32_iu4(const int2v* a, const int2v* b, const int8v* c, int8v* d, u32 which) {
    SIGNS(__builtin_amdgcn_wmma_i32_16x16x16_iu4_w32, a[lane()], b[lane()], c[lane()], d[lane()])
}
// The sum over a workgroup of up to 256, in a tree.
KERNEL void tree_sum(const u32* in, u32* out) {
    static SHARED u32 parts[256];
    parts[lane()] = in[item()];
    for (u32 step = __builtin_amdgcn_workgroup_size_x() / 2; step > 0; step /= 2) {
        barrier();
        if (lane() < step) parts[lane()] += parts[lane() + step];
    }
    if (lane() == 0) out[group()] = parts[0];
}
