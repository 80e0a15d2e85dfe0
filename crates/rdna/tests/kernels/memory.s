// Runs one memory instruction, which a test puts where `operation` is, on a block of memory that is global, local and private at once.
//
// Arguments: block (32 bytes a lane, 1 KiB), operands (v4 to v7 for each lane: 16 bytes), old destination (v8 to v11), results (16
// bytes a lane), private results (32 bytes a lane), byte offset of each lane (4 bytes a lane).
// The instruction finds: v2 the lane's offset (the same for local memory), v[16:17] the address of that within the block,
// s[12:13] the block's address, v3 the lane's offset within its private memory, v[18:19] the flat address of the local one.

	.amdgcn_target "amdgcn-amd-amdhsa--gfx1151"
	.text
	.globl memory
	.p2align 8
	.type memory,@function
memory:
	s_load_b256 s[4:11], s[0:1], 0x0        // block, operands, old, results
	s_load_b128 s[20:23], s[0:1], 0x20      // private results, offsets
	v_lshlrev_b32_e32 v1, 5, v0             // 32 bytes a lane
	v_lshlrev_b32_e32 v24, 4, v0
	v_lshlrev_b32_e32 v25, 2, v0
	s_waitcnt lgkmcnt(0)
	s_mov_b64 s[12:13], s[4:5]
	global_load_b128 v[32:35], v1, s[4:5]
	global_load_b128 v[36:39], v1, s[4:5] offset:16
	global_load_b128 v[4:7], v24, s[6:7]
	global_load_b128 v[8:11], v24, s[8:9]
	global_load_b32 v2, v25, s[22:23]
	s_waitcnt vmcnt(0)
	ds_store_b128 v1, v[32:35]
	ds_store_b128 v1, v[36:39] offset:16
	v_mov_b32_e32 v26, 0
	scratch_store_b128 v26, v[32:35], off
	scratch_store_b128 v26, v[36:39], off offset:16
	v_and_b32_e32 v3, 15, v2
	v_add_co_u32 v16, vcc_lo, s12, v2
	v_mov_b32_e32 v17, s13
	v_add_co_ci_u32_e32 v17, vcc_lo, 0, v17, vcc_lo
	v_mov_b32_e32 v18, v2
	s_mov_b64 s[14:15], src_shared_base
	v_mov_b32_e32 v19, s15
	s_mov_b32 m0, 0
	.globl operation
	.type operation,@function
operation:
	s_nop 0xabc
	s_nop 0xabc
	s_nop 0xabc
	.size operation, .-operation
	s_waitcnt vmcnt(0) lgkmcnt(0)
	s_waitcnt_vscnt null, 0x0
	global_store_b128 v24, v[8:11], s[10:11]
	ds_load_b128 v[32:35], v1
	ds_load_b128 v[36:39], v1 offset:16
	scratch_load_b128 v[40:43], v26, off
	scratch_load_b128 v[44:47], v26, off offset:16
	s_waitcnt vmcnt(0) lgkmcnt(0)
	global_store_b128 v1, v[40:43], s[20:21]
	global_store_b128 v1, v[44:47], s[20:21] offset:16
	s_load_b64 s[16:17], s[0:1], 0x30
	s_waitcnt lgkmcnt(0)
	global_store_b128 v1, v[32:35], s[16:17]
	global_store_b128 v1, v[36:39], s[16:17] offset:16
	s_endpgm
	.size memory, .-memory

	.rodata
	.p2align 6
	.amdhsa_kernel memory
		.amdhsa_kernarg_size 56
		.amdhsa_group_segment_fixed_size 1024
		.amdhsa_private_segment_fixed_size 32
		.amdhsa_enable_private_segment 1
		.amdhsa_user_sgpr_count 2
		.amdhsa_user_sgpr_kernarg_segment_ptr 1
		.amdhsa_system_sgpr_workgroup_id_x 1
		.amdhsa_next_free_vgpr 48
		.amdhsa_next_free_sgpr 40
		.amdhsa_wavefront_size32 1
	.end_amdhsa_kernel

	.amdgpu_metadata
---
amdhsa.version: [ 1, 2 ]
amdhsa.target: amdgcn-amd-amdhsa--gfx1151
amdhsa.kernels:
  - .name: memory
    .symbol: memory.kd
    .kernarg_segment_size: 56
    .group_segment_fixed_size: 1024
    .private_segment_fixed_size: 32
    .kernarg_segment_align: 8
    .wavefront_size: 32
    .sgpr_count: 40
    .vgpr_count: 48
    .max_flat_workgroup_size: 32
    .args:
      - { .name: block, .offset: 0, .size: 8, .value_kind: global_buffer, .address_space: global }
      - { .name: operands, .offset: 8, .size: 8, .value_kind: global_buffer, .address_space: global }
      - { .name: old, .offset: 16, .size: 8, .value_kind: global_buffer, .address_space: global }
      - { .name: results, .offset: 24, .size: 8, .value_kind: global_buffer, .address_space: global }
      - { .name: private, .offset: 32, .size: 8, .value_kind: global_buffer, .address_space: global }
      - { .name: offsets, .offset: 40, .size: 8, .value_kind: global_buffer, .address_space: global }
      - { .name: local, .offset: 48, .size: 8, .value_kind: global_buffer, .address_space: global }
...
	.end_amdgpu_metadata
