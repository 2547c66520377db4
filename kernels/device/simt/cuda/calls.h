// The calls from a plain kernel into runtime.cpp. Both files include this header.
#pragma once
#include <cstddef>
#include <cstdint>

struct uint3 { unsigned x, y, z; };
enum simt_kind { SIMT_READ, SIMT_WRITE, SIMT_ATOMIC, SIMT_BARRIER, SIMT_SHUFFLE, SIMT_START, SIMT_VALUE, SIMT_KEY };

extern "C" {
uint3 simt_thread_idx();
uint3 simt_block_idx();
uint3 simt_block_dim();
uint3 simt_grid_dim();
unsigned simt_rank();  // the thread's number in its block, x fastest
char* simt_dynamic_shared();
unsigned simt_dynamic_bytes();
// A __shared__ array, before its first access of a thread
void simt_shared(const char* name, const void* array, size_t bytes, size_t element);
void simt_access(const void* p, size_t bytes, int kind, void* pc);  // of an instrumented build
void simt_leave(void* pc);                                          // before a kernel's `return;`

void simt_barrier(const char* file, unsigned line, void* pc, int predicate, int* count_and_or);
void simt_syncwarp(unsigned mask, const char* file, unsigned line, void* pc);
uint64_t simt_exchange(unsigned mask, uint64_t value, unsigned source, const char* file, unsigned line, void* pc);
unsigned simt_vote(unsigned mask, int holds, const char* file, unsigned line, void* pc);
// The lanes meet. The last one calls work with a pointer of each lane.
void simt_together(unsigned mask, void* mine, void (*work)(void**, unsigned), const char* file, unsigned line,
                   void* pc);
void simt_grid_barrier(const char* file, unsigned line, void* pc);
void simt_spin();    // lets other threads go on, now and then
void simt_fence();   // __threadfence
void simt_copy_async(void* to, const void* from, size_t bytes);
void simt_copies_commit();
void simt_copies_wait(unsigned groups);  // until at most this many groups are open
void simt_quiet(int on);  // a mark's own accesses leave no record
void simt_log_value(unsigned number, float value, const long long* keys, unsigned count, void* pc);
int simt_print(const char* format, ...);
[[noreturn]] void simt_stop(const char* file, unsigned line, const char* why);
int simt_run(void* request, void (*entry)(void**), void** args);
}

// A function with accesses to the kernel's memory reports them itself, with its caller's address.
#define SIMT_OWN __attribute__((noinline, no_sanitize("thread"), no_sanitize("undefined")))
#define SIMT_PC __builtin_return_address(0)
#define SIMT_SITE const char *file = __builtin_FILE(), unsigned line = __builtin_LINE()
#ifdef __SANITIZE_THREAD__
#define SIMT_REPORT(p, bytes, kind) simt_access(p, bytes, kind, SIMT_PC)
#else
#define SIMT_REPORT(p, bytes, kind) ((void)0)
#endif
