// Products of a warpgroup (wgmma), inside extern "C". Each thread reads a part of the operands from shared memory.
//
// A product is computed as soon as all 128 threads ask for it. Products of a group without a wait, or without a commit,
// stop the block at its end. Products are exact, and each sum is rounded once.
//
// It stops with a message for:
//   a product without wgmma.fence
//   a product that not all threads of a warpgroup request, or that they request differently
//   an operand outside shared memory
#pragma once

struct GroupProduct {  // of a warpgroup, from the request of its first thread
  unsigned long long a_at, b_at;
  unsigned flags, types, columns, joined;
  unsigned long long* d[128];
  const unsigned long long* a[128];
  char a_units[128][16], b_units[512][16];  // 16 bytes each
};
struct ThreadProducts { bool fenced; unsigned open, closed; Site first; };  // open: since the last commit
static GroupProduct group_products[THREADS_MAX / 128];
static ThreadProducts thread_products[THREADS_MAX];

static unsigned own_warpgroup(const char* call) {
  if ((current->linear / 128 + 1) * 128 > threads)
    die("%s needs a warpgroup, 128 threads; the block's last has %u", call, threads % 128);
  return current->linear / 128;
}
// The place of 16 bytes of an operand: row `outer` of M or N and unit `unit` of the summed dimension.
// turned: unit `unit` of M or N, and row `outer` of the summed dimension.
static unsigned unit_place(unsigned long long at, unsigned outer, unsigned unit, bool turned) {
  const unsigned start = unsigned(at & 0x3fff) << 4, leading = unsigned(at >> 16 & 0x3fff) << 4;
  const unsigned stride = unsigned(at >> 32 & 0x3fff) << 4, mode = at >> 62;
  const unsigned swizzle = mode == 1 ? 128 : mode == 2 ? 64 : mode == 3 ? 32 : 0;
  if (at >> 49 & 7) die("an operand of wgmma has the base offset %u; the shim knows 0", unsigned(at >> 49 & 7));
  unsigned place;
  if (!swizzle)
    place = turned ? unit * stride + outer % 8 * 16 + outer / 8 * leading
                   : outer % 8 * 16 + outer / 8 * stride + unit * leading;
  else if (!turned)
    place = outer % 8 * swizzle + outer / 8 * stride + unit * 16;
  else
    place = unit % (swizzle / 16) * 16 + unit / (swizzle / 16) * leading + outer % 8 * swizzle + outer / 8 * stride;
  place += start;
  return swizzle ? place ^ (place >> 7 & (swizzle / 16 - 1)) << 4 : place;
}
static void read_unit(char* to, unsigned long long at, unsigned number, bool turned, unsigned columns, char name,
    void* pc) {
  const unsigned per = turned ? columns / 8 : 2, outer = number / per, unit = number % per;
  const unsigned offset = unit_place(at, outer, unit, turned);
  char* const from = pointer_of(offset);
  if (!from) die("illegal address: operand %c of wgmma is at offset %u of shared memory", name, offset);
  access(from, 16, SIMT_READ, pc);
  memcpy(to, from, 16);
  settle();
}
static double unit_element(const char* units, unsigned outer, unsigned k, bool turned, unsigned columns, unsigned bytes,
    unsigned type) {
  const unsigned row = turned ? k : outer, byte = (turned ? outer : k) * bytes, per = turned ? columns / 8 : 2;
  uint64_t held = 0;
  memcpy(&held, units + (row * per + byte / 16) * 16 + byte % 16, bytes);
  return element(held, type);
}
static void multiply_group(const GroupProduct& p) {
  const unsigned type_a = p.types & 255, type_b = p.types >> 8 & 255, sums = p.types >> 16;
  const unsigned bytes = type_a == TF32 ? 4 : type_a <= BF16 ? 2 : 1, depth = 32 / bytes, per = 4 / bytes;
  static double a[64][32], b[32][256];
  for (unsigned row = 0; row < 64; ++row)
    for (unsigned k = 0; k < depth && !p.a[0]; ++k)
      a[row][k] = unit_element(p.a_units[0], row, k, p.flags & 4, 64, bytes, type_a);
  for (unsigned t = 0; t < 128 && p.a[0]; ++t)
    for (unsigned n = 0; n < 4 * per; ++n)
      a[t / 32 * 16 + t % 32 / 4 + n / per % 2 * 8][t % 4 * per + n % per + n / per / 2 * 4 * per] =
          element(p.a[t][n / per] >> n % per * bytes * 8 & (bytes == 4 ? ~0u : (1u << 8 * bytes) - 1), type_a);
  for (unsigned n = 0; n < p.columns; ++n)
    for (unsigned k = 0; k < depth; ++k)
      b[k][n] = unit_element(p.b_units[0], n, k, p.flags & 8, p.columns, bytes, type_b);
  const double sign = (p.flags & 1) != (p.flags >> 1 & 1) ? -1 : 1;
  for (unsigned t = 0; t < 128; ++t)
    for (unsigned i = 0; i < p.columns / 2; ++i) {
      const unsigned row = t / 32 * 16 + t % 32 / 4 + i / 2 % 2 * 8, column = i / 4 * 8 + 2 * (t % 4) + i % 2;
      unsigned long long& word = p.d[t][sums == SUM_F16 ? i / 2 : i];
      const unsigned shift = sums == SUM_F16 ? i % 2 * 16 : 0, held = word >> shift;
      double sum = sums == SUM_F16 ? of_half(held & 0xffff) : sums == SUM_S32 ? (int)held : __uint_as_float(held);
      if (!(p.flags & 16)) sum = 0;
      for (unsigned k = 0; k < depth; ++k) sum += sign * a[row][k] * b[k][column];
      if (sums == SUM_F32) word = __float_as_uint((float)sum);
      if (sums == SUM_S32) word = (unsigned)(long long)sum;
      if (sums == SUM_F16) word = (word & ~(0xffffull << shift)) | (unsigned long long)to_half_bits(sum) << shift;
    }
}
void simt_wgmma(unsigned long long* d, const unsigned long long* a, unsigned long long a_at, unsigned long long b_at,
                unsigned flags, unsigned types, unsigned columns, const char* file, unsigned line, void* pc) {
  collective(pc, file, line);
  const unsigned which = own_warpgroup("wgmma.mma_async"), thread = current->linear % 128;
  ThreadProducts& own_products = thread_products[current->linear];
  if (!own_products.fenced) die("wgmma.mma_async without a wgmma.fence before it. The fence orders the registers");
  if (!own_products.open && !own_products.closed) own_products.first = {file, line};
  ++own_products.open;
  GroupProduct& p = group_products[which];
  if (!p.joined) p.a_at = a_at, p.b_at = b_at, p.flags = flags, p.types = types, p.columns = columns;
  if (p.a_at != a_at || p.b_at != b_at || p.flags != flags || p.types != types || p.columns != columns)
    die("wgmma.mma_async differs between threads of warpgroup %u: A 0x%llx and 0x%llx, B 0x%llx and 0x%llx", which,
        a_at, p.a_at, b_at, p.b_at);
  p.d[thread] = d, p.a[thread] = a;
  if (!a) read_unit(p.a_units[thread], a_at, thread, flags & 4, 64, 'A', pc);
  for (unsigned n = thread; n < 2 * columns; n += 128) read_unit(p.b_units[n], b_at, n, flags & 8, columns, 'B', pc);
  if (++p.joined < 128) return wait_for(For::GROUP, which);
  multiply_group(p);
  p.joined = 0;
  wake(For::GROUP, which);
}
void simt_wgmma_fence(const char* file, unsigned line, void* pc) {
  collective(pc, file, line);
  own_warpgroup("wgmma.fence");
  thread_products[current->linear].fenced = true;
}
void simt_wgmma_commit(const char* file, unsigned line, void* pc) {
  collective(pc, file, line);
  ThreadProducts& own_products = thread_products[current->linear];
  own_products.closed += own_products.open > 0, own_products.open = 0;
}
void simt_wgmma_wait(unsigned open, const char* file, unsigned line, void* pc) {
  collective(pc, file, line);
  ThreadProducts& own_products = thread_products[current->linear];
  own_products.closed = std::min(own_products.closed, open);
}
static void begin_products() {
  for (unsigned i = 0; i < threads; ++i) thread_products[i] = {};
  for (GroupProduct& p : group_products) p.joined = 0;
}
static void stop_at_open_products() {
  for (unsigned i = 0; i < threads && !failed; ++i) {
    const ThreadProducts& left = thread_products[i];
    if (left.open || left.closed)
      stop("missing wait: the products of %s:%u are not waited for. wgmma.commit_group and wgmma.wait_group 0 come "
           "before a use of their sums", base_name(left.first.file), left.first.line);
  }
}
static const bool products_end = (end_products = stop_at_open_products, true);
