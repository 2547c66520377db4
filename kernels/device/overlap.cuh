/*
[constants.PING_PONG]
default = 1
values = [0, 1]
meaning = "whether warpgroups take turns. With 0 each starts its products as soon as it has its scores."
*/
// The parts that kernels share whose products of one tile run while the exponentials of the next are computed.
#pragma once
#include "warp_roles.cuh"

// Waits for the next query tile and reads its work.
__device__ __forceinline__ Work next_work(const Rings& rings, const Turn<Q_STAGES>& Q_turn PROBE_REF) {
  const int stage = Q_turn.stage;
  PROBE_MARK(wait_q, stage);
  barrier_wait(&rings.Q_full[stage], Q_turn.parity);
  return read_work(rings.work_smem, stage PROBE_PASS);
}

// Keeps the exponentials in S before the wait for the products. The phase of the barrier is over, so no thread waits.
// But the loop inside ends a block of instructions, and ptxas moves nothing across its end.
template <int N>
__device__ __forceinline__ void keep_order(float (&S_rmem)[N], Barrier* barrier, int parity) {
  settle(S_rmem);
  barrier_wait(barrier, parity);
}

// Two consumers take turns on the tensor cores. A barrier by number passes the turn from one to the next.
struct PingPong {
  bool on, is_last;
  int own, next;  // barriers by number
  // The turns of a query tile. The first warpgroup has the first turn, if a second tile follows.
  static __device__ __forceinline__ PingPong open(bool enabled, int warpgroup, int tiles) {
    const bool on = enabled && WARPGROUPS > 1, is_last = warpgroup == WARPGROUPS;
    const PingPong turns{on, is_last, warpgroup, is_last ? 1 : warpgroup + 1};
    if (on && is_last && tiles > 1) named_arrive(turns.next, 256);
    return turns;
  }
  __device__ __forceinline__ void wait() const {
    if (on) named_sync(own, 256);
  }
  // The last warpgroup passes the turn on only if a tile follows.
  __device__ __forceinline__ void pass(bool tile_follows) const {
    if (on && (!is_last || tile_follows)) named_arrive(next, 256);
  }
};
