// Races of a kernel with written probes: the rules of cuda/shadow.h for its accesses by lds, sts, ldg, stg, ldmatrix
// and cp_async, inside each block. A launch that asks for it stops at the first race, with both lines.
//
// Two accesses are ordered if a barrier of the block is between them, or for two lanes of a warp if they met in a
// collective. Copies by cp_async land at their wait. A kernel with hopper.cuh has other orders and is not watched.
#pragma once

namespace simt {
constexpr unsigned WATCH_RACES = 4;  // of Launch::reversed
static bool watching;

struct Toucher { Site here; uint32_t block, time, barriers; uint16_t thread; uint8_t bytes; };  // bytes: of a word
struct Word { Toucher write, read[2], flight; };  // flight: a copy that nobody has waited for
struct Words { const char* base; uint64_t bytes; Word* words; };
constexpr unsigned WATCHED_MOST = 64;
static Words watched[WATCHED_MOST];  // shared memory, then the buffers of the launch
static unsigned watched_count;
static uint32_t watch_block, watch_now, watch_barriers;
static uint32_t met[THREADS_MAX][32];  // when a thread last met each lane of its warp

static void add_watched(const char* base, uint64_t bytes) {
  if (watched_count == WATCHED_MOST) return;
  watched[watched_count++] = {base, bytes, static_cast<Word*>(calloc(bytes / 4 + 1, sizeof(Word)))};
}
static void start_watch(bool on) {
  watching = on;
  if (!on) return;
  add_watched(shared_memory, launch->shared_bytes);
  for (unsigned i = 0; i < launch->buffer_count; ++i) add_watched(launch->buffers[i].base, launch->buffers[i].bytes);
}
static void end_watch() {
  while (watched_count) free(watched[--watched_count].words);
  watching = false;
}
static void watch_start_of_block() {
  ++watch_block, watch_barriers = 0;
  memset(met, 0, sizeof met);
}
static void watch_meeting(unsigned warp, unsigned mask) {
  ++watch_now;
  for (unsigned l = 0; l < 32; ++l)
    for (unsigned k = 0; mask >> l & 1 && k < 32; ++k)
      if (mask >> k & 1) met[warp + l][k] = watch_now;
}
static bool ordered(const Toucher& before, unsigned thread) {
  return before.block != watch_block || before.thread == thread || before.barriers < watch_barriers ||
         (before.thread / 32 == thread / 32 && met[thread][before.thread % 32] > before.time);
}
// "K_smem[12]", from the probe of this access
static Phrase accessed(const void* p) {
  if (!current->announced_by) return address_of(p);
  Phrase phrase;
  Text text = phrase.grow();
  add_announced(text);
  return phrase;
}
[[noreturn]] COLD static void die_of_race(const Toucher& first, const void* p, bool first_writes, bool writes) {
  const char* const other = first.thread / 32 == current->linear / 32 ? "another lane" : "another warp";
  const char* const remedy = first.thread / 32 == current->linear / 32 ? "__syncwarp" : "barrier";
  die("race: %s:%u %s %s, and %s:%u of %s %s it. No %s is between them", base_name(first.here.file), first.here.line,
      first_writes ? "writes" : "reads", accessed(p).text, base_name(current->here.file), current->here.line, other,
      writes ? "writes" : "reads", remedy);
}
[[noreturn]] COLD static void die_of_flight(const Toucher& copy, const void* p, bool writes) {
  die("missing wait: %s:%u copies %s asynchronously, and %s:%u %s it. No wait for the copy is between them",
      base_name(copy.here.file), copy.here.line, accessed(p).text, base_name(current->here.file), current->here.line,
      writes ? "writes" : "reads");
}
template <class DO> void for_words(const void* p, unsigned bytes, DO act) {
  const char* const c = static_cast<const char*>(p);
  for (unsigned i = 0; i < watched_count; ++i) {
    const Words& w = watched[i];
    if (c < w.base || c + bytes > w.base + w.bytes) continue;
    const uint64_t first = c - w.base, end = first + bytes;
    for (uint64_t at = first / 4; at * 4 < end; ++at) {
      const unsigned from = first > at * 4 ? first - at * 4 : 0, to = end < at * 4 + 4 ? end - at * 4 : 4;
      act(w.words[at], uint8_t((1u << to) - (1u << from)));
    }
    return;
  }
}
// A load, or a store of `value`. A store of the present value harms nobody.
COLD static void watch(const void* p, unsigned bytes, const void* value, Site here) {
  const unsigned me = current->linear;
  const bool writes = value, same = writes && !memcmp(p, value, bytes);
  at(here);
  ++watch_now;
  for_words(p, bytes, [&](Word& word, uint8_t part) {
    const Toucher now{here, watch_block, watch_now, watch_barriers, (uint16_t)me, part};
    if (word.flight.block == watch_block && word.flight.bytes & part) die_of_flight(word.flight, p, writes);
    if (word.write.bytes & part && !same && !ordered(word.write, me)) die_of_race(word.write, p, true, writes);
    if (!writes) {
      if (word.read[0].thread / 32 != me / 32 || word.read[0].block != watch_block) word.read[1] = word.read[0];
      word.read[0] = now;
      return;
    }
    for (const Toucher& reader : word.read)
      if (reader.bytes & part && !same && !ordered(reader, me)) die_of_race(reader, p, false, true);
    word.write = now;
  });
}
COLD static void watch_copy(const void* to, unsigned bytes, Site here) {
  at(here);
  ++watch_now;
  for_words(to, bytes, [&](Word& word, uint8_t part) {
    const Toucher now{here, watch_block, watch_now, watch_barriers, (uint16_t)current->linear, part};
    if (word.flight.block == watch_block && word.flight.bytes & part) die_of_flight(word.flight, to, true);
    for (const Toucher* one : {&word.write, &word.read[0], &word.read[1]})
      if (one->bytes & part && !ordered(*one, current->linear)) die_of_race(*one, to, one == &word.write, true);
    word.flight = now;
  });
}
// The copy is now a write of its thread.
static void watch_landing(const void* to, unsigned bytes, unsigned thread) {
  ++watch_now;
  for_words(to, bytes, [&](Word& word, uint8_t part) {
    word.write = word.flight, word.write.time = watch_now, word.write.barriers = watch_barriers;
    word.write.thread = thread, word.write.bytes |= part, word.flight.bytes = 0;
  });
}
}  // namespace simt
