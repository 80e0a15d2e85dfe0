// Runs an instruction or a few, which a test puts where `operation` is, on operands from memory.
//
// Arguments: a, b, c (64 bits an element), old destination (128 bits an element), results (9 words an element), mode, scc, vcc.
// Element i is lane i % 32 of workgroup i / 32. The instruction finds a in v[2:3], b in v[4:5], c in v[6:7], the destination's old
// value in v[8:11]; and the elements of lane 0 in s[20:21], s[22:23], s[28:29] and s[24:25]; vcc in vcc_lo and s26; M0 holds c.
// Results: v8 to v11, s24, s25, vcc_lo, exec_lo, scc.

	.amdgcn_target "amdgcn-amd-amdhsa--gfx1151"
	.text
	.globl harness
	.p2align 8
	.type harness,@function
harness:
	s_load_b256 s[4:11], s[0:1], 0x0        // a, b, c, old
	s_load_b128 s[12:15], s[0:1], 0x20      // results, mode, scc
	s_load_b32 s16, s[0:1], 0x30            // vcc
	v_lshl_add_u32 v1, s2, 5, v0            // element
	s_lshl_b32 s17, s2, 8                   // 32 elements of 8 bytes
	s_waitcnt lgkmcnt(0)
	v_lshlrev_b32_e32 v12, 3, v1
	global_load_b64 v[2:3], v12, s[4:5]
	global_load_b64 v[4:5], v12, s[6:7]
	global_load_b64 v[6:7], v12, s[8:9]
	v_lshlrev_b32_e32 v13, 4, v1
	global_load_b128 v[8:11], v13, s[10:11]
	s_load_b64 s[20:21], s[4:5], s17
	s_load_b64 s[22:23], s[6:7], s17
	s_load_b64 s[28:29], s[8:9], s17
	s_lshl_b32 s18, s2, 9
	s_load_b64 s[24:25], s[10:11], s18
	s_waitcnt vmcnt(0) lgkmcnt(0)
	s_setreg_b32 hwreg(HW_REG_MODE), s14
	s_mov_b32 m0, s28
	s_mov_b32 vcc_lo, s16
	s_mov_b32 s26, s16
	s_cmp_lg_u32 s15, 0
	.globl operation
	.type operation,@function
operation:
	.rept 8
	s_nop 0xabc
	.endr
	.size operation, .-operation
	s_cselect_b32 s30, 1, 0
	s_mov_b32 s31, exec_lo
	s_mov_b32 s33, vcc_lo
	s_mov_b32 exec_lo, -1
	v_mul_u32_u24_e32 v14, 36, v1
	v_mov_b32_e32 v16, s24
	v_mov_b32_e32 v17, s25
	v_mov_b32_e32 v18, s33
	v_mov_b32_e32 v19, s31
	v_mov_b32_e32 v20, s30
	global_store_b128 v14, v[8:11], s[12:13]
	global_store_b128 v14, v[16:19], s[12:13] offset:16
	global_store_b32 v14, v20, s[12:13] offset:32
	s_endpgm
	.size harness, .-harness

	.rodata
	.p2align 6
	.amdhsa_kernel harness
		.amdhsa_kernarg_size 52
		.amdhsa_user_sgpr_count 2
		.amdhsa_user_sgpr_kernarg_segment_ptr 1
		.amdhsa_system_sgpr_workgroup_id_x 1
		.amdhsa_next_free_vgpr 24
		.amdhsa_next_free_sgpr 40
		.amdhsa_wavefront_size32 1
	.end_amdhsa_kernel

	.amdgpu_metadata
---
amdhsa.version: [ 1, 2 ]
amdhsa.target: amdgcn-amd-amdhsa--gfx1151
amdhsa.kernels:
  - .name: harness
    .symbol: harness.kd
    .kernarg_segment_size: 52
    .group_segment_fixed_size: 0
    .private_segment_fixed_size: 0
    .kernarg_segment_align: 8
    .wavefront_size: 32
    .sgpr_count: 40
    .vgpr_count: 24
    .max_flat_workgroup_size: 32
    .args:
      - { .name: a, .offset: 0, .size: 8, .value_kind: global_buffer, .address_space: global }
      - { .name: b, .offset: 8, .size: 8, .value_kind: global_buffer, .address_space: global }
      - { .name: c, .offset: 16, .size: 8, .value_kind: global_buffer, .address_space: global }
      - { .name: old, .offset: 24, .size: 8, .value_kind: global_buffer, .address_space: global }
      - { .name: results, .offset: 32, .size: 8, .value_kind: global_buffer, .address_space: global }
      - { .name: mode, .offset: 40, .size: 4, .value_kind: by_value }
      - { .name: scc, .offset: 44, .size: 4, .value_kind: by_value }
      - { .name: vcc, .offset: 48, .size: 4, .value_kind: by_value }
...
	.end_amdgpu_metadata
