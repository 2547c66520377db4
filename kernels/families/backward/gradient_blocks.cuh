// The order of the blocks of rungs 4 to 6.
#pragma once

// A block's key tile, and its KV head, counted over all sequences. The grid is [near, key tiles, sections of `near`
// heads]. Blocks start in the order x, y, z: in a section, the first key tile of all heads, then the next key tile.
// Under a causal mask the first key tiles see the most queries. So the longest blocks start first, and late blocks are
// short. The first section may have fewer than `near` heads. Its other blocks do not exist. If blocks share a KV head
// (gradient_parts.cuh), each part of it counts as a head.
//
// `near` comes from sweeps. Few heads find their query tiles in the L2 cache. Rungs 4 and 5 take 264 blocks (H100), two
// for each SM. If all heads fit into one section, the first section has one head. Rung 6 takes at most 256 (H200). With
// 16,384 tokens and 4 KV heads, sections of 3 heads took 1.29 times as long as sections of 2. In a fixed order under a
// causal mask, key tiles of a head wait for each other, so more heads share a section.
struct Place {
  int tile, kv;
  __device__ __forceinline__ Place(int x, int y, int z, int heads)
      : tile(y), kv(z * gridDim.x + x - (gridDim.x * gridDim.z - heads)) {}
  __device__ __forceinline__ bool exists() const { return kv >= 0; }
};
