	.amdgcn_target "amdgcn-amd-amdhsa-hcc-gfx942"
	.amdhsa_code_object_version 6
	.text
	.globl	contraction_kernel
	.p2align	8
	.type	contraction_kernel,@function
contraction_kernel:
	s_load_dwordx2 s[10:11], s[0:1], 0x0
	s_load_dwordx2 s[4:5], s[0:1], 0x18
	v_bfe_u32 v1, v0, 10, 10
	s_ashr_i32 s3, s2, 31
	v_readfirstlane_b32 s8, v1
	s_ashr_i32 s9, s8, 31
	v_bfe_u32 v1, v0, 3, 7
	s_lshl_b64 s[12:13], s[8:9], 5
	s_lshl_b64 s[6:7], s[2:3], 7
	v_or_b32_e32 v4, s6, v1
	v_mov_b32_e32 v5, s7
	s_waitcnt lgkmcnt(0)
	s_add_u32 s14, s4, -1
	v_lshl_add_u64 v[4:5], v[4:5], 0, s[12:13]
	s_addc_u32 s15, s5, -1
	v_and_b32_e32 v16, 0x3ff, v0
	v_mov_b32_e32 v1, s15
	v_cmp_gt_i64_e32 vcc, s[14:15], v[4:5]
	v_mov_b32_e32 v10, s14
	v_lshl_add_u64 v[8:9], v[4:5], 0, 8
	v_lshlrev_b32_e32 v2, 3, v16
	v_cndmask_b32_e32 v7, v1, v5, vcc
	v_cndmask_b32_e32 v6, v10, v4, vcc
	v_cmp_gt_i64_e32 vcc, s[14:15], v[8:9]
	v_and_b32_e32 v18, 56, v2
	v_lshlrev_b64 v[6:7], 7, v[6:7]
	v_cndmask_b32_e32 v9, v1, v9, vcc
	v_cndmask_b32_e32 v8, v10, v8, vcc
	v_mov_b32_e32 v3, 0
	v_lshl_add_u64 v[6:7], s[10:11], 0, v[6:7]
	v_lshlrev_b32_e32 v2, 1, v18
	v_lshlrev_b64 v[8:9], 7, v[8:9]
	v_lshl_add_u64 v[6:7], v[6:7], 0, v[2:3]
	v_lshl_add_u64 v[8:9], s[10:11], 0, v[8:9]
	v_lshl_add_u64 v[8:9], v[8:9], 0, v[2:3]
	global_load_dwordx4 v[20:23], v[6:7], off
	global_load_dwordx4 v[24:27], v[8:9], off
	v_lshl_add_u64 v[6:7], v[4:5], 0, 16
	v_cmp_gt_i64_e32 vcc, s[14:15], v[6:7]
	v_lshl_add_u64 v[4:5], v[4:5], 0, 24
	s_cmp_lt_i32 s8, 3
	v_cndmask_b32_e32 v7, v1, v7, vcc
	v_cndmask_b32_e32 v6, v10, v6, vcc
	v_cmp_gt_i64_e32 vcc, s[14:15], v[4:5]
	v_lshlrev_b64 v[6:7], 7, v[6:7]
	v_lshl_add_u64 v[6:7], s[10:11], 0, v[6:7]
	v_cndmask_b32_e32 v5, v1, v5, vcc
	v_cndmask_b32_e32 v4, v10, v4, vcc
	v_lshlrev_b64 v[4:5], 7, v[4:5]
	v_lshl_add_u64 v[6:7], v[6:7], 0, v[2:3]
	v_lshl_add_u64 v[4:5], s[10:11], 0, v[4:5]
	v_lshl_add_u64 v[2:3], v[4:5], 0, v[2:3]
	global_load_dwordx4 v[28:31], v[6:7], off
	global_load_dwordx4 v[32:35], v[2:3], off
	s_cselect_b64 s[10:11], -1, 0
	s_cmp_gt_i32 s8, 2
	v_and_b32_e32 v48, 15, v0
	s_cbranch_scc1 .LBB0_13
	s_load_dwordx2 s[16:17], s[0:1], 0x10
	v_and_b32_e32 v0, 0x3f0, v16
	v_mul_u32_u24_e32 v1, 0x180, v48
	v_add_u32_e32 v0, v1, v0
	s_lshl_b32 s3, s12, 1
	s_waitcnt lgkmcnt(0)
	s_and_b32 s17, s17, 0xffff
	s_mov_b32 s19, 0x27000
	s_mov_b32 s18, -1
	v_add_u32_e32 v17, 0x1000, v0
	buffer_load_dwordx4 v[12:15], v0, s[16:19], s3 offen
	buffer_load_dwordx4 v[8:11], v0, s[16:19], s3 offen offset:192
	buffer_load_dwordx4 v[4:7], v17, s[16:19], s3 offen offset:2048
	s_nop 0
	buffer_load_dwordx4 v[0:3], v17, s[16:19], s3 offen offset:2240
.LBB0_2:
	s_load_dwordx2 s[0:1], s[0:1], 0x8
	v_lshrrev_b32_e32 v17, 3, v16
	v_mul_u32_u24_e32 v17, 0x48, v17
	s_mul_i32 s3, s8, 0x900
	v_add_u32_e32 v17, v18, v17
	v_add_lshl_u32 v17, v17, s3, 1
	s_andn2_b64 vcc, exec, s[10:11]
	v_lshrrev_b32_e32 v49, 4, v16
	s_waitcnt vmcnt(3)
	ds_write_b128 v17, v[20:23]
	s_waitcnt vmcnt(2)
	ds_write_b128 v17, v[24:27] offset:1152
	s_waitcnt vmcnt(1)
	ds_write_b128 v17, v[28:31] offset:2304
	s_waitcnt vmcnt(0)
	ds_write_b128 v17, v[32:35] offset:3456
	s_cbranch_vccnz .LBB0_4
	v_mul_u32_u24_e32 v16, 0x240, v49
	v_add_lshl_u32 v16, s3, v16, 1
	s_mov_b32 s5, 0x5040100
	v_lshl_or_b32 v16, v48, 2, v16
	s_mov_b32 s3, 0x7060302
	v_perm_b32 v17, v8, v12, s5
	v_perm_b32 v8, v8, v12, s3
	v_perm_b32 v12, v9, v13, s5
	v_perm_b32 v9, v9, v13, s3
	v_perm_b32 v13, v10, v14, s5
	v_perm_b32 v10, v10, v14, s3
	v_perm_b32 v14, v11, v15, s5
	v_perm_b32 v11, v11, v15, s3
	v_perm_b32 v15, v0, v4, s5
	v_add_u32_e32 v18, 0x4800, v16
	v_perm_b32 v0, v0, v4, s3
	ds_write2_b32 v18, v8, v0 offset0:36 offset1:52
	v_perm_b32 v0, v1, v5, s5
	ds_write2_b32 v18, v12, v0 offset0:72 offset1:88
	v_perm_b32 v0, v1, v5, s3
	ds_write2_b32 v18, v9, v0 offset0:108 offset1:124
	v_perm_b32 v0, v2, v6, s5
	ds_write2_b32 v18, v13, v0 offset0:144 offset1:160
	v_perm_b32 v0, v2, v6, s3
	ds_write2_b32 v18, v10, v0 offset0:180 offset1:196
	v_perm_b32 v0, v3, v7, s5
	ds_write2_b32 v18, v14, v0 offset0:216 offset1:232
	v_perm_b32 v0, v3, v7, s3
	v_add_u32_e32 v1, 0x4a00, v16
	ds_write2_b32 v18, v17, v15 offset1:16
	ds_write2_b32 v1, v11, v0 offset0:124 offset1:140
.LBB0_4:
	v_mul_u32_u24_e32 v0, 0x48, v48
	s_and_b32 s3, s8, 1
	v_lshl_add_u32 v0, v49, 3, v0
	s_mul_i32 s5, s3, 0xd80
	v_add_lshl_u32 v8, v0, s5, 1
	s_waitcnt lgkmcnt(0)
	s_barrier
	ds_read_b128 v[30:33], v8 offset:18432
	s_lshr_b64 s[8:9], s[8:9], 1
	s_mul_i32 s5, s8, 0x1200
	v_add_lshl_u32 v28, v0, s5, 1
	ds_read_b128 v[38:41], v8 offset:20736
	ds_read_b128 v[78:81], v8 offset:20800
	ds_read_b128 v[42:45], v8 offset:23040
	ds_read_b128 v[82:85], v8 offset:23104
	ds_read_b128 v[10:13], v28
	ds_read_b128 v[34:37], v28 offset:64
	ds_read_b128 v[74:77], v8 offset:18496
	s_waitcnt lgkmcnt(2)
	v_mfma_f32_16x16x16_f16 v[0:3], v[30:31], v[10:11], 0
	ds_read_b128 v[22:25], v28 offset:2304
	ds_read_b128 v[86:89], v28 offset:2368
	ds_read_b128 v[58:61], v28 offset:4608
	ds_read_b128 v[90:93], v28 offset:4672
	ds_read_b128 v[70:73], v28 offset:6912
	ds_read_b128 v[94:97], v28 offset:6976
	v_mfma_f32_16x16x16_f16 v[4:7], v[38:39], v[10:11], 0
	s_mul_hi_i32 s7, s2, 0x3000
	s_mulk_i32 s2, 0x3000
	s_lshl_b32 s5, s8, 6
	v_mfma_f32_16x16x16_f16 v[8:11], v[42:43], v[10:11], 0
	s_add_i32 s5, s5, s6
	s_mul_i32 s6, s8, 0x1800
	v_mfma_f32_16x16x16_f16 v[0:3], v[32:33], v[12:13], v[0:3]
	v_mfma_f32_16x16x16_f16 v[4:7], v[40:41], v[12:13], v[4:7]
	v_mfma_f32_16x16x16_f16 v[8:11], v[44:45], v[12:13], v[8:11]
	s_waitcnt lgkmcnt(5)
	v_mfma_f32_16x16x16_f16 v[12:15], v[30:31], v[22:23], 0
	v_mfma_f32_16x16x16_f16 v[16:19], v[38:39], v[22:23], 0
	v_mfma_f32_16x16x16_f16 v[20:23], v[42:43], v[22:23], 0
	v_mfma_f32_16x16x16_f16 v[12:15], v[32:33], v[24:25], v[12:15]
	v_mfma_f32_16x16x16_f16 v[16:19], v[40:41], v[24:25], v[16:19]
	v_mfma_f32_16x16x16_f16 v[20:23], v[44:45], v[24:25], v[20:23]
	s_waitcnt lgkmcnt(3)
	v_mfma_f32_16x16x16_f16 v[24:27], v[30:31], v[58:59], 0
	v_mfma_f32_16x16x16_f16 v[50:53], v[32:33], v[60:61], v[24:27]
	v_mfma_f32_16x16x16_f16 v[24:27], v[38:39], v[58:59], 0
	v_mfma_f32_16x16x16_f16 v[54:57], v[40:41], v[60:61], v[24:27]
	v_mfma_f32_16x16x16_f16 v[24:27], v[42:43], v[58:59], 0
	v_mfma_f32_16x16x16_f16 v[58:61], v[44:45], v[60:61], v[24:27]
	s_waitcnt lgkmcnt(1)
	v_mfma_f32_16x16x16_f16 v[24:27], v[30:31], v[70:71], 0
	v_mfma_f32_16x16x16_f16 v[62:65], v[32:33], v[72:73], v[24:27]
	v_mfma_f32_16x16x16_f16 v[24:27], v[38:39], v[70:71], 0
	v_mfma_f32_16x16x16_f16 v[66:69], v[40:41], v[72:73], v[24:27]
	v_mfma_f32_16x16x16_f16 v[24:27], v[42:43], v[70:71], 0
	v_mfma_f32_16x16x16_f16 v[0:3], v[74:75], v[34:35], v[0:3]
	v_mfma_f32_16x16x16_f16 v[70:73], v[44:45], v[72:73], v[24:27]
	v_mfma_f32_16x16x16_f16 v[44:47], v[76:77], v[36:37], v[0:3]
	v_mfma_f32_16x16x16_f16 v[0:3], v[78:79], v[34:35], v[4:7]
	v_mfma_f32_16x16x16_f16 v[40:43], v[80:81], v[36:37], v[0:3]
	s_nop 1
	v_mul_hi_u32_u24_e32 v4, 0x60, v48
	v_mul_u32_u24_e32 v5, 0x60, v48
	v_mfma_f32_16x16x16_f16 v[0:3], v[82:83], v[34:35], v[8:11]
	v_mfma_f32_16x16x16_f16 v[36:39], v[84:85], v[36:37], v[0:3]
	v_mfma_f32_16x16x16_f16 v[0:3], v[74:75], v[86:87], v[12:15]
	v_mfma_f32_16x16x16_f16 v[32:35], v[76:77], v[88:89], v[0:3]
	v_mfma_f32_16x16x16_f16 v[0:3], v[78:79], v[86:87], v[16:19]
	v_mfma_f32_16x16x16_f16 v[28:31], v[80:81], v[88:89], v[0:3]
	v_mfma_f32_16x16x16_f16 v[0:3], v[82:83], v[86:87], v[20:23]
	v_mfma_f32_16x16x16_f16 v[24:27], v[84:85], v[88:89], v[0:3]
	v_mfma_f32_16x16x16_f16 v[0:3], v[74:75], v[90:91], v[50:53]
	v_mfma_f32_16x16x16_f16 v[20:23], v[76:77], v[92:93], v[0:3]
	s_nop 1
	v_or_b32_e32 v51, s7, v4
	v_or_b32_e32 v50, s2, v5
	v_or_b32_e32 v52, s5, v48
	v_mfma_f32_16x16x16_f16 v[0:3], v[78:79], v[90:91], v[54:57]
	s_mul_i32 s5, s3, 48
	s_mul_hi_i32 s3, s8, 0x1800
	s_or_b32 s2, s6, s5
	v_mfma_f32_16x16x16_f16 v[16:19], v[80:81], v[92:93], v[0:3]
	v_lshlrev_b32_e32 v54, 2, v49
	v_lshl_add_u64 v[50:51], s[2:3], 0, v[50:51]
	v_mov_b32_e32 v49, 0
	v_mfma_f32_16x16x16_f16 v[0:3], v[82:83], v[90:91], v[58:61]
	v_cmp_gt_i32_e32 vcc, s4, v52
	v_lshl_add_u64 v[50:51], v[50:51], 1, s[0:1]
	v_lshlrev_b32_e32 v48, 1, v54
	v_mfma_f32_16x16x16_f16 v[12:15], v[84:85], v[92:93], v[0:3]
	s_waitcnt lgkmcnt(0)
	v_mfma_f32_16x16x16_f16 v[0:3], v[74:75], v[94:95], v[62:65]
	v_mfma_f32_16x16x16_f16 v[8:11], v[76:77], v[96:97], v[0:3]
	v_mfma_f32_16x16x16_f16 v[0:3], v[78:79], v[94:95], v[66:69]
	v_mfma_f32_16x16x16_f16 v[4:7], v[82:83], v[94:95], v[70:73]
	v_mfma_f32_16x16x16_f16 v[0:3], v[80:81], v[96:97], v[0:3]
	v_mfma_f32_16x16x16_f16 v[4:7], v[84:85], v[96:97], v[4:7]
	s_and_saveexec_b64 s[0:1], vcc
	v_cvt_f16_f32_e32 v47, v47
	v_cvt_f16_f32_e32 v46, v46
	v_cvt_f16_f32_e32 v53, v45
	v_cvt_f16_f32_e32 v44, v44
	v_cvt_f16_f32_e32 v41, v41
	v_pack_b32_f16 v45, v46, v47
	v_cvt_f16_f32_e32 v46, v43
	v_cvt_f16_f32_e32 v47, v42
	v_pack_b32_f16 v44, v44, v53
	v_lshl_add_u64 v[42:43], v[50:51], 0, v[48:49]
	global_store_dwordx2 v[42:43], v[44:45], off
	v_pack_b32_f16 v45, v47, v46
	v_cvt_f16_f32_e32 v40, v40
	v_cvt_f16_f32_e32 v39, v39
	v_cvt_f16_f32_e32 v38, v38
	v_cvt_f16_f32_e32 v46, v37
	v_cvt_f16_f32_e32 v36, v36
	v_pack_b32_f16 v44, v40, v41
	v_pack_b32_f16 v37, v38, v39
	global_store_dwordx2 v[42:43], v[44:45], off offset:32
	v_pack_b32_f16 v36, v36, v46
	global_store_dwordx2 v[42:43], v[36:37], off offset:64
	s_or_b64 exec, exec, s[0:1]
	v_or_b32_e32 v36, 16, v52
	v_cmp_gt_i32_e32 vcc, s4, v36
	s_and_saveexec_b64 s[0:1], vcc
	v_cvt_f16_f32_e32 v35, v35
	v_cvt_f16_f32_e32 v34, v34
	v_cvt_f16_f32_e32 v36, v33
	v_cvt_f16_f32_e32 v32, v32
	v_mov_b32_e32 v49, 0
	v_pack_b32_f16 v33, v34, v35
	v_cvt_f16_f32_e32 v34, v31
	v_cvt_f16_f32_e32 v35, v30
	v_pack_b32_f16 v32, v32, v36
	v_lshl_add_u64 v[30:31], v[50:51], 0, v[48:49]
	global_store_dwordx2 v[30:31], v[32:33], off offset:3072
	v_pack_b32_f16 v33, v35, v34
	v_cvt_f16_f32_e32 v29, v29
	v_cvt_f16_f32_e32 v28, v28
	v_cvt_f16_f32_e32 v27, v27
	v_cvt_f16_f32_e32 v26, v26
	v_cvt_f16_f32_e32 v34, v25
	v_cvt_f16_f32_e32 v24, v24
	v_pack_b32_f16 v32, v28, v29
	v_pack_b32_f16 v25, v26, v27
	global_store_dwordx2 v[30:31], v[32:33], off offset:3104
	v_pack_b32_f16 v24, v24, v34
	global_store_dwordx2 v[30:31], v[24:25], off offset:3136
	s_or_b64 exec, exec, s[0:1]
	v_or_b32_e32 v24, 32, v52
	v_cmp_gt_i32_e32 vcc, s4, v24
	s_and_saveexec_b64 s[0:1], vcc
	v_cvt_f16_f32_e32 v23, v23
	v_cvt_f16_f32_e32 v22, v22
	v_cvt_f16_f32_e32 v24, v21
	v_cvt_f16_f32_e32 v20, v20
	v_mov_b32_e32 v49, 0
	v_pack_b32_f16 v21, v22, v23
	v_lshl_add_u64 v[22:23], v[50:51], 0, v[48:49]
	v_add_co_u32_e32 v22, vcc, 0x1000, v22
	v_pack_b32_f16 v20, v20, v24
	s_nop 0
	v_addc_co_u32_e32 v23, vcc, 0, v23, vcc
	v_cvt_f16_f32_e32 v19, v19
	v_cvt_f16_f32_e32 v18, v18
	global_store_dwordx2 v[22:23], v[20:21], off offset:2048
	v_cvt_f16_f32_e32 v17, v17
	v_cvt_f16_f32_e32 v16, v16
	v_cvt_f16_f32_e32 v15, v15
	v_cvt_f16_f32_e32 v14, v14
	v_cvt_f16_f32_e32 v20, v13
	v_cvt_f16_f32_e32 v12, v12
	v_pack_b32_f16 v19, v18, v19
	v_pack_b32_f16 v18, v16, v17
	v_pack_b32_f16 v13, v14, v15
	v_pack_b32_f16 v12, v12, v20
	global_store_dwordx2 v[22:23], v[18:19], off offset:2080
	global_store_dwordx2 v[22:23], v[12:13], off offset:2112
	s_or_b64 exec, exec, s[0:1]
	v_or_b32_e32 v12, 48, v52
	v_cmp_gt_i32_e32 vcc, s4, v12
	s_and_saveexec_b64 s[0:1], vcc
	v_cvt_f16_f32_e32 v11, v11
	v_cvt_f16_f32_e32 v10, v10
	v_cvt_f16_f32_e32 v12, v9
	v_cvt_f16_f32_e32 v8, v8
	v_cvt_f16_f32_e32 v3, v3
	v_cvt_f16_f32_e32 v2, v2
	v_cvt_f16_f32_e32 v1, v1
	v_cvt_f16_f32_e32 v0, v0
	v_cvt_f16_f32_e32 v7, v7
	v_cvt_f16_f32_e32 v6, v6
	v_cvt_f16_f32_e32 v5, v5
	v_cvt_f16_f32_e32 v4, v4
	v_mov_b32_e32 v49, 0
	v_pack_b32_f16 v9, v10, v11
	v_lshl_add_u64 v[10:11], v[50:51], 0, v[48:49]
	v_add_co_u32_e32 v10, vcc, 0x2000, v10
	v_pack_b32_f16 v8, v8, v12
	s_nop 0
	v_addc_co_u32_e32 v11, vcc, 0, v11, vcc
	v_pack_b32_f16 v3, v2, v3
	v_pack_b32_f16 v2, v0, v1
	v_pack_b32_f16 v1, v6, v7
	v_pack_b32_f16 v0, v4, v5
	global_store_dwordx2 v[10:11], v[8:9], off offset:1024
	global_store_dwordx2 v[10:11], v[2:3], off offset:1056
	global_store_dwordx2 v[10:11], v[0:1], off offset:1088
	s_endpgm
.LBB0_13:
	s_branch .LBB0_2
	.section	.rodata,"a",@progbits
	.p2align	6, 0x0
	.amdhsa_kernel contraction_kernel
		.amdhsa_group_segment_fixed_size 32256
		.amdhsa_private_segment_fixed_size 0
		.amdhsa_kernarg_size 32
		.amdhsa_user_sgpr_count 2
		.amdhsa_user_sgpr_dispatch_ptr 0
		.amdhsa_user_sgpr_queue_ptr 0
		.amdhsa_user_sgpr_kernarg_segment_ptr 1
		.amdhsa_user_sgpr_dispatch_id 0
		.amdhsa_user_sgpr_kernarg_preload_length 0
		.amdhsa_user_sgpr_kernarg_preload_offset 0
		.amdhsa_user_sgpr_private_segment_size 0
		.amdhsa_uses_dynamic_stack 0
		.amdhsa_enable_private_segment 0
		.amdhsa_system_sgpr_workgroup_id_x 1
		.amdhsa_system_sgpr_workgroup_id_y 0
		.amdhsa_system_sgpr_workgroup_id_z 0
		.amdhsa_system_sgpr_workgroup_info 0
		.amdhsa_system_vgpr_workitem_id 1
		.amdhsa_next_free_vgpr 169
		.amdhsa_next_free_sgpr 96
		.amdhsa_accum_offset 100
		.amdhsa_reserve_vcc 1
		.amdhsa_float_round_mode_32 0
		.amdhsa_float_round_mode_16_64 0
		.amdhsa_float_denorm_mode_32 3
		.amdhsa_float_denorm_mode_16_64 3
		.amdhsa_dx10_clamp 1
		.amdhsa_ieee_mode 1
		.amdhsa_fp16_overflow 0
		.amdhsa_tg_split 0
		.amdhsa_exception_fp_ieee_invalid_op 0
		.amdhsa_exception_fp_denorm_src 0
		.amdhsa_exception_fp_ieee_div_zero 0
		.amdhsa_exception_fp_ieee_overflow 0
		.amdhsa_exception_fp_ieee_underflow 0
		.amdhsa_exception_fp_ieee_inexact 0
		.amdhsa_exception_int_div_zero 0
	.end_amdhsa_kernel
	.text
.Lfunc_end0:
	.size	contraction_kernel, .Lfunc_end0-contraction_kernel

	.set contraction_kernel.num_vgpr, 98
	.set contraction_kernel.num_agpr, 0
	.set contraction_kernel.numbered_sgpr, 20
	.set contraction_kernel.num_named_barrier, 0
	.set contraction_kernel.private_seg_size, 0
	.set contraction_kernel.uses_vcc, 1
	.set contraction_kernel.uses_flat_scratch, 0
	.set contraction_kernel.has_dyn_sized_stack, 0
	.set contraction_kernel.has_recursion, 0
	.set contraction_kernel.has_indirect_call, 0
	.section	.text.tvm.fp16.conv,"ax",@progbits
	.weak	__truncsfhf2
	.p2align	2
	.type	__truncsfhf2,@function
__truncsfhf2:
	s_waitcnt vmcnt(0) expcnt(0) lgkmcnt(0)
	v_and_b32_e32 v2, 0x7fffffff, v0
	v_add_u32_e32 v1, 0xc7800000, v2
	v_add_u32_e32 v3, 0xb8800000, v2
	v_cmp_ge_u32_e32 vcc, v1, v3
	s_and_saveexec_b64 s[0:1], vcc
	s_xor_b64 s[0:1], exec, s[0:1]
	s_cbranch_execz .LBB1_14
	s_mov_b32 s2, 0x7f800001
	v_cmp_gt_u32_e32 vcc, s2, v2
	s_and_saveexec_b64 s[2:3], vcc
	s_xor_b64 s[2:3], exec, s[2:3]
	s_cbranch_execz .LBB1_11
	s_mov_b32 s4, 0x47800000
	v_cmp_gt_u32_e32 vcc, s4, v2
	v_mov_b32_e32 v1, 0x7c00
	s_and_saveexec_b64 s[4:5], vcc
	s_cbranch_execz .LBB1_10
	s_mov_b32 s6, 0x2cffffff
	v_cmp_lt_u32_e32 vcc, s6, v2
	v_mov_b32_e32 v1, 0
	s_and_saveexec_b64 s[6:7], vcc
	s_cbranch_execz .LBB1_9
	v_lshrrev_b32_e32 v1, 23, v2
	v_and_b32_e32 v3, 0x7fffff, v0
	v_sub_u32_e32 v2, 0x71, v1
	v_or_b32_e32 v3, 0x800000, v3
	v_add_u32_e32 v1, 0xffffffaf, v1
	v_lshlrev_b32_e32 v1, v1, v3
	v_cmp_ne_u32_e32 vcc, 0, v1
	v_lshrrev_b32_e32 v3, v2, v3
	s_movk_i32 s8, 0x1fff
	v_cndmask_b32_e64 v1, 0, 1, vcc
	v_lshrrev_b32_e32 v2, 13, v3
	v_and_or_b32 v3, v3, s8, v1
	s_movk_i32 s8, 0x1001
	v_cmp_gt_u32_e32 vcc, s8, v3
	s_and_saveexec_b64 s[8:9], vcc
	s_xor_b64 s[8:9], exec, s[8:9]
	s_movk_i32 s10, 0x1000
	v_cmp_eq_u32_e32 vcc, s10, v3
	s_nop 1
	v_cndmask_b32_e64 v1, 0, 1, vcc
	v_and_b32_e32 v1, v1, v2
	v_add_u32_e32 v1, v1, v2
	s_andn2_saveexec_b64 s[8:9], s[8:9]
	v_add_u32_e32 v1, 1, v2
	s_or_b64 exec, exec, s[8:9]
.LBB1_9:
	s_or_b64 exec, exec, s[6:7]
.LBB1_10:
	s_or_b64 exec, exec, s[4:5]
.LBB1_11:
	s_andn2_saveexec_b64 s[2:3], s[2:3]
	v_bfe_u32 v1, v0, 13, 9
	v_or_b32_e32 v1, 0x7e00, v1
	s_or_b64 exec, exec, s[2:3]
.LBB1_14:
	s_andn2_saveexec_b64 s[0:1], s[0:1]
	s_cbranch_execz .LBB1_20
	v_and_b32_e32 v3, 0x1fff, v0
	s_movk_i32 s2, 0x1001
	v_lshrrev_b32_e32 v2, 13, v0
	v_cmp_gt_u32_e32 vcc, s2, v3
	s_and_saveexec_b64 s[2:3], vcc
	s_xor_b64 s[2:3], exec, s[2:3]
	s_movk_i32 s4, 0x1000
	v_cmp_eq_u32_e32 vcc, s4, v3
	s_mov_b32 s4, 0xfffe4000
	s_nop 0
	v_cndmask_b32_e64 v1, 0, 1, vcc
	v_and_b32_e32 v1, v1, v2
	v_add3_u32 v1, v2, v1, s4
	s_andn2_saveexec_b64 s[2:3], s[2:3]
	v_add_u32_e32 v1, 0xfffe4001, v2
	s_or_b64 exec, exec, s[2:3]
.LBB1_20:
	s_or_b64 exec, exec, s[0:1]
	v_lshrrev_b32_e32 v0, 16, v0
	s_mov_b32 s0, 0x8000
	v_and_or_b32 v0, v0, s0, v1
	s_setpc_b64 s[30:31]
.Lfunc_end1:
	.size	__truncsfhf2, .Lfunc_end1-__truncsfhf2

	.set __truncsfhf2.num_vgpr, 4
	.set __truncsfhf2.num_agpr, 0
	.set __truncsfhf2.numbered_sgpr, 32
	.set __truncsfhf2.num_named_barrier, 0
	.set __truncsfhf2.private_seg_size, 0
	.set __truncsfhf2.uses_vcc, 1
	.set __truncsfhf2.uses_flat_scratch, 0
	.set __truncsfhf2.has_dyn_sized_stack, 0
	.set __truncsfhf2.has_recursion, 0
	.set __truncsfhf2.has_indirect_call, 0
	.weak	__extendhfsf2
	.p2align	2
	.type	__extendhfsf2,@function
__extendhfsf2:
	s_waitcnt vmcnt(0) expcnt(0) lgkmcnt(0)
	v_and_b32_e32 v2, 0x7fff, v0
	v_and_b32_e32 v1, 0xffff, v2
	v_add_u16_e32 v2, 0xfc00, v2
	s_movk_i32 s0, 0x77ff
	v_cmp_lt_u16_e32 vcc, s0, v2
	s_and_saveexec_b64 s[0:1], vcc
	s_xor_b64 s[0:1], exec, s[0:1]
	s_cbranch_execz .LBB2_8
	s_movk_i32 s2, 0x7c00
	v_cmp_gt_u16_e32 vcc, s2, v1
	s_and_saveexec_b64 s[2:3], vcc
	s_xor_b64 s[2:3], exec, s[2:3]
	s_cbranch_execz .LBB2_5
	v_cmp_ne_u16_e32 vcc, 0, v1
	v_mov_b32_e32 v2, 0
	s_and_saveexec_b64 s[4:5], vcc
	s_cbranch_execz .LBB2_4
	s_movk_i32 s6, 0x100
	v_lshrrev_b32_e32 v2, 8, v1
	v_cmp_gt_u16_e32 vcc, s6, v1
	s_nop 1
	v_cndmask_b32_e32 v2, v2, v1, vcc
	v_cndmask_b32_e64 v3, 24, 32, vcc
	v_lshrrev_b32_e32 v4, 4, v2
	v_cmp_gt_u32_e32 vcc, 16, v2
	v_add_u32_e32 v5, -4, v3
	s_nop 0
	v_cndmask_b32_e32 v2, v4, v2, vcc
	v_cndmask_b32_e32 v3, v5, v3, vcc
	v_lshrrev_b32_e32 v4, 2, v2
	v_cmp_gt_u32_e32 vcc, 4, v2
	v_add_u32_e32 v5, -2, v3
	s_nop 0
	v_cndmask_b32_e32 v2, v4, v2, vcc
	v_cndmask_b32_e32 v3, v5, v3, vcc
	v_sub_u32_e32 v4, 0, v2
	v_cmp_gt_u32_e32 vcc, 2, v2
	s_nop 1
	v_cndmask_b32_e32 v2, -2, v4, vcc
	v_add_u32_e32 v2, v2, v3
	v_add_u32_e32 v3, -8, v2
	v_lshlrev_b32_e32 v1, v3, v1
	v_lshlrev_b32_e32 v2, 23, v2
	v_xor_b32_e32 v1, 0x800000, v1
	v_sub_u32_e32 v2, 0x43000000, v2
	v_or_b32_e32 v2, v1, v2
.LBB2_4:
	s_or_b64 exec, exec, s[4:5]
.LBB2_5:
	s_andn2_saveexec_b64 s[2:3], s[2:3]
	v_mov_b32_e32 v2, 0x7f800000
	v_lshl_or_b32 v2, v1, 13, v2
	s_or_b64 exec, exec, s[2:3]
.LBB2_8:
	s_andn2_saveexec_b64 s[0:1], s[0:1]
	v_bfrev_b32_e32 v2, 28
	v_lshl_add_u32 v2, v1, 13, v2
	s_or_b64 exec, exec, s[0:1]
	s_movk_i32 s0, 0x8000
	v_and_b32_sdwa v0, v0, s0 dst_sel:WORD_1 dst_unused:UNUSED_PAD src0_sel:DWORD src1_sel:DWORD
	s_nop 0
	v_or_b32_e32 v0, v2, v0
	s_setpc_b64 s[30:31]
.Lfunc_end2:
	.size	__extendhfsf2, .Lfunc_end2-__extendhfsf2

	.set __extendhfsf2.num_vgpr, 6
	.set __extendhfsf2.num_agpr, 0
	.set __extendhfsf2.numbered_sgpr, 32
	.set __extendhfsf2.num_named_barrier, 0
	.set __extendhfsf2.private_seg_size, 0
	.set __extendhfsf2.uses_vcc, 1
	.set __extendhfsf2.uses_flat_scratch, 0
	.set __extendhfsf2.has_dyn_sized_stack, 0
	.set __extendhfsf2.has_recursion, 0
	.set __extendhfsf2.has_indirect_call, 0
	.text
	.p2alignl 6, 3212836864
	.fill 256, 4, 3212836864
	.section	.AMDGPU.gpr_maximums,"",@progbits
	.set amdgpu.max_num_vgpr, 6
	.set amdgpu.max_num_agpr, 0
	.set amdgpu.max_num_sgpr, 32
	.set amdgpu.max_num_named_barrier, 0
	.text
	.section	".note.GNU-stack","",@progbits
	.amdgpu_metadata
---
amdhsa.kernels:
  - .agpr_count:     0
    .args:
      - .actual_access:  read_only
        .address_space:  global
        .name:           lhs
        .offset:         0
        .size:           8
        .value_kind:     global_buffer
      - .actual_access:  write_only
        .address_space:  global
        .name:           result
        .offset:         8
        .size:           8
        .value_kind:     global_buffer
      - .actual_access:  read_only
        .address_space:  global
        .name:           rhs
        .offset:         16
        .size:           8
        .value_kind:     global_buffer
      - .name:           rows
        .offset:         24
        .size:           8
        .value_kind:     by_value
    .group_segment_fixed_size: 32256
    .kernarg_segment_align: 8
    .kernarg_segment_size: 32
    .max_flat_workgroup_size: 256
    .name:           contraction_kernel
    .private_segment_fixed_size: 0
    .sgpr_count:     26
    .sgpr_spill_count: 0
    .symbol:         contraction_kernel.kd
    .uses_dynamic_stack: false
    .vgpr_count:     98
    .vgpr_spill_count: 0
    .wavefront_size: 64
amdhsa.target:   amdgcn-amd-amdhsa-hcc-gfx942
amdhsa.version:
  - 1
  - 2
...

	.end_amdgpu_metadata
