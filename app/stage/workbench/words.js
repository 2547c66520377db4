// CUDA's words beyond C++: qualifiers, built-in variables, types and functions. kernels/first-kernel.md
// describes what the CPU accepts.
const SPACES = ['__shared__', '__constant__', '__device__', '__global__', '__host__'];
const QUALIFIERS = [
  ...SPACES,
  '__restrict__',
  '__forceinline__',
  '__noinline__',
  '__launch_bounds__',
  '__align__',
  '__cluster_dims__',
];
const VARIABLES = ['threadIdx', 'blockIdx', 'blockDim', 'gridDim', 'warpSize'];
const VECTORS = ['char', 'uchar', 'short', 'ushort', 'int', 'uint', 'float', 'double'].flatMap(name =>
  [1, 2, 3, 4].map(n => `${name}${n}`),
);
const TYPES = [
  ...VECTORS,
  'dim3',
  'half',
  '__half',
  '__half2',
  'half2',
  '__nv_bfloat16',
  '__nv_bfloat162',
  '__nv_fp8_e4m3',
  '__nv_fp8_e5m2',
];
const FUNCTIONS = [
  ...['__syncthreads', '__syncthreads_count', '__syncthreads_and', '__syncthreads_or'],
  ...['__syncwarp', '__activemask', '__threadfence', '__threadfence_block'],
  ...['__shfl_sync', '__shfl_up_sync', '__shfl_down_sync', '__shfl_xor_sync'],
  ...['__all_sync', '__any_sync', '__ballot_sync', '__match_any_sync', '__reduce_add_sync'],
  ...['__ldg', '__ldcs', '__ldca', '__stcs', '__expf', '__logf', '__sinf', '__cosf', '__powf'],
  ...['__fdividef', '__fmaf_rn', '__fadd_rn', '__fmul_rn', '__frcp_rn', '__fsqrt_rn', '__saturatef'],
  ...['rsqrtf', 'expf', 'exp2f', 'logf', 'log2f', 'sqrtf', 'fmaxf', 'fminf', 'fmaf', 'fabsf', 'tanhf'],
  ...['__popc', '__clz', '__ffs', '__brev', '__float_as_int', '__int_as_float', 'clock64'],
  ...['__float2half', '__half2float', '__float2half_rn', '__float22half2_rn', '__half22float2'],
  ...['__float2bfloat16', '__bfloat162float', '__hadd', '__hmul', '__hfma', '__hfma2', '__hmul2'],
  ...['atomicAdd', 'atomicSub', 'atomicMax', 'atomicMin', 'atomicExch', 'atomicCAS', 'atomicOr'],
  ...['make_float2', 'make_float3', 'make_float4', 'make_int2', 'make_int4', 'make_uint4'],
  ...['__cvta_generic_to_shared', '__builtin_assume', '__trap'],
];
const PROBES = [
  ...['PROBE_PARAM', 'PROBE_BEGIN', 'PROBE_REF', 'PROBE_PASS', 'PROBE_MARK', 'PROBE_VALUE'],
  ...['PROBE_LOAD', 'PROBE_STORE'],
];

/** kind -> words; the kinds are classes of the editor's text. */
export const WORDS = {
  qualifier: QUALIFIERS,
  variable: VARIABLES,
  type: TYPES,
  function: FUNCTIONS,
  probe: PROBES,
};
/** @type {Map<string, string>} */
export const KIND_OF = new Map(Object.entries(WORDS).flatMap(([kind, words]) => words.map(word => [word, kind])));
