// lab_access. Idea: one warp makes one access, at any 32 offsets: the smallest thing that the profiler's counters can be asked about.
// Changed from lab_columns: the offsets come from outside, -1 for a lane that stays out; every width and kind of access is a build.
// Costs: nothing to speak of; `python -m kernels calibrate` launches it some hundred times under Nsight Compute.
// Limits: offsets below BYTES, multiples of the width; an ldmatrix needs all the rows it addresses.
// Source: Warpglass; its table is kernels/recordings/calibration.csv.
#include "common.cuh"
#define BYTES 32768
#define SHARED_LOAD 0
#define SHARED_STORE 1
#define LDMATRIX 2
#define CP_ASYNC 3
#define CP_ASYNC_L2 4
#define GLOBAL_LOAD 5
#define GLOBAL_STORE 6
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
struct Offsets { int of[32]; };
union Bits { Item item; unsigned words[4]; };

// O[lane] = the sum of the words that the lane's access carried (for a store: that lie there afterwards)   [32]; X's word w is w
extern "C" __global__ void lab_access(const unsigned char* X_gmem, unsigned char* Y_gmem, float* O_gmem, const __grid_constant__ Offsets offsets PROBE_PARAM) {
  DYNAMIC_SMEM(unsigned char, X_smem);
  const int lane = threadIdx.x, at = offsets.of[lane], tile = blockIdx.x;
  Bits bits = {};
  PROBE_BEGIN();
  PROBE_MARK(walk, tile);
#if OP == SHARED_LOAD || OP == LDMATRIX
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
#if OP == SHARED_LOAD
  if (at >= 0) {
    PROBE_LOAD(X_smem, at, WIDTH);
    bits.item = lds<Item>(&X_smem[at]);
  }
#elif OP == SHARED_STORE
  if (at >= 0) {
    PROBE_STORE(X_smem, at, WIDTH);
    sts<Item>(&X_smem[at], bits.item);
  }
  __syncwarp();
  if (at >= 0) {
    PROBE_LOAD(X_smem, at, WIDTH);
    bits.item = lds<Item>(&X_smem[at]);
  }
#elif OP == LDMATRIX
  unsigned words[MATRICES];
  if (lane < 8 * MATRICES) PROBE_LDMATRIX(X_smem, at, 16);
  ldmatrix(words, &X_smem[lane < 8 * MATRICES ? at : 0]);
  for (int i = 0; i < 4; ++i) bits.words[i] = i < MATRICES ? words[i < MATRICES ? i : 0] : 0;
#elif OP == CP_ASYNC || OP == CP_ASYNC_L2
  if (at >= 0) {
    PROBE_LOAD(X_gmem, at, WIDTH);
    PROBE_CP_ASYNC(X_smem, at, WIDTH);
#if OP == CP_ASYNC
    cp_async<WIDTH>(&X_smem[at], &X_gmem[at]);
#else
    cp_async_l2(&X_smem[at], &X_gmem[at]);
#endif
  }
  cp_async_wait();
  __syncwarp();
  if (at >= 0) {
    PROBE_LOAD(X_smem, at, WIDTH);
    bits.item = lds<Item>(&X_smem[at]);
  }
#elif OP == GLOBAL_LOAD
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
#if OP != GLOBAL_STORE
  float total = 0.f;
  for (int i = 0; i < 4; ++i) total += (float)(i == 0 && WIDTH == 1 ? bits.words[0] & 0xff : i == 0 && WIDTH == 2 ? bits.words[0] & 0xffff : bits.words[i]);
  PROBE_STORE(O_gmem, lane, 4);
  stg<float>(&O_gmem[lane], total);
#endif
}
