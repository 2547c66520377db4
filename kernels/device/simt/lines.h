// Each probe notes its line in the fiber that passes it. unit.cpp includes it after the headers that define the
// probes, and before the kernel. A build with marks keeps its own probes.
#pragma once

#ifndef MARK_EVERY
#define SIMT_PASS_PROBE()                                    \
  __extension__({                                            \
    static constexpr simt::Site site{__FILE__, __LINE__};    \
    simt::pass_probe(&site);                                 \
  })
#ifdef PROBED
#undef PROBE_HERE
#define PROBE_HERE (SIMT_PASS_PROBE(), ProbeSite<probe_site(__FILE__, __LINE__)>::word)
#else
#undef PROBE_MARK
#undef PROBE_VALUE
#undef PROBE_ROLE
#undef PROBE_LOAD
#undef PROBE_STORE
#undef PROBE_LDMATRIX
#undef PROBE_CP_ASYNC
#undef PROBE_CP_ASYNC_L2
#undef PROBE_TMA
#undef PROBE_TMA_SMEM
#undef PROBE_PRODUCT
#define PROBE_MARK(...) SIMT_PASS_PROBE()
#define PROBE_VALUE(...) SIMT_PASS_PROBE()
#define PROBE_ROLE(...) SIMT_PASS_PROBE()
#define PROBE_LOAD(...) SIMT_PASS_PROBE()
#define PROBE_STORE(...) SIMT_PASS_PROBE()
#define PROBE_LDMATRIX(...) SIMT_PASS_PROBE()
#define PROBE_CP_ASYNC(...) SIMT_PASS_PROBE()
#define PROBE_CP_ASYNC_L2(...) SIMT_PASS_PROBE()
#define PROBE_TMA(...) SIMT_PASS_PROBE()
#define PROBE_TMA_SMEM(...) SIMT_PASS_PROBE()
#define PROBE_PRODUCT(...) SIMT_PASS_PROBE()
#endif
#endif
