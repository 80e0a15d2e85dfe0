// Kernels with one planted fault each, and the same without it.
#include "target.h"

// Each lane writes its slot and reads its neighbour's of the other wave: right only with the barrier.
template <bool fenced> static DEVICE void swap_through_lds(u32* out) {
    static SHARED u32 slots[64];
    slots[lane()] = lane() * 3;
    if (fenced) barrier();
    else __builtin_amdgcn_wave_barrier();
    out[item()] = *(volatile u32*)&slots[lane() ^ 32];
}
KERNEL void lds_race(u32* out) { swap_through_lds<false>(out); }
KERNEL void lds_fenced(u32* out) { swap_through_lds<true>(out); }

// All workgroups write the same word.
KERNEL void global_race(u32* out) { out[lane()] = group(); }
// Each has its own.
KERNEL void global_apart(u32* out) { out[item()] = group(); }

// A sum over workgroups: by load and store, or at once.
KERNEL void sum_race(u32* out) { out[0] += 1; }
KERNEL void sum_atomic(u32* out) { __hip_atomic_fetch_add(out, 1u, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT); }

// The last workgroup to finish adds the parts of all, which the atomic counter orders.
KERNEL void last_adds(u32* parts, u32* count, u32* out) {
    if (lane() != 0) return;
    parts[group()] = group() + 1;
    if (__hip_atomic_fetch_add(count, 1u, __ATOMIC_ACQ_REL, __HIP_MEMORY_SCOPE_AGENT) == __builtin_amdgcn_grid_size_x() / __builtin_amdgcn_workgroup_size_x() - 1) {
        u32 sum = 0;
        for (u32 i = 0; i < __builtin_amdgcn_grid_size_x() / __builtin_amdgcn_workgroup_size_x(); i++) sum += parts[i];
        *out = sum;
    }
}

KERNEL void lds_unwritten(u32* out) {
    static SHARED volatile u32 slots[64];
    if (lane() < 16) slots[lane()] = 1;
    barrier();
    out[item()] = ((volatile SHARED_SPACE u32*)slots)[lane()];
}
KERNEL void global_unwritten(const u32* in, u32* out) { out[item()] = in[item()]; }
KERNEL void past_the_end(const u32* in, u32* out) { out[item()] = in[item() + 1]; }
KERNEL void store_past_the_end(u32* out) { out[item() + 1] = 7; }
KERNEL void lds_past_the_end(u32* out, u32 index) {
    static SHARED volatile u32 slots[64];
    slots[lane()] = 1;
    barrier();
    out[item()] = ((volatile SHARED_SPACE u32*)slots)[lane() + index];
}
KERNEL void misaligned(const u8* in, u32* out, u32 offset) { out[item()] = *(const u32*)(in + offset + 4 * lane()); }
KERNEL void lds_misaligned(u32* out, u32 offset) {
    static SHARED volatile u32 slots[65];
    slots[lane()] = 1;
    barrier();
    out[item()] = *(volatile SHARED_SPACE u32*)((volatile SHARED_SPACE u8*)slots + offset);
}
KERNEL void register_unwritten(u32* out) {
    u32 x;
    asm volatile("v_add_nc_u32 %0, v77, v78" : "=v"(x) : : "v77", "v78");
    out[item()] = x;
}
KERNEL void trapped() { __builtin_trap(); }
KERNEL void endless(u32* out) { while (*(volatile u32*)out == 0) {} }
KERNEL void stuck_barrier(u32* out) {
    // A wave that has ended no longer counts at a barrier.
    if (lane() < 32) return;
    barrier();
    out[item()] = 1;
}
