// What hides the target: types, lane numbers, exchange between lanes, integer dot products, barriers.
#pragma once

#define DEVICE static inline __attribute__((device, always_inline))
// `threads` is the size of every workgroup that the kernel is launched with.
#define KERNEL(threads) extern "C" __attribute__((global, amdgpu_flat_work_group_size(threads, threads)))
#define SHARED static __attribute__((shared))
#define TABLE static __attribute__((device, used)) const

typedef signed char i8;
typedef unsigned char u8;
typedef unsigned short u16;
typedef short i16;
typedef unsigned u32;
typedef int i32;
typedef unsigned long u64;
typedef _Float16 f16;
typedef u32 u32x2 __attribute__((ext_vector_type(2)));
typedef u32 u32x4 __attribute__((ext_vector_type(4)));
typedef float f32x2 __attribute__((ext_vector_type(2)));
typedef float f32x4 __attribute__((ext_vector_type(4)));
typedef float f32x8 __attribute__((ext_vector_type(8)));
typedef i32 i32x4 __attribute__((ext_vector_type(4)));
typedef i32 i32x8 __attribute__((ext_vector_type(8)));
typedef f16 f16x8 __attribute__((ext_vector_type(8)));

// Lanes of a wave.
constexpr u32 WAVE = 32;

DEVICE u32 thread() { return __builtin_amdgcn_workitem_id_x(); }
DEVICE u32 lane() { return thread() % WAVE; }
// The wave's number in its workgroup, known to be the same in all lanes.
DEVICE u32 wave() { return __builtin_amdgcn_readfirstlane(thread() / WAVE); }
DEVICE u32 group_x() { return __builtin_amdgcn_workgroup_id_x(); }
DEVICE u32 group_y() { return __builtin_amdgcn_workgroup_id_y(); }
DEVICE u32 group_z() { return __builtin_amdgcn_workgroup_id_z(); }

DEVICE void barrier() {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup", "local");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup", "local");
}

template <class To, class From> DEVICE To bits_as(From x) { return __builtin_bit_cast(To, x); }

// The value of the lane whose number differs in the bits of `mask`.
template <u32 mask> DEVICE float exchanged(float x) {
    i32 v = bits_as<i32>(x);
    if (mask == 16) {
        i32 other = __builtin_amdgcn_permlanex16(v, v, 0x76543210, 0xfedcba98, true, false);
        // LLVM 19 moves this instruction past a branch on the lane, into code where the lane that it reads is not computed.
        asm volatile("" : "+v"(other));
        return bits_as<float>(other);
    }
    return bits_as<float>(__builtin_amdgcn_update_dpp(0, v, 0x160 | (mask & 15), 15, 15, true));
}

// Sum and largest over groups of `lanes` lanes, in every lane of the group.
template <u32 lanes = WAVE> DEVICE float sum_over(float x) {
    if (lanes > 1) x += exchanged<1>(x);
    if (lanes > 2) x += exchanged<2>(x);
    if (lanes > 4) x += exchanged<4>(x);
    if (lanes > 8) x += exchanged<8>(x);
    if (lanes > 16) x += exchanged<16>(x);
    return x;
}
template <u32 lanes = WAVE> DEVICE float largest_over(float x) {
    if (lanes > 1) x = __builtin_fmaxf(x, exchanged<1>(x));
    if (lanes > 2) x = __builtin_fmaxf(x, exchanged<2>(x));
    if (lanes > 4) x = __builtin_fmaxf(x, exchanged<4>(x));
    if (lanes > 8) x = __builtin_fmaxf(x, exchanged<8>(x));
    if (lanes > 16) x = __builtin_fmaxf(x, exchanged<16>(x));
    return x;
}

// Four products of bytes and a sum; b's bytes are signed, a's as said.
template <bool a_signed> DEVICE i32 dot4(u32 a, u32 b, i32 sum) { return __builtin_amdgcn_sudot4(a_signed, a, true, b, sum, false); }

// D = A B + C for 16 x 16 x 16 bytes: a lane has row (of A) or column (of B) lane % 16, and of D column lane % 16, rows 2 i + lane / 16.
template <bool a_signed> DEVICE i32x8 multiply16(i32x4 a, i32x4 b, i32x8 sum) {
    return __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32(a_signed, a, true, b, sum, false);
}

// exp, with the error of the hardware's 2^x; sin and cos by turns.
DEVICE float exponential(float x) { return __builtin_amdgcn_exp2f(x * 1.44269504f); }
DEVICE float reciprocal(float x) { return __builtin_amdgcn_rcpf(x); }
DEVICE float sine_of_turns(float x) { return __builtin_amdgcn_sinf(x); }
DEVICE float cosine_of_turns(float x) { return __builtin_amdgcn_cosf(x); }

DEVICE u32 smaller(u32 a, u32 b) { return a < b ? a : b; }
DEVICE u32 rounded_up(u32 a, u32 to) { return (a + to - 1) / to * to; }
