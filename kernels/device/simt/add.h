// The CPU half of device/add.cuh. An add happens at once. With `reversed` the blocks and threads come in the opposite
// order, so the last bits of the sums change as on a GPU.
#pragma once
inline void global_add(float* gmem, float v, SIMT_HERE) {
  simt::check_global(gmem, sizeof v, AccessKind::STORE, here);
  *gmem += v;
}
inline void global_add(float* gmem, float4 v, SIMT_HERE) {
  simt::check_global(gmem, sizeof v, AccessKind::STORE, here);
  gmem[0] += v.x, gmem[1] += v.y, gmem[2] += v.z, gmem[3] += v.w;
}
