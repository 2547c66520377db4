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
// Offsets of shared memory: dynamic memory from 0, then each static array
unsigned simt_shared_offset(const void* p);
void* simt_shared_pointer(unsigned offset, const char* file, unsigned line, void* pc);
void simt_copy_async(void* to, const void* from, size_t bytes, size_t zeros, void* pc);
void simt_copies_commit();
void simt_copies_wait(unsigned groups);  // until at most this many groups are open
void simt_copies_arrive(void* barrier, int noinc, const char* file, unsigned line, void* pc);
// Barriers in shared memory (mbarrier), barriers by number, bulk copies (async.h)
void simt_mbarrier_init(void* at, unsigned arrivals, const char* file, unsigned line, void* pc);
uint64_t simt_mbarrier_arrive(void* at, unsigned count, unsigned bytes, const char* file, unsigned line, void* pc);
bool simt_mbarrier_test(void* at, uint64_t phase, int parity, int waits, const char* file, unsigned line, void* pc);
void simt_mbarrier_drop(void* at, const char* file, unsigned line, void* pc);
void simt_barrier_copy(void* to, const void* from, unsigned bytes, void* barrier, const char* file,
    unsigned line, void* pc);
void simt_named_barrier(unsigned number, unsigned count, int waits, const char* file, unsigned line, void* pc);
void simt_bulk_load(void* to, const void* from, unsigned bytes, void* barrier, const char* file, unsigned line,
    void* pc);
void simt_bulk_store(void* to, const void* from, unsigned bytes, const char* file, unsigned line, void* pc);
void simt_box_load(void* to, const void* map, const unsigned long long* at, int dimensions, void* barrier,
                   const char* file, unsigned line, void* pc);
void simt_box_store(const void* map, const unsigned long long* at, int dimensions, const void* from, const char* file,
                    unsigned line, void* pc);
// Products of a warpgroup (products.h). The operand's descriptors, or A from registers
void simt_wgmma(unsigned long long* d, const unsigned long long* a, unsigned long long a_at, unsigned long long b_at,
                unsigned flags, unsigned types, unsigned columns, const char* file, unsigned line, void* pc);
void simt_wgmma_fence(const char* file, unsigned line, void* pc);
void simt_wgmma_commit(const char* file, unsigned line, void* pc);
void simt_wgmma_wait(unsigned open, const char* file, unsigned line, void* pc);
// Matrices of a warp (matrices.h)
void simt_load_matrices(unsigned* words, int count, int trans, const void* row, const char* file,
    unsigned line, void* pc);
void simt_store_matrices(const unsigned* words, int count, int trans, void* row, const char* file,
    unsigned line, void* pc);
unsigned simt_turn_matrix(unsigned word, const char* file, unsigned line, void* pc);
void simt_mma(unsigned long long* d, const unsigned long long* a, const unsigned long long* b,
    const unsigned long long* c,
              unsigned types, int depth, const char* file, unsigned line, void* pc);
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
