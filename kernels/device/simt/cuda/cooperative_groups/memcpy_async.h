// cooperative_groups::memcpy_async and wait: each thread of the group copies a part.
#pragma once
#include "../cooperative_groups.h"
#include "../cuda_pipeline.h"

namespace cooperative_groups {
template <class GROUP>
SIMT_OWN void simt_share(const GROUP& group, void* to, const void* from, size_t bytes, void* pc) {
  constexpr size_t PART = 4;
  for (size_t at = group.thread_rank() * PART; at < bytes; at += group.size() * PART)
    simt_copy_async(static_cast<char*>(to) + at, static_cast<const char*>(from) + at,
        bytes - at < PART ? bytes - at : PART,
                    0, pc);
}
template <class GROUP>
SIMT_OWN void memcpy_async(const GROUP& group, void* to, const void* from, size_t bytes) {
  simt_share(group, to, from, bytes, SIMT_PC);
  simt_copies_commit();
}
template <class GROUP> void wait(const GROUP& group, SIMT_SITE) {
  simt_copies_wait(0);
  group.sync(file, line);
}
}  // namespace cooperative_groups
