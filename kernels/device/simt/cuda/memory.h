// Loads and stores with a hint for the cache, atomics, fences
#pragma once

#define SIMT_LOAD(name)                              \
  template <class T> SIMT_OWN T name(const T* p) {   \
    SIMT_REPORT(p, sizeof(T), SIMT_READ);            \
    return *p;                                       \
  }
SIMT_LOAD(__ldg)
SIMT_LOAD(__ldca)
SIMT_LOAD(__ldcg)
SIMT_LOAD(__ldcs)
SIMT_LOAD(__ldcv)
SIMT_LOAD(__ldlu)
#undef SIMT_LOAD
template <class T> struct simt_same { using type = T; };  // the pointer decides T, as for CUDA's overloads
#define SIMT_STORE(name)                                                              \
  template <class T> SIMT_OWN void name(T* p, typename simt_same<T>::type v) {        \
    SIMT_REPORT(p, sizeof(T), SIMT_WRITE);                                            \
    *p = v;                                                                           \
  }
SIMT_STORE(__stcg)
SIMT_STORE(__stcs)
SIMT_STORE(__stwb)
SIMT_STORE(__stwt)
#undef SIMT_STORE

// Threads are fibers of one processor thread, so a plain read and write are atomic.
#define SIMT_ATOMIC_OP(name, result)                                                  \
  template <class T> SIMT_OWN T name(T* p, typename simt_same<T>::type v) {           \
    simt_spin();                                                                      \
    SIMT_REPORT(p, sizeof(T), SIMT_ATOMIC);                                           \
    const T old = *p;                                                                 \
    *p = result;                                                                      \
    return old;                                                                       \
  }                                                                                   \
  template <class T> SIMT_OWN T name##_block(T* p, typename simt_same<T>::type v) {   \
    SIMT_REPORT(p, sizeof(T), SIMT_ATOMIC);                                           \
    const T old = *p;                                                                 \
    *p = result;                                                                      \
    return old;                                                                       \
  }
SIMT_ATOMIC_OP(atomicAdd, old + v)
SIMT_ATOMIC_OP(atomicSub, old - v)
SIMT_ATOMIC_OP(atomicExch, v)
SIMT_ATOMIC_OP(atomicMax, old > v ? old : v)
SIMT_ATOMIC_OP(atomicMin, old < v ? old : v)
SIMT_ATOMIC_OP(atomicAnd, old & v)
SIMT_ATOMIC_OP(atomicOr, old | v)
SIMT_ATOMIC_OP(atomicXor, old ^ v)
SIMT_ATOMIC_OP(atomicInc, old >= v ? 0 : old + 1)
SIMT_ATOMIC_OP(atomicDec, old == 0 || old > v ? v : old - 1)
#undef SIMT_ATOMIC_OP
template <class T>
SIMT_OWN T atomicCAS(T* p, typename simt_same<T>::type expected, typename simt_same<T>::type v) {
  simt_spin();
  SIMT_REPORT(p, sizeof(T), SIMT_ATOMIC);
  const T old = *p;
  if (old == expected) *p = v;
  return old;
}
inline void __threadfence() { simt_fence(); }
inline void __threadfence_block() {}
inline void __threadfence_system() { simt_fence(); }
template <class T> bool __isShared(const T* p) {
  const char* const c = reinterpret_cast<const char*>(p);
  return c >= simt_dynamic_shared() && c < simt_dynamic_shared() + simt_dynamic_bytes();
}
inline size_t __cvta_generic_to_shared(const void* p) { return simt_shared_offset(p); }
inline void* __cvta_shared_to_generic(size_t offset) {
  return simt_shared_pointer((unsigned)offset, "", 0, __builtin_return_address(0));
}
inline size_t __cvta_generic_to_global(const void* p) { return reinterpret_cast<size_t>(p); }
inline void* __cvta_global_to_generic(size_t p) { return reinterpret_cast<void*>(p); }
