// What freestanding kernels need: attributes, lane numbers, address spaces.
#pragma once
#define KERNEL extern "C" __attribute__((global, amdgpu_flat_work_group_size(1, 256)))
#define DEVICE __attribute__((device))
#define SHARED __attribute__((shared))
#define SHARED_SPACE __attribute__((address_space(3)))
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned u32;
typedef int i32;
typedef unsigned long u64;
typedef _Float16 f16;
static DEVICE inline u32 lane() { return __builtin_amdgcn_workitem_id_x(); }
static DEVICE inline u32 group() { return __builtin_amdgcn_workgroup_id_x(); }
static DEVICE inline u32 item() { return group() * __builtin_amdgcn_workgroup_size_x() + lane(); }
static DEVICE inline void barrier() {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
