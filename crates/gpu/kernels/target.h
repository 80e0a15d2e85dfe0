// What hides the target: types, lane numbers, exchange between lanes, integer dot products, barriers.
#pragma once

#define DEVICE static inline __attribute__((device, always_inline))
// `threads` is the size of every workgroup that the kernel is launched with.
#ifdef __NVPTX__
#define KERNEL(threads) extern "C" __attribute__((global, launch_bounds(threads)))
#else
#define KERNEL(threads) extern "C" __attribute__((global, amdgpu_flat_work_group_size(threads, threads)))
#endif
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
typedef u32 u32x8 __attribute__((ext_vector_type(8)));
typedef float f32x2 __attribute__((ext_vector_type(2)));
typedef float f32x4 __attribute__((ext_vector_type(4)));
typedef float f32x8 __attribute__((ext_vector_type(8)));
typedef i32 i32x4 __attribute__((ext_vector_type(4)));
typedef i32 i32x8 __attribute__((ext_vector_type(8)));
typedef f16 f16x2 __attribute__((ext_vector_type(2)));
typedef f16 f16x8 __attribute__((ext_vector_type(8)));
typedef f16 f16x16 __attribute__((ext_vector_type(16)));

// Lanes of a wave.
constexpr u32 WAVE = 32;

template <class To, class From> DEVICE To bits_as(From x) { return __builtin_bit_cast(To, x); }

#ifdef __NVPTX__
constexpr u32 ALL_LANES = 0xffffffff;

DEVICE u32 thread() { return __nvvm_read_ptx_sreg_tid_x(); }
DEVICE u32 uniform(u32 x) { return x; }
DEVICE u32 group_x() { return __nvvm_read_ptx_sreg_ctaid_x(); }
DEVICE u32 group_y() { return __nvvm_read_ptx_sreg_ctaid_y(); }
DEVICE u32 group_z() { return __nvvm_read_ptx_sreg_ctaid_z(); }

DEVICE void barrier() { __syncthreads(); }
DEVICE void wave_fence() { __nvvm_bar_warp_sync(ALL_LANES); }
DEVICE void group_fence() { __syncthreads(); }
DEVICE void release() { __nvvm_membar_gl(); }
DEVICE void acquire() { __nvvm_membar_gl(); }
DEVICE u32 add_at_once(u32* at, u32 x) { return (u32)__nvvm_atom_add_gen_i((i32*)at, (i32)x); }
DEVICE u32 add_in_group(u32* at, u32 x) { return (u32)__nvvm_atom_add_gen_i((i32*)at, (i32)x); }
DEVICE u64 add_in_group(u64* at, u64 x) { return (u64)__nvvm_atom_add_gen_l((long*)at, (long)x); }

DEVICE u32 from_lane(u32 x, u32 lane) { return (u32)__nvvm_shfl_sync_idx_i32(ALL_LANES, (i32)x, (i32)lane, 31); }
template <u32 mask> DEVICE u32 exchanged(u32 x) { return (u32)__nvvm_shfl_sync_bfly_i32(ALL_LANES, (i32)x, mask, 31); }

DEVICE u32 chosen_bytes(u32 high, u32 low, u32 choice) { return __nvvm_prmt(low, high, (choice & 7) | (choice >> 4 & 0x70) | (choice >> 8 & 0x700) | (choice >> 12 & 0x7000)); }

template <bool a_signed> DEVICE i32 dot4(u32 a, u32 b, i32 sum) {
    i32 out;
    if (a_signed) asm("dp4a.s32.s32 %0, %1, %2, %3;" : "=r"(out) : "r"(a), "r"(b), "r"(sum));
    else asm("dp4a.u32.s32 %0, %1, %2, %3;" : "=r"(out) : "r"(a), "r"(b), "r"(sum));
    return out;
}

// Matrix products by exchange between lanes, for development: right, not fast.
template <bool a_signed> DEVICE i32x8 multiply16(i32x4 a, i32x4 b, i32x8 sum) {
    for (u32 i = 0; i < 8; i++)
        for (u32 w = 0; w < 4; w++) sum[i] = dot4<a_signed>(from_lane((u32)a[w], 2 * i + (thread() % 32) / 16), (u32)b[w], sum[i]);
    return sum;
}
DEVICE f32x8 multiply16(f16x16 a, f16x16 b, f32x8 sum) {
    u32x8 words = bits_as<u32x8>(a);
    for (u32 i = 0; i < 8; i++)
        for (u32 w = 0; w < 8; w++) {
            f16x2 pair = bits_as<f16x2>(from_lane(words[w], 2 * i + (thread() % 32) / 16));
            sum[i] = __builtin_fmaf((float)pair[0], (float)b[2 * w], sum[i]);
            sum[i] = __builtin_fmaf((float)pair[1], (float)b[2 * w + 1], sum[i]);
        }
    return sum;
}

// 2^x and the logarithm to base 2, with the error of the hardware's; sin and cos by turns.
DEVICE float power_of_2(float x) { return __nvvm_ex2_approx_f(x); }
DEVICE float logarithm_2(float x) { return __nvvm_lg2_approx_f(x); }
DEVICE float reciprocal(float x) { return __nvvm_rcp_approx_ftz_f(x); }
DEVICE float sine_of_turns(float x) { return __nvvm_sin_approx_f(x * 6.28318548f); }
DEVICE float cosine_of_turns(float x) { return __nvvm_cos_approx_f(x * 6.28318548f); }
#else
DEVICE u32 thread() { return __builtin_amdgcn_workitem_id_x(); }
// What is the same in all lanes, so that the compiler knows.
DEVICE u32 uniform(u32 x) { return __builtin_amdgcn_readfirstlane(x); }
DEVICE u32 group_x() { return __builtin_amdgcn_workgroup_id_x(); }
DEVICE u32 group_y() { return __builtin_amdgcn_workgroup_id_y(); }
DEVICE u32 group_z() { return __builtin_amdgcn_workgroup_id_z(); }

DEVICE void barrier() {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup", "local");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup", "local");
}
// Keeps the compiler from moving a wave's reads of LDS before its own writes.
DEVICE void wave_fence() { __builtin_amdgcn_fence(__ATOMIC_ACQ_REL, "wavefront"); }
// A barrier behind which the workgroup also sees what it wrote to global memory.
DEVICE void group_fence() {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
// What was written is seen by other workgroups that acquire; between the two stands an atomic.
DEVICE void release() { __builtin_amdgcn_fence(__ATOMIC_RELEASE, "agent"); }
DEVICE void acquire() { __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "agent"); }
// Adds without interruption, in global memory and in LDS, and gives what was there.
DEVICE u32 add_at_once(u32* at, u32 x) { return __hip_atomic_fetch_add(at, x, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT); }
DEVICE u32 add_in_group(u32* at, u32 x) { return __hip_atomic_fetch_add(at, x, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP); }
DEVICE u64 add_in_group(u64* at, u64 x) { return __hip_atomic_fetch_add(at, x, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP); }

// The value of a lane by its number.
DEVICE u32 from_lane(u32 x, u32 lane) { return (u32)__builtin_amdgcn_ds_bpermute(lane * 4, (i32)x); }
// The value of the lane whose number differs in the bits of `mask`.
template <u32 mask> DEVICE u32 exchanged(u32 x) {
    i32 v = (i32)x;
    if (mask == 16) {
        i32 other = __builtin_amdgcn_permlanex16(v, v, 0x76543210, 0xfedcba98, true, false);
        // LLVM 19 moves this instruction past a branch on the lane, into code where the lane that it reads is not computed.
        asm volatile("" : "+v"(other));
        return (u32)other;
    }
    return (u32)__builtin_amdgcn_update_dpp(0, v, 0x160 | (mask & 15), 15, 15, true);
}

// Bytes of `low` (0 to 3) and `high` (4 to 7) by the numbers in the bytes of `choice`.
DEVICE u32 chosen_bytes(u32 high, u32 low, u32 choice) { return __builtin_amdgcn_perm(high, low, choice); }

// Four products of bytes and a sum; b's bytes are signed, a's as said.
template <bool a_signed> DEVICE i32 dot4(u32 a, u32 b, i32 sum) { return __builtin_amdgcn_sudot4(a_signed, a, true, b, sum, false); }

// D = A B + C for 16 x 16 x 16 numbers: a lane has row (of A) or column (of B) lane % 16, and of D column lane % 16, rows 2 i + lane / 16.
template <bool a_signed> DEVICE i32x8 multiply16(i32x4 a, i32x4 b, i32x8 sum) {
    return __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32(a_signed, a, true, b, sum, false);
}
DEVICE f32x8 multiply16(f16x16 a, f16x16 b, f32x8 sum) { return __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(a, b, sum); }

// 2^x and the logarithm to base 2, with the error of the hardware's; sin and cos by turns.
DEVICE float power_of_2(float x) { return __builtin_amdgcn_exp2f(x); }
DEVICE float logarithm_2(float x) { return __builtin_amdgcn_logf(x); }
DEVICE float reciprocal(float x) { return __builtin_amdgcn_rcpf(x); }
DEVICE float sine_of_turns(float x) { return __builtin_amdgcn_sinf(x); }
DEVICE float cosine_of_turns(float x) { return __builtin_amdgcn_cosf(x); }
#endif

DEVICE u32 lane() { return thread() % WAVE; }
// The wave's number in its workgroup, known to be the same in all lanes.
DEVICE u32 wave() { return uniform(thread() / WAVE); }

DEVICE float exponential(float x) { return power_of_2(x * 1.44269504f); }
template <u32 mask> DEVICE float exchanged(float x) { return bits_as<float>(exchanged<mask>(bits_as<u32>(x))); }

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

// The lowest of a wave, in every lane.
DEVICE u32 lowest_over(u32 x) {
    u32 other = exchanged<1>(x);
    x = x < other ? x : other;
    other = exchanged<2>(x);
    x = x < other ? x : other;
    other = exchanged<4>(x);
    x = x < other ? x : other;
    other = exchanged<8>(x);
    x = x < other ? x : other;
    other = exchanged<16>(x);
    return x < other ? x : other;
}

DEVICE u32 read16(const u8* p) { return *(const u16*)p; }
DEVICE u32 smaller(u32 a, u32 b) { return a < b ? a : b; }
DEVICE u64 smaller64(u64 a, u64 b) { return a < b ? a : b; }
DEVICE u32 rounded_up(u32 a, u32 to) { return (a + to - 1) / to * to; }
