// The message when the shim stops a launch: block, thread, line, tensor and index
//
// A fiber keeps two places: `here`, the line of its last access, barrier or collective, and `probe`, its last probe.
// lines.h makes the probes note themselves, in the timed build too. Code between two of these has no line.
#pragma once

namespace simt {

static const char* base_name(const char* path) {
  const char* name = path;
  for (const char* c = path; *c; ++c)
    if (*c == '/') name = c + 1;
  return name;
}

// A buffer of characters that a message grows in
struct Text {
  char* out;
  size_t room;
  void add(const char* format, ...) __attribute__((format(printf, 2, 3))) {
    va_list list;
    va_start(list, format);
    add_list(format, list);
    va_end(list);
  }
  void add_list(const char* format, va_list list) {
    const size_t n = vsnprintf(out, room, format, list);
    const size_t taken = n < room ? n : room ? room - 1 : 0;
    out += taken, room -= taken;
  }
};

// ---- lines ----

// The source lines of all probes, set by unit.cpp. Line 0 ends them.
struct ProbeText { const char* file; unsigned line; const char* text; };
static const ProbeText* probe_texts;

static const char* text_of(const Site& probe) {
  for (const ProbeText* each = probe_texts; each && each->line; ++each)
    if (each->line == probe.line && !strcmp(each->file, base_name(probe.file))) return each->text;
  return "";
}
// The last known line of the fiber. Its number is 0 before the first.
static Site last_site(const Fiber& fiber) {
  return fiber.here.line ? fiber.here : fiber.probe ? *fiber.probe : Site{"", 0};
}
// at: true if the fiber stopped in this line, false if somewhere after it
static void add_place(Text& text, const Fiber& fiber, bool at) {
  const Site last = last_site(fiber);
  if (!last.line) return text.add("; before its first probe, access or barrier");
  text.add("; %s %s:%u", at && fiber.here.line ? "at" : "after", base_name(last.file), last.line);
  if (!fiber.probe) return;
  if (fiber.here.line) text.add(", after %s:%u", base_name(fiber.probe->file), fiber.probe->line);
  text.add(" (the last probe: %s)", text_of(*fiber.probe));
}

// ---- tensors ----

struct Name { char text[64]; };
// The tensor of a probe: O_gmem of PROBE_STORE(O_gmem, at, 4)
static Name tensor_of(const Site* probe) {
  Name name{};
  const char* c = probe ? strchr(text_of(*probe), '(') : nullptr;
  for (unsigned n = 0; c && *++c && *c != ',' && *c != ')' && n + 1 < sizeof name.text; ++n) name.text[n] = *c;
  return name;
}
// True if K_gmem of a probe is the tensor k of the launch
static bool same_tensor(const Name& probed, const char* tensor) {
  const char* p = probed.text;
  for (; *tensor; ++tensor, ++p)
    if ((*p | 32) != (*tensor | 32)) return false;
  return !*p || !strcmp(p, "_gmem");
}
static long long elements_from(const Buffer& buffer, const void* p) {
  const long long bytes = (long long)(reinterpret_cast<uintptr_t>(p) - reinterpret_cast<uintptr_t>(buffer.base));
  const long long width = buffer.element_bytes;
  return bytes < 0 ? -((width - 1 - bytes) / width) : bytes / width;
}
static const Buffer* buffer_at(const void* p) {
  for (unsigned i = 0; i < launch->buffer_count; ++i) {
    const Buffer& buffer = launch->buffers[i];
    if (p >= buffer.base && p < buffer.base + buffer.bytes) return &buffer;
  }
  return nullptr;
}
static const Buffer* nearest_buffer(const void* p) {
  const Buffer* nearest = nullptr;
  uint64_t least = ~0ull;
  for (unsigned i = 0; i < launch->buffer_count; ++i) {
    const Buffer& buffer = launch->buffers[i];
    const uint64_t at = reinterpret_cast<uintptr_t>(p), base = reinterpret_cast<uintptr_t>(buffer.base);
    const uint64_t away = at < base ? base - at : at < base + buffer.bytes ? 0 : at - base - buffer.bytes;
    if (away < least) least = away, nearest = &buffer;
  }
  return nearest;
}
// "o[70], and o has 64 elements": the tensor of the probe, or the nearest
static void add_outside(Text& text, const void* p) {
  const Buffer* buffer = nullptr;
  if (current->announced == p && current->announced_bytes) {
    const Name probed = tensor_of(current->announced_by);
    for (unsigned i = 0; i < launch->buffer_count && !buffer; ++i)
      if (same_tensor(probed, launch->buffers[i].name)) buffer = &launch->buffers[i];
  }
  const char* const which = buffer ? "" : "the nearest is ";
  if (!buffer) buffer = nearest_buffer(p);
  if (!buffer) return text.add("the launch has no buffer");
  text.add("%s%s[%lld], and %s has %llu elements", which, buffer->name, elements_from(*buffer, p), buffer->name,
           (unsigned long long)(buffer->bytes / buffer->element_bytes));
}
// "K_smem[12]", from the last probe
static void add_announced(Text& text, long long further = 0) {
  text.add("%s[%lld]", tensor_of(current->announced_by).text, (long long)current->announced_index + further);
}
// "o[70]", "K_smem[12] (offset 48 of shared memory)"
static void add_address(Text& text, const void* p) {
  const char* const shared = shared_memory;
  const char* const c = static_cast<const char*>(p);
  const char* const logged = static_cast<const char*>(current->announced);
  if (c < shared || c >= shared + SHARED_MAX) {
    const Buffer* const buffer = buffer_at(p);
    if (buffer) return text.add("%s[%lld]", buffer->name, elements_from(*buffer, p));
    return add_outside(text, p);
  }
  const bool near = current->announced_bytes && logged >= shared && logged < shared + SHARED_MAX &&
                    (c - logged) % (ptrdiff_t)current->announced_element == 0;
  if (near) add_announced(text, (c - logged) / (ptrdiff_t)current->announced_element);
  text.add(near ? " (offset %td of shared memory)" : "offset %td of shared memory", c - shared);
}
// The middle of a message, one at a time
struct Phrase {
  char text[256] = "";
  Text grow() { return {text, sizeof text}; }
};
static Phrase address_of(const void* p) {
  Phrase phrase;
  Text text = phrase.grow();
  add_address(text, p);
  return phrase;
}
static Phrase outside_of(const void* p) {
  Phrase phrase;
  Text text = phrase.grow();
  add_outside(text, p);
  return phrase;
}
// " (K_smem[12])" if the last probe logged this address, otherwise empty
static Phrase logged_at(const void* p) {
  Phrase phrase;
  Text text = phrase.grow();
  if (current->announced == p && current->announced_bytes) text.add(" ("), add_announced(text), text.add(")");
  return phrase;
}
// "the last one logged a store of 4 bytes at O_gmem[0]"
static Phrase last_logged() {
  Phrase phrase;
  Text text = phrase.grow();
  if (!current->announced_bytes) {
    text.add("no access was logged since the last access");
    return phrase;
  }
  text.add("the last one logged a %s of %u bytes at ", name_of(current->announced_kind), current->announced_bytes);
  add_announced(text);
  return phrase;
}

// ---- threads ----

constexpr unsigned WARP = 32, WARPGROUP = 128;
// The threads with `is`, in the largest unit that fits: "warps 4 to 7, 9"
template <class Is> void add_threads(Text& text, Is is) {
  unsigned unit = WARPGROUP, found = 0;
  for (unsigned i = 0; i < threads; ++i)
    while (threads % unit || is(i) != is(i / unit * unit)) unit = unit == WARPGROUP ? WARP : 1;
  const unsigned units = threads / unit;
  unsigned count = 0;
  for (unsigned u = 0; u < units; ++u) count += is(u * unit);
  text.add("%s%s ", unit == WARPGROUP ? "warpgroup" : unit == WARP ? "warp" : "thread", count == 1 ? "" : "s");
  for (unsigned u = 0; u < units; ++u) {
    if (!is(u * unit)) continue;
    const unsigned first = u;
    while (u + 1 < units && is((u + 1) * unit)) ++u;
    if (++found > 6) return text.add(" and more");
    text.add("%s%u", found > 1 ? ", " : "", first);
    if (u > first) text.add(" to %u", u);
  }
}
template <class Is> bool any_thread(Is is) {
  for (unsigned i = 0; i < threads; ++i)
    if (is(i)) return true;
  return false;
}
static bool same_wait(const Fiber& a, const Fiber& b) {
  const bool same_call = a.state != State::AT_WARP || (a.collective == b.collective && a.mask == b.mask);
  const bool same_file = a.here.file == b.here.file || !strcmp(a.here.file, b.here.file);
  return a.state == b.state && same_call && a.here.line == b.here.line && same_file;
}
// For each line with waiting threads: the threads, and the reason
static void add_waits(Text& text) {
  for (unsigned i = 0; i < threads; ++i) {
    const Fiber& first = fibers[i];
    if (first.state == State::DONE || !first.here.line) continue;
    const auto is = [&](unsigned other) { return fibers[other].here.line && same_wait(first, fibers[other]); };
    bool again = false;
    for (unsigned before = 0; before < i; ++before) again = again || is(before);
    if (again) continue;
    text.add("; ");
    add_threads(text, is);
    if (first.state == State::AT_WARP)
      text.add(" in a %s of lanes 0x%08x", COLLECTIVE_NAMES[first.collective], first.mask);
    else
      text.add("%s", first.state == State::AT_BARRIER ? " at __syncthreads" : " wait");
    text.add(" at %s:%u", base_name(first.here.file), first.here.line);
  }
}

// ---- the end of a launch ----

static const char* child_name;  // of the launch by a kernel that runs (children.h), or null
static Text begin_message(const Fiber* fiber) {
  Text text{launch->message, sizeof launch->message};
  if (child_name) text.add("its launch of %s, ", child_name);
  text.add("block (%u, %u, %u)", block_idx.x, block_idx.y, block_idx.z);
  if (fiber)
    text.add(", thread (%u, %u, %u)", fiber->thread_idx.x, fiber->thread_idx.y, fiber->thread_idx.z);
  text.add(": ");
  failed = true;
  return text;
}
// By the scheduler, of the whole block
static void stop(const char* format, ...) __attribute__((format(printf, 1, 2)));
static void stop(const char* format, ...) {
  va_list list;
  va_start(list, format);
  Text text = begin_message(nullptr);
  text.add_list(format, list);
  va_end(list);
}
// By a thread, of itself. The message ends with its line.
[[noreturn]] static void die(const char* format, ...) __attribute__((format(printf, 1, 2)));
[[noreturn]] static void die(const char* format, ...) {
  va_list list;
  va_start(list, format);
  Text text = begin_message(current);
  text.add_list(format, list);
  va_end(list);
  add_place(text, *current, true);
  yield();  // the scheduler does not come back to a failed launch
  __builtin_trap();
}
}  // namespace simt
