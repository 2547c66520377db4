// Fibers: many call stacks on one OS thread. switch_stack saves the callee-saved registers on the running stack, stores
// its stack pointer in *save, and continues where `load` was saved.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>

extern "C" void simt_switch_stack(void** save, void* load) __attribute__((visibility("hidden")));

#if defined(__x86_64__)
asm(".text\n.p2align 4\n.globl simt_switch_stack\n.hidden simt_switch_stack\nsimt_switch_stack:\n"
    "pushq %rbp\npushq %rbx\npushq %r12\npushq %r13\npushq %r14\npushq %r15\n"
    "movq %rsp,(%rdi)\nmovq %rsi,%rsp\n"
    "popq %r15\npopq %r14\npopq %r13\npopq %r12\npopq %rbx\npopq %rbp\nret\n");
constexpr size_t SAVED_BYTES = 64, ENTRY_AT = 48;  // six registers, the return address, one word for alignment
#elif defined(__aarch64__)
asm(".text\n.p2align 4\n.globl simt_switch_stack\n.hidden simt_switch_stack\nsimt_switch_stack:\n"
    "sub sp,sp,#176\nstp x19,x20,[sp]\nstp x21,x22,[sp,#16]\nstp x23,x24,[sp,#32]\nstp x25,x26,[sp,#48]\n"
    "stp x27,x28,[sp,#64]\nstp x29,x30,[sp,#80]\nstp d8,d9,[sp,#96]\nstp d10,d11,[sp,#112]\nstp d12,d13,[sp,#128]\n"
    "stp d14,d15,[sp,#144]\nmov x9,sp\nstr x9,[x0]\nmov sp,x1\nldp x19,x20,[sp]\nldp x21,x22,[sp,#16]\n"
    "ldp x23,x24,[sp,#32]\nldp x25,x26,[sp,#48]\nldp x27,x28,[sp,#64]\nldp x29,x30,[sp,#80]\nldp d8,d9,[sp,#96]\n"
    "ldp d10,d11,[sp,#112]\nldp d12,d13,[sp,#128]\nldp d14,d15,[sp,#144]\nadd sp,sp,#176\nret\n");
constexpr size_t SAVED_BYTES = 176, ENTRY_AT = 88;
#else
#error "the CPU shim knows x86-64 and 64-bit Arm; on another processor use a GPU or the recordings"
#endif

namespace simt {
// A stack that starts in `entry` at the first switch to the pointer returned.
inline void* fresh_stack(char* stack, size_t bytes, void (*entry)()) {
  char* top = reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(stack) + bytes) & ~uintptr_t(15)) - SAVED_BYTES;
  memset(top, 0, SAVED_BYTES);
  memcpy(top + ENTRY_AT, &entry, sizeof entry);
  return top;
}
}  // namespace simt
