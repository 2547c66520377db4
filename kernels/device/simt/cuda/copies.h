// The runtime's functions for copies and barriers (calls.h), over async.h. runtime.cpp includes it in extern "C".
#pragma once

void simt_copy_async(void* to, const void* from, size_t bytes, size_t zeros, void* pc) {
  start_copy((char*)to, (const char*)from, bytes, zeros, pc);
}
void simt_copies_commit() { ++own[current->linear].groups; }
void simt_copies_wait(unsigned open) {
  const unsigned closed = own[current->linear].groups;
  finish_copies(closed > open ? closed - open : 0);
}
void simt_copies_arrive(void* at, int noinc, const char* file, unsigned line, void* pc) {
  finish_copies(~0u);
  if (!noinc) {
    collective(pc, file, line);
    ++find_barrier(at, "cp.async.mbarrier.arrive").pending;
  }
  simt_mbarrier_arrive(at, 1, 0, file, line, pc);
}

void simt_mbarrier_init(void* at, unsigned arrivals, const char* file, unsigned line, void* pc) {
  collective(pc, file, line);
  access((char*)at, 8, SIMT_WRITE, pc), settle();
  const auto is = [at](const MBarrier& one) { return one.at == at; };
  auto found = std::find_if(barriers.shared.begin(), barriers.shared.end(), is);
  if (!arrivals) {  // mbarrier.inval
    if (found != barriers.shared.end()) found->at = nullptr;
    return;
  }
  if (found == barriers.shared.end()) found = barriers.shared.insert(found, MBarrier{});
  if (arrivals >= 1 << 20) die("mbarrier.init with %u arrivals; a barrier takes 1 to 1,048,575", arrivals);
  *found = MBarrier{(char*)at, arrivals, arrivals, 0, 0, 0, {}, {}, {}, {}};
  found->set_up = {place_of(pc), block_tag, now, own[current->linear].barriers, (uint16_t)current->linear, 0xff, 0};
}
// The barrier of an arrival or a wait. Its thread must be behind mbarrier.init
static MBarrier& used_barrier(void* at, const char* use, void* pc) {
  access((char*)at, 8, SIMT_ATOMIC, pc), settle();
  MBarrier& barrier = find_barrier(at, use);
  const Who me{place_of(pc), block_tag, now, own[current->linear].barriers, (uint16_t)current->linear, 0xff, 1};
  const Region* const r = line_count ? region_at((char*)at) : nullptr;
  if (r && !ordered(barrier.set_up, me))
    report_race(barrier.set_up, r - regions.data(), (char*)at - r->base, me.place, 3, false);
  return barrier;
}
uint64_t simt_mbarrier_arrive(void* at, unsigned count, unsigned bytes, const char* file, unsigned line, void* pc) {
  collective(pc, file, line);
  MBarrier& barrier = used_barrier(at, "an arrival", pc);
  if (count > barrier.pending)
    die("%u arrivals at the mbarrier at offset %u of shared memory, whose phase %u waits for %u of %u", count,
        offset_of(at), barrier.phase, barrier.pending, barrier.arrivals);
  const uint64_t phase = barrier.phase;
  barrier.expected += bytes;
  barrier.pending -= count;
  if (count) arrive_at(barrier.clock);
  if (count) end_phase_if_over(barrier);
  return phase;
}
// An arrival, and one fewer in each later phase
void simt_mbarrier_drop(void* at, const char* file, unsigned line, void* pc) {
  collective(pc, file, line);
  MBarrier& barrier = find_barrier(at, "an arrival");
  if (barrier.arrivals > 1) --barrier.arrivals;
  simt_mbarrier_arrive(at, 1, 0, file, line, pc);
}
// Whether the phase of a token, or of a parity, is over
bool simt_mbarrier_test(void* at, uint64_t phase, int parity, int waits, const char* file, unsigned line, void* pc) {
  collective(pc, file, line);
  const unsigned which = &used_barrier(at, "a wait", pc) - barriers.shared.data();
  const auto over = [=] {
    const unsigned now_in = barriers.shared[which].phase;
    return parity ? (now_in & 1) != (phase & 1) : now_in != (unsigned)phase;
  };
  if (parity && phase > 1) die("a wait for the parity %llu; it is 0 or 1", (unsigned long long)phase);
  if (!over() && waits) wait_for(For::SHARED, which);
  else if (!over()) count_test(barriers.shared[which]), settle(), yield();
  if (!over()) return false;
  see_phase(barriers.shared[which]);
  return true;
}
void simt_named_barrier(unsigned number, unsigned count, int waits, const char* file, unsigned line, void* pc) {
  collective(pc, file, line);
  if (number > 15) die("barrier %u; they are numbered 0 to 15", number);
  if (!count) count = (threads + 31) / 32 * 32;
  if (count % 32 || count > (threads + 31) / 32 * 32)
    die("barrier %u with %u threads: it takes whole warps, and no more than the block's %u threads", number,
        count, threads);
  Numbered& barrier = barriers.numbered[number];
  if (barrier.arrived && barrier.count != count)
    die("barrier %u with %u threads: those who came before said %u", number, count, barrier.count);
  barrier.count = count, barrier.came.resize(threads);
  if (barrier.came[current->linear])
    die("this thread has come to barrier %u before, and %u of %u threads came since", number, barrier.arrived, count);
  barrier.came[current->linear] = true;
  arrive_at(barrier.clock);
  const unsigned last = threads % 32 && count > threads ? threads : count;  // a last warp that is not full
  if (++barrier.arrived < last) {
    if (!waits) return;
    wait_for(For::NUMBER, number);
    join(current->linear, barriers.numbered[number].clock);
    return;
  }
  join(current->linear, barrier.clock);
  barrier.arrived = 0, barrier.came.assign(threads, false);
  wake(For::NUMBER, number);
}

static void check_bulk(const char* what, const void* smem, const void* gmem, unsigned bytes) {
  if (bytes < 16 || (bytes | offset_of(smem) | (uintptr_t)gmem) % 16)
    die("a %s of %u bytes at offset %u of shared memory; the size and both addresses must be multiples of 16", what,
        bytes, offset_of(smem));
}
void simt_bulk_load(void* to, const void* from, unsigned bytes, void* at, const char* file, unsigned line, void* pc) {
  collective(pc, file, line);
  check_bulk("bulk copy", to, from, bytes);
  start_bulk(find_barrier(at, "a bulk copy"), {{(char*)to, (const char*)from, bytes}}, bytes, {file, line}, pc);
}
// A copy of any size, whose bytes the barrier's phase also waits for
void simt_barrier_copy(void* to, const void* from, unsigned bytes, void* at, const char* file, unsigned line,
    void* pc) {
  collective(pc, file, line);
  MBarrier& barrier = find_barrier(at, "a copy");
  barrier.expected += bytes;
  start_bulk(barrier, {{(char*)to, (const char*)from, bytes}}, bytes, {file, line}, pc);
}
void simt_bulk_store(void* to, const void* from, unsigned bytes, const char* file, unsigned line, void* pc) {
  collective(pc, file, line);
  check_bulk("bulk copy", from, to, bytes);
  access((char*)from, bytes, SIMT_READ, pc), settle();
  access((char*)to, bytes, SIMT_WRITE, pc), settle();
  memcpy(value_of((char*)to), value_of((char*)from), bytes);
}
