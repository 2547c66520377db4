// The calls of the CUDA runtime that ask about a device, in a program on the CPU (program.h).
//
// The answers are those of an H100 with 80 GB. Events and streams give no time. An unknown call does not compile, and
// `open` names its line.
#pragma once
#include <cstring>

struct cudaUUID_t { char bytes[16]; };
struct cudaDeviceProp {
  char name[256];
  cudaUUID_t uuid;
  size_t totalGlobalMem, sharedMemPerBlock;
  int regsPerBlock, warpSize;
  size_t memPitch;
  int maxThreadsPerBlock, maxThreadsDim[3], maxGridSize[3], clockRate;
  size_t totalConstMem, textureAlignment;
  int major, minor, deviceOverlap, multiProcessorCount, kernelExecTimeoutEnabled, integrated, canMapHostMemory;
  int computeMode, concurrentKernels, ECCEnabled, pciBusID, pciDeviceID, pciDomainID, tccDriver, asyncEngineCount;
  int unifiedAddressing, memoryClockRate, memoryBusWidth, l2CacheSize, persistingL2CacheMaxSize;
  int maxThreadsPerMultiProcessor, streamPrioritiesSupported, globalL1CacheSupported, localL1CacheSupported;
  size_t sharedMemPerMultiprocessor;
  int regsPerMultiprocessor, managedMemory, isMultiGpuBoard, hostNativeAtomicSupported, pageableMemoryAccess;
  int concurrentManagedAccess, cooperativeLaunch, cooperativeMultiDeviceLaunch;
  size_t sharedMemPerBlockOptin;
  int maxBlocksPerMultiProcessor, accessPolicyMaxWindowSize;
  size_t reservedSharedMemPerBlock;
  int hostRegisterSupported, memoryPoolsSupported;
};
inline cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int = 0) {
  memset((void*)p, 0, sizeof *p);
  strcpy(p->name, "the numbers of an H100, on the CPU");
  p->totalGlobalMem = size_t(80) << 30, p->sharedMemPerBlock = 49152, p->sharedMemPerBlockOptin = 232448;
  p->sharedMemPerMultiprocessor = 233472, p->reservedSharedMemPerBlock = 1024, p->totalConstMem = 65536;
  p->memPitch = 2147483647, p->textureAlignment = 512, p->regsPerBlock = p->regsPerMultiprocessor = 65536;
  p->warpSize = 32, p->maxThreadsPerBlock = 1024, p->maxThreadsPerMultiProcessor = 2048;
  p->maxThreadsDim[0] = p->maxThreadsDim[1] = 1024, p->maxThreadsDim[2] = 64;
  p->maxGridSize[0] = 2147483647, p->maxGridSize[1] = p->maxGridSize[2] = 65535;
  p->major = 9, p->minor = 0, p->multiProcessorCount = 132, p->maxBlocksPerMultiProcessor = 32;
  p->clockRate = 1980000, p->memoryClockRate = 2619000, p->memoryBusWidth = 5120, p->l2CacheSize = 52428800;
  p->deviceOverlap = p->canMapHostMemory = p->concurrentKernels = p->ECCEnabled = p->unifiedAddressing = 1;
  p->streamPrioritiesSupported = p->globalL1CacheSupported = p->localL1CacheSupported = p->managedMemory = 1;
  p->concurrentManagedAccess = p->cooperativeLaunch = p->hostRegisterSupported = p->memoryPoolsSupported = 1;
  p->asyncEngineCount = 3;
  return cudaSuccess;
}
enum cudaDeviceAttr { cudaDevAttrMaxThreadsPerBlock, cudaDevAttrMaxBlockDimX, cudaDevAttrMaxGridDimX,
    cudaDevAttrMaxSharedMemoryPerBlock, cudaDevAttrMaxSharedMemoryPerBlockOptin, cudaDevAttrTotalConstantMemory,
    cudaDevAttrMaxSharedMemoryPerMultiprocessor, cudaDevAttrWarpSize, cudaDevAttrMaxRegistersPerBlock,
    cudaDevAttrClockRate, cudaDevAttrMemoryClockRate, cudaDevAttrGlobalMemoryBusWidth, cudaDevAttrL2CacheSize,
    cudaDevAttrMultiProcessorCount, cudaDevAttrMaxThreadsPerMultiProcessor, cudaDevAttrMaxRegistersPerMultiprocessor,
    cudaDevAttrComputeCapabilityMajor, cudaDevAttrComputeCapabilityMinor, cudaDevAttrCooperativeLaunch,
    cudaDevAttrMaxBlocksPerMultiprocessor, cudaDevAttrComputeMode, cudaDevAttrGpuOverlap, cudaDevAttrConcurrentKernels,
    cudaDevAttrManagedMemory, cudaDevAttrConcurrentManagedAccess, cudaDevAttrMemoryPoolsSupported,
    cudaDevAttrUnifiedAddressing, cudaDevAttrIntegrated };
inline cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr which, int = 0) {
  const int values[] = {1024, 1024, 2147483647, 49152, 232448, 65536, 233472, 32, 65536, 1980000, 2619000, 5120,
      52428800, 132, 2048, 65536, 9, 0, 1, 32, 0, 1, 1, 1, 1, 1, 1, 0};
  return *value = values[which], cudaSuccess;
}
enum cudaComputeMode { cudaComputeModeDefault, cudaComputeModeExclusive, cudaComputeModeProhibited };
enum cudaFuncCache { cudaFuncCachePreferNone, cudaFuncCachePreferShared, cudaFuncCachePreferL1,
    cudaFuncCachePreferEqual };
enum cudaSharedMemConfig { cudaSharedMemBankSizeDefault, cudaSharedMemBankSizeFourByte,
    cudaSharedMemBankSizeEightByte };
enum cudaSharedCarveout { cudaSharedmemCarveoutDefault = -1, cudaSharedmemCarveoutMaxL1 = 0,
    cudaSharedmemCarveoutMaxShared = 100 };
enum cudaLimit { cudaLimitStackSize, cudaLimitPrintfFifoSize, cudaLimitMallocHeapSize, cudaLimitPersistingL2CacheSize };
enum cudaMemoryAdvise { cudaMemAdviseSetReadMostly, cudaMemAdviseUnsetReadMostly, cudaMemAdviseSetPreferredLocation,
    cudaMemAdviseSetAccessedBy };
enum { cudaStreamDefault, cudaStreamNonBlocking, cudaEventDefault = 0, cudaEventBlockingSync, cudaEventDisableTiming,
    cudaHostAllocDefault = 0, cudaHostAllocPortable, cudaHostAllocMapped, cudaHostAllocWriteCombined = 4,
    cudaHostRegisterDefault = 0, cudaHostRegisterPortable, cudaHostRegisterMapped, cudaMemAttachGlobal = 1,
    cudaMemAttachHost, cudaMemAttachSingle = 4, cudaDeviceScheduleAuto = 0, cudaDeviceScheduleSpin,
    cudaDeviceMapHost = 8,
    cudaDeviceScheduleYield = 2, cudaDeviceScheduleBlockingSync = 4, cudaCpuDeviceId = -1, cudaErrorNotReady = 600,
    cudaErrorInvalidConfiguration = 9, cudaErrorNoDevice = 100 };
constexpr cudaStream_t cudaStreamLegacy = nullptr, cudaStreamPerThread = nullptr;

// ---- occupancy: by threads and shared memory. The registers of a build for a GPU are not known here ----
struct cudaFuncAttributes {
  size_t sharedSizeBytes, constSizeBytes, localSizeBytes;
  int maxThreadsPerBlock, numRegs, ptxVersion, binaryVersion, cacheModeCA, maxDynamicSharedSizeBytes;
  int preferredShmemCarveout;
};
template <class F> cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* p, F) {
  *p = {0, 0, 0, 1024, 32, 90, 90, 0, 49152, -1};
  return cudaSuccess;
}
template <class F> cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, F, int threads,
    size_t shared) {
  const int of_threads = 2048 / ((threads + 31) / 32 * 32), of_memory = 233472 / (shared + 1024);
  *blocks = of_threads < of_memory ? of_threads : of_memory;
  if (*blocks > 32) *blocks = 32;
  return cudaSuccess;
}
template <class F> cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, F entry, int threads,
    size_t shared, unsigned) { return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, entry, threads, shared); }
template <class F> cudaError_t cudaOccupancyMaxPotentialBlockSize(int* grid, int* block, F entry, size_t shared = 0,
    int most = 0) {
  int each = 1;
  *block = most > 0 && most < 1024 ? most : 1024;
  cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, entry, *block, shared);
  return *grid = 132 * each, cudaSuccess;
}
template <class F, class S> cudaError_t cudaOccupancyMaxPotentialBlockSizeVariableSMem(int* grid, int* block, F entry,
    S shared, int most = 0) { return cudaOccupancyMaxPotentialBlockSize(grid, block, entry, shared(1024), most); }

// ---- calls without an effect on the values ----
inline cudaError_t cudaMemGetInfo(size_t* unused, size_t* total) {
  return *unused = size_t(79) << 30, *total = size_t(80) << 30, cudaSuccess;
}
inline cudaError_t cudaDriverGetVersion(int* version) { return *version = 12080, cudaSuccess; }
inline cudaError_t cudaRuntimeGetVersion(int* version) { return *version = 12080, cudaSuccess; }
inline cudaError_t cudaProfilerStart() { return cudaSuccess; }
inline cudaError_t cudaProfilerStop() { return cudaSuccess; }
inline cudaError_t cudaThreadSynchronize() { return cudaSuccess; }
inline cudaError_t cudaThreadExit() { return cudaSuccess; }
inline cudaError_t cudaSetDeviceFlags(unsigned) { return cudaSuccess; }
inline cudaError_t cudaDeviceSetLimit(cudaLimit, size_t) { return cudaSuccess; }
inline cudaError_t cudaDeviceGetLimit(size_t* value, cudaLimit) { return *value = 1024, cudaSuccess; }
inline cudaError_t cudaDeviceSetCacheConfig(cudaFuncCache) { return cudaSuccess; }
inline cudaError_t cudaDeviceSetSharedMemConfig(cudaSharedMemConfig) { return cudaSuccess; }
template <class F> cudaError_t cudaFuncSetSharedMemConfig(F, cudaSharedMemConfig) { return cudaSuccess; }
inline cudaError_t cudaDeviceCanAccessPeer(int* can, int, int) { return *can = 0, cudaSuccess; }
inline cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) { return *least = 0, *greatest = -5,
    cudaSuccess; }
inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) { return *stream = nullptr, cudaSuccess; }
inline cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int) { return *stream = nullptr,
    cudaSuccess; }
inline cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned = 0) { return cudaSuccess; }
inline cudaError_t cudaStreamQuery(cudaStream_t) { return cudaSuccess; }
inline cudaError_t cudaStreamAttachMemAsync(cudaStream_t, void*, size_t = 0, unsigned = 4) { return cudaSuccess; }
inline cudaError_t cudaEventCreate(cudaEvent_t* event, unsigned) { return *event = nullptr, cudaSuccess; }
inline cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) { return *event = nullptr, cudaSuccess; }
inline cudaError_t cudaEventQuery(cudaEvent_t) { return cudaSuccess; }
inline cudaError_t cudaMemPrefetchAsync(const void*, size_t, int, cudaStream_t = nullptr) { return cudaSuccess; }
inline cudaError_t cudaMemAdvise(const void*, size_t, cudaMemoryAdvise, int) { return cudaSuccess; }
inline cudaError_t cudaHostRegister(void*, size_t, unsigned) { return cudaSuccess; }
inline cudaError_t cudaHostUnregister(void*) { return cudaSuccess; }

// ---- memory in rows, and symbols ----
template <class T> cudaError_t cudaMallocPitch(T** p, size_t* pitch, size_t width, size_t height) {
  *pitch = (width + 511) / 512 * 512;
  return cudaMalloc(p, *pitch * height);
}
inline cudaError_t cudaMemcpy2D(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
    size_t height, cudaMemcpyKind kind) {
  for (size_t row = 0; row < height; ++row)
    cudaMemcpy((char*)to + row * to_pitch, (const char*)from + row * from_pitch, width, kind);
  return simt_failed;
}
inline cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
    size_t height, cudaMemcpyKind kind, cudaStream_t = nullptr) {
  return cudaMemcpy2D(to, to_pitch, from, from_pitch, width, height, kind);
}
inline cudaError_t cudaMemset2D(void* p, size_t pitch, int value, size_t width, size_t height) {
  for (size_t row = 0; row < height; ++row) cudaMemset((char*)p + row * pitch, value, width);
  return simt_failed;
}
template <class T> cudaError_t cudaMemcpyToSymbolAsync(T& to, const void* from, size_t bytes, size_t at = 0,
    cudaMemcpyKind kind = cudaMemcpyHostToDevice, cudaStream_t = nullptr) { return cudaMemcpyToSymbol(to, from,
    bytes, at, kind); }
template <class P, class T> cudaError_t cudaGetSymbolAddress(P** p, const T& symbol) { return *p = (P*)&symbol,
    cudaSuccess; }
template <class T> cudaError_t cudaGetSymbolSize(size_t* bytes, const T&) { return *bytes = sizeof(T), cudaSuccess; }
template <class T> cudaError_t cudaHostGetDevicePointer(T** p, void* host, unsigned) { return *p = (T*)host,
    cudaSuccess; }
