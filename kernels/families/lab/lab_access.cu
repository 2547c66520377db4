/*
title = "One access"
idea = "one warp makes one access, at any 32 offsets: the smallest question for the profiler's counters."
changed_from = "lab_columns"
changed = "the offsets are an input, -1 for a lane that does not take part. Every width and kind of access is a build."
costs = "almost nothing. `python -m kernels calibrate` launches it some hundred times under Nsight Compute."
limits = "offsets below 32,768 bytes, multiples of the width. An ldmatrix needs all the rows it addresses."
source = "Warpglass. Its table is kernels/recordings/calibration.csv."
family = "lab"
problem = "access"
rung = 4

[[launches]]
entry = "lab_access"
grid = [1]
block = [32]
shared_bytes = 32768
args = ["x", "y", "o", {struct = ["int32 offsets"]}]
*/
#include "common.cuh"
#define BYTES 32768

// Item: the WIDTH bytes that a lane moves at once. OP: the kind of access. OP and its values, such as OP_LDMATRIX, are
// constants of the build from the table of kernels/trace/kinds.py.
#if WIDTH == 1
typedef unsigned char Item;
#elif WIDTH == 2
typedef half Item;
#elif WIDTH == 4
typedef float Item;
#elif WIDTH == 8
typedef float2 Item;
#else
typedef float4 Item;
#endif
struct Offsets { int of[32]; };                // bytes for each lane, -1 for a lane without access
union Bits { Item item; unsigned words[4]; };  // an item as 32-bit words

// O[lane] = the sum of the words of the lane's access. After a store to shared memory: of the words left in it.
//   X_gmem   [BYTES]  its 32-bit word w holds the number w
//   Y_gmem   [BYTES]  target of a store to global memory, written by nothing else
//   O_gmem   [32]     a sum for each lane, not written by a store to global memory
//   offsets  [32]     the start of each lane's access
extern "C" __global__ void lab_access(
    const unsigned char* X_gmem, unsigned char* Y_gmem, float* O_gmem,
    const __grid_constant__ Offsets offsets PROBE_PARAM) {
  DYNAMIC_SMEM(unsigned char, X_smem);
  const int lane = threadIdx.x, at = offsets.of[lane], tile = blockIdx.x;
  Bits bits = {};
  PROBE_BEGIN();
  PROBE_MARK(walk, tile);
#if OP == OP_SHARED_LOAD || OP == OP_LDMATRIX  // these read shared memory, so fill it first
  for (int i = lane * 4; i < BYTES; i += 128) {
    PROBE_STORE(X_smem, i, 4);
    sts<float>(&X_smem[i], __uint_as_float(i / 4));
  }
  __syncwarp();
#endif
  if (at >= 0) {
    bits.words[0] = WIDTH < 4 ? at % 251 : at / 4;
    for (int i = 1; i < WIDTH / 4; ++i) bits.words[i] = at / 4 + i;
  }
#if OP == OP_SHARED_LOAD
  if (at >= 0) {
    PROBE_LOAD(X_smem, at, WIDTH);
    bits.item = lds<Item>(&X_smem[at]);
  }
#elif OP == OP_SHARED_STORE
  if (at >= 0) {
    PROBE_STORE(X_smem, at, WIDTH);
    sts<Item>(&X_smem[at], bits.item);
  }
  __syncwarp();
  if (at >= 0) {
    PROBE_LOAD(X_smem, at, WIDTH);
    bits.item = lds<Item>(&X_smem[at]);
  }
#elif OP == OP_LDMATRIX
  unsigned words[MATRICES];
  if (lane < 8 * MATRICES) PROBE_LDMATRIX(X_smem, at, 16);
  ldmatrix(words, &X_smem[lane < 8 * MATRICES ? at : 0]);
  for (int i = 0; i < 4; ++i) bits.words[i] = i < MATRICES ? words[i < MATRICES ? i : 0] : 0;
#elif OP == OP_CP_ASYNC || OP == OP_CP_ASYNC_L2
  if (at >= 0) {
    PROBE_LOAD(X_gmem, at, WIDTH);
#if OP == OP_CP_ASYNC
    PROBE_CP_ASYNC(X_smem, at, WIDTH);
    cp_async<WIDTH>(&X_smem[at], &X_gmem[at]);
#else
    PROBE_CP_ASYNC_L2(X_smem, at, WIDTH);
    cp_async_l2(&X_smem[at], &X_gmem[at]);
#endif
  }
  cp_async_wait();
  __syncwarp();
  if (at >= 0) {
    PROBE_LOAD(X_smem, at, WIDTH);
    bits.item = lds<Item>(&X_smem[at]);
  }
#elif OP == OP_GLOBAL_LOAD
  if (at >= 0) {
    PROBE_LOAD(X_gmem, at, WIDTH);
    bits.item = ldg<Item>(&X_gmem[at]);
  }
#else
  if (at >= 0) {
    PROBE_STORE(Y_gmem, at, WIDTH);
    stg<Item>(&Y_gmem[at], bits.item);
  }
#endif
  PROBE_MARK(write, tile);
#if OP != OP_GLOBAL_STORE
  float total = 0.f;
  const unsigned first = WIDTH == 1 ? 0xff : WIDTH == 2 ? 0xffff : 0xffffffff;  // the used bits of the first word
  for (int i = 0; i < 4; ++i) total += (float)(i == 0 ? bits.words[0] & first : bits.words[i]);
  PROBE_STORE(O_gmem, lane, 4);
  stg<float>(&O_gmem[lane], total);
#endif
}
