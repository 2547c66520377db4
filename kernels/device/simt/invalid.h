// The first operation without a number: 0 * inf, 0 / 0, inf - inf. In a launch that asks for it, the processor traps
// such an operation, so that the message has its line. A NaN that comes from memory or from an unset local traps not.
#pragma once
#if defined(__x86_64__)
#include <ucontext.h>
#endif

namespace simt {
constexpr unsigned TRAP_INVALID = 2;  // of Launch::reversed
static bool traps_invalid;

#if defined(__x86_64__)
constexpr unsigned INVALID = 1u, MASKED = 1u << 7;  // bits of MXCSR
static void trap_invalid(bool on) {
  traps_invalid = on;
  const unsigned now = __builtin_ia32_stmxcsr() & ~INVALID;
  __builtin_ia32_ldmxcsr(on ? now & ~MASKED : now | MASKED);
}
// In words: the operation of SSE or AVX at the program counter. The first operand tells inf - inf from (-inf) - (-inf).
static const char* invalid_text(const void* context) {
  const auto& machine = static_cast<const ucontext_t*>(context)->uc_mcontext;
  const unsigned char* c = reinterpret_cast<const unsigned char*>(machine.gregs[REG_RIP]);
  const bool short_vex = *c == 0xc5, long_vex = *c == 0xc4, vex = short_vex || long_vex;
  bool wide = false;
  for (; !vex && (*c == 0xf3 || *c == 0xf2 || *c == 0x66 || (*c & 0xf0) == 0x40); ++c) wide = wide || *c == 0xf2 ||
      *c == 0x66;
  const unsigned char opcode = vex ? c[short_vex ? 2 : 3] : c[1], model = vex ? c[short_vex ? 3 : 4] : c[2];
  const unsigned last = vex ? c[short_vex ? 1 : 2] : 0;
  wide = vex ? (last & 3) == 1 || (last & 3) == 3 : wide;
  const unsigned first = vex ? ~last >> 3 & 15 : model >> 3 & 7;
  if (long_vex && (c[1] & 31) == 2) return "0 * inf or inf - inf in a fused multiply-add";
  switch (opcode) {
    case 0x58: return "inf + (-inf)";
    case 0x59: return "0 * inf";
    case 0x5e: return "0 / 0 or inf / inf";
    case 0x51: return "the square root of a number below 0";
    case 0x2c: case 0x2d: case 0x5a: case 0x5b: return "a conversion of a number that its type cannot hold";
    case 0x2e: case 0x2f: case 0xc2: case 0x5d: case 0x5f: return "a comparison with NaN";
    case 0x5c: return machine.fpregs->_xmm[first].element[wide ? 1 : 0] >> 31 ? "(-inf) - (-inf)" : "inf - inf";
    default: return "an operation without a result";
  }
}
#else
static void trap_invalid(bool) {}
static const char* invalid_text(const void*) { return "an operation without a result"; }
#endif
}  // namespace simt
