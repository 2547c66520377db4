/*
title = "Transpose"
idea = "A tile turns rows into columns."
changed = "nothing."
costs = "bank conflicts without PAD."
limits = "64 x 64."
source = "this notebook"
family = "free"
truth = "x.T"
constants.PAD = {default = 0, values = [0, 1], meaning = "unused columns of the tile"}
tensors.x = {shape = [64, 64]}
tensors.y = {shape = [64, 64], role = "output", initial = "poison"}

[[launches]]
entry = "turn"
grid = [2, 2]
block = [32, 32]
args = ["x", "y", "int32 64"]
*/
extern "C" __global__ void turn(const float* x, float* y, int n) {
  __shared__ float tile[32][32 + PAD];
  int col = blockIdx.x * 32, row = blockIdx.y * 32;
  tile[threadIdx.y][threadIdx.x] = x[(row + threadIdx.y) * n + col + threadIdx.x];
  __syncthreads();
  y[(col + threadIdx.y) * n + row + threadIdx.x] = tile[threadIdx.x][threadIdx.y];
}
