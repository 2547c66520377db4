// The names of NVIDIA's helper_*.h headers that programs with main() use, for a run on the CPU (program.h).
#pragma once
#include <algorithm>
#include <cmath>
#include <cstring>

#ifndef MAX
#define MAX(a, b) ((a) > (b) ? (a) : (b))
#endif
#ifndef MIN
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#endif
#ifndef EXIT_WAIVED
#define EXIT_WAIVED 2
#endif
inline void simt_checked(cudaError_t code, const char* call, const char* file, int line) {
  if (!code) return;
  fprintf(stderr, "%s:%d: %s: %s\n", file, line, call, cudaGetErrorString(code));
  exit(1);
}
#define checkCudaErrors(call) simt_checked((call), #call, __FILE__, __LINE__)
#define getLastCudaError(said) simt_checked(cudaGetLastError(), said, __FILE__, __LINE__)
#define printLastCudaError(said) ((void)cudaGetLastError())
inline const char* _cudaGetErrorEnum(cudaError_t code) { return cudaGetErrorName(code); }
inline int findCudaDevice(int, const char**) { return 0; }
inline int findIntegratedGPU() { return -1; }
inline int gpuDeviceInit(int) { return 0; }
inline int gpuGetMaxGflopsDeviceId() { return 0; }
inline bool checkCudaCapabilities(int, int) { return true; }
inline int _ConvertSMVer2Cores(int, int) { return 128; }
inline const char* _ConvertSMVer2ArchName(int, int) { return "Hopper"; }

// ---- the command line ----
inline const char* simt_option(int argc, const char** argv, const char* name) {
  for (int n = 1; n < argc; ++n) {
    const char* said = argv[n] + strspn(argv[n], "-");
    const size_t length = strlen(name);
    if (!strncmp(said, name, length) && (said[length] == '=' || !said[length])) return said + length;
  }
  return nullptr;
}
inline bool checkCmdLineFlag(int argc, const char** argv, const char* name) { return simt_option(argc, argv, name); }
inline int getCmdLineArgumentInt(int argc, const char** argv, const char* name) {
  const char* said = simt_option(argc, argv, name);
  return said && *said ? atoi(said + 1) : 0;
}
inline float getCmdLineArgumentFloat(int argc, const char** argv, const char* name) {
  const char* said = simt_option(argc, argv, name);
  return said && *said ? (float)atof(said + 1) : 0.f;
}
template <class T> bool getCmdLineArgumentValue(int argc, const char** argv, const char* name, T* value) {
  return simt_option(argc, argv, name) ? (*value = (T)getCmdLineArgumentFloat(argc, argv, name), true) : false;
}
inline bool getCmdLineArgumentString(int argc, const char** argv, const char* name, char** value) {
  const char* said = simt_option(argc, argv, name);
  return said && *said ? (*value = (char*)said + 1, true) : (*value = nullptr, false);
}
inline char* sdkFindFilePath(const char*, const char*) { return nullptr; }

// ---- timers: a CPU gives no time ----
struct StopWatchInterface {
  void start() {}
  void stop() {}
  void reset() {}
  float getTime() { return 0.f; }
  float getAverageTime() { return 0.f; }
};
inline bool sdkCreateTimer(StopWatchInterface** timer) { return *timer = new StopWatchInterface, true; }
inline bool sdkDeleteTimer(StopWatchInterface** timer) { return delete *timer, *timer = nullptr, true; }
inline bool sdkStartTimer(StopWatchInterface**) { return true; }
inline bool sdkStopTimer(StopWatchInterface**) { return true; }
inline bool sdkResetTimer(StopWatchInterface**) { return true; }
inline float sdkGetTimerValue(StopWatchInterface**) { return 0.f; }
inline float sdkGetAverageTimerValue(StopWatchInterface**) { return 0.f; }

// ---- comparisons ----
template <class T, class S> bool compareData(const T* reference, const T* data, unsigned count, S most, float share) {
  unsigned wrong = 0;
  for (unsigned n = 0; n < count; ++n) wrong += std::fabs((double)reference[n] - (double)data[n]) > (double)most;
  return wrong <= share * count;
}
inline bool sdkCompareL2fe(const float* reference, const float* data, unsigned count, float most) {
  double error = 0, norm = 0;
  for (unsigned n = 0; n < count; ++n)
    error += (double)(reference[n] - data[n]) * (reference[n] - data[n]), norm += (double)reference[n] * reference[n];
  return norm > 0 && std::sqrt(error / norm) < most;
}
