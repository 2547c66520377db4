// The order of the blocks of rungs 4 to 6.
#pragma once

// A block's key tile, and its KV head, counted over all sequences. The grid is [near, key tiles, sections of `near`
// heads]. Blocks start in the order x, y, z: in a section, the first key tile of all heads, then the next key tile.
// Under a causal mask the first key tiles see the most queries. So the longest blocks start first, and late blocks are
// short. The first section may have fewer than `near` heads. Its other blocks do not exist.
struct Place {
  int tile, kv;
  __device__ __forceinline__ Place(int x, int y, int z, int heads)
      : tile(y), kv(z * gridDim.x + x - (gridDim.x * gridDim.z - heads)) {}
  __device__ __forceinline__ bool exists() const { return kv >= 0; }
};
