// The CPU half of a warpgroup's joint work in device/hopper.cuh: products, and registers given and taken.
//
// Each thread records its request for a product. A group of products runs, in order, when the last thread of the
// warpgroup closes it, and with `reversed` only when all wait for it. Only then it reads the operands and writes C.
// Products of 16-bit numbers are exact. Sixteen products and C are added up in double and rounded once. (A tensor core
// cuts off bits of a sum.)
//
// It stops with a message for:
//   a product outside product_begin and product_end
//   a product that not all threads of a warpgroup request, or that they request differently
//   an operand outside shared memory, or with its start inside a group of rows
#pragma once
#if defined(__GNUC__) && !defined(__clang__)
#define VECTORISED __attribute__((optimize("O3")))  // only gcc has this attribute
#else
#define VECTORISED
#endif

namespace simt {

struct ProductRequest {  // equal in all threads of a warpgroup
  unsigned long long a, b;
  unsigned columns, group;
  bool is_half, from_registers, add;
  bool turned;  // the rows of A and B run across the summed dimension (hopper_backward.h)
};
struct Product {
  ProductRequest request;
  unsigned first, joined;  // the first thread, and the number of threads
  bool is_logged;          // by a probe
  float* c[WARPGROUP];
  const unsigned* a[WARPGROUP];
};
struct ThreadsProducts {
  unsigned requested, closed;  // products, and groups of products
  bool open;
  unsigned read_bytes;     // bytes of the last probe that products have read
};
struct Warpgroup {
  unsigned requested, done;    // products: of the furthest thread, and finished ones
  unsigned joined, first;      // the number of threads here, the first one,
  const char* call;            // their call,
  int argument;
  unsigned closed;             // and the number of groups before it
};
constexpr unsigned PRODUCTS_MAX = 64, WARPGROUPS_MAX = THREADS_MAX / WARPGROUP;
static Product products[WARPGROUPS_MAX][PRODUCTS_MAX];
static unsigned closed_by[WARPGROUPS_MAX][PRODUCTS_MAX];
static Warpgroup warpgroups[WARPGROUPS_MAX];
static ThreadsProducts threads_products[THREADS_MAX];

static void forget_products() {
  memset(warpgroups, 0, sizeof warpgroups);
  memset(threads_products, 0, sizeof threads_products);
  memset(closed_by, 0, sizeof closed_by);
}
static unsigned own_warpgroup(const char* call) {
  const unsigned which = current->linear / WARPGROUP;
  if ((which + 1) * WARPGROUP > threads)
    die("%s needs a warpgroup, 128 threads; the block's last has %u", call, threads % WARPGROUP);
  return which;
}

// ---- one product ----

static float a_of_product[64][16], c_of_product[64][256];
static double b_of_product[16][256];

struct Operand { char name; unsigned start, leading, stride; };
static Operand decode(char name, unsigned long long bits) {
  const Operand found{name, unsigned(bits & 0x3fff) << 4, unsigned(bits >> 16 & 0x3fff) << 4,
                      unsigned(bits >> 32 & 0x3fff) << 4};
  if (bits >> 46 != 1 << 16 || bits & 0xc000c000)
    die("operand %c of a product is 0x%016llx, which is none with a swizzle of 128 bytes. operand() makes them", name,
        bits);
  if (found.start & 0x380)
    die("operand %c of a product begins at offset %u of shared memory, inside a group of eight rows of 128 bytes: "
        "tiles lie at multiples of 1,024", name, found.start);
  return found;
}
// Eight elements of a row
static const uint16_t* eight(const Operand& operand, unsigned row, unsigned column) {
  const unsigned in_row = column / 64 * operand.leading + column % 64 * 2;
  const unsigned at = swizzled(operand.start + row / 8 * operand.stride + row % 8 * 128 + in_row, 128);
  if (at + 16 > launch->shared_bytes)
    die("illegal address: row %u, column %u of operand %c of a product lies at offset %u of shared memory; the block "
        "has %u bytes (the operand begins at %u, leading %u, stride %u)", row, column, operand.name, at,
        launch->shared_bytes, operand.start, operand.leading, operand.stride);
  return reinterpret_cast<const uint16_t*>(shared_memory + at);
}
// to_float without a branch, so that eight run at once. It moves half's exponent to the place of a float's, and
// corrects it by a multiplication. The largest exponent means infinity and NaN.
VECTORISED static void floats_of(const uint16_t* from, bool is_half, float (&to)[8]) {
  for (unsigned i = 0; i < 8; ++i) {
    const unsigned bits = from[i], special = (bits & 0x7c00) == 0x7c00 ? 0x7f800000u : 0;
    const float size = __uint_as_float((bits & 0x7fff) << 13) * 0x1p112f;
    const unsigned of_half = __float_as_uint(size) | special | (bits & 0x8000) << 16;
    to[i] = __uint_as_float(is_half ? of_half : bits << 16);
  }
}
static void read_operands(const Product& product) {
  const ProductRequest& request = product.request;
  float some[8];
  if (request.from_registers) {
    for (unsigned t = 0; t < WARPGROUP; ++t) {
      uint16_t own[8];
      memcpy(own, product.a[t], sizeof own);
      floats_of(own, request.is_half, some);
      for (unsigned i = 0; i < 8; ++i)
        a_of_product[t / 32 * 16 + t % 32 / 4 + i / 2 % 2 * 8][2 * (t % 4) + i % 2 + i / 4 * 8] = some[i];
    }
  } else if (request.turned) {  // [16, 64]
    const Operand a = decode('A', request.a);
    for (unsigned k = 0; k < 16; ++k)
      for (unsigned row = 0; row < 64; row += 8) {
        floats_of(eight(a, k, row), request.is_half, some);
        for (unsigned i = 0; i < 8; ++i) a_of_product[row + i][k] = some[i];
      }
  } else {
    const Operand a = decode('A', request.a);
    for (unsigned row = 0; row < 64; ++row)
      for (unsigned k = 0; k < 16; k += 8) {
        floats_of(eight(a, row, k), request.is_half, some);
        memcpy(&a_of_product[row][k], some, sizeof some);
      }
  }
  const Operand b = decode('B', request.b);
  if (request.from_registers || request.turned) {  // [16, N]
    for (unsigned k = 0; k < 16; ++k)
      for (unsigned n = 0; n < request.columns; n += 8) {
        floats_of(eight(b, k, n), request.is_half, some);
        for (unsigned i = 0; i < 8; ++i) b_of_product[k][n + i] = some[i];
      }
  } else {  // [N, 16]
    for (unsigned n = 0; n < request.columns; ++n)
      for (unsigned k = 0; k < 16; k += 8) {
        floats_of(eight(b, n, k), request.is_half, some);
        for (unsigned i = 0; i < 8; ++i) b_of_product[k + i][n] = some[i];
      }
  }
}
// C between the registers of the threads and one matrix
template <bool IN> void move_c(const Product& product) {
  for (unsigned t = 0; t < WARPGROUP; ++t)
    for (unsigned i = 0; i < product.request.columns / 8; ++i)
      for (unsigned h = 0; h < 2; ++h) {
        float* const matrix = &c_of_product[t / 32 * 16 + t % 32 / 4 + 8 * h][8 * i + 2 * (t % 4)];
        float* const registers = &product.c[t][4 * i + 2 * h];
        memcpy(IN ? matrix : registers, IN ? registers : matrix, 2 * sizeof(float));
      }
}
VECTORISED static void multiply_add(unsigned columns, bool add) {
  for (unsigned row = 0; row < 64; ++row) {
    const float* const a = a_of_product[row];
    float* const c = c_of_product[row];
    double sums[256];
    for (unsigned n = 0; n < columns; ++n) sums[n] = add ? c[n] : 0;
    for (unsigned k = 0; k < 16; k += 4) {
      const double a0 = a[k], a1 = a[k + 1], a2 = a[k + 2], a3 = a[k + 3];
      const auto* const b = &b_of_product[k];
      for (unsigned n = 0; n < columns; ++n) sums[n] += (a0 * b[0][n] + a1 * b[1][n]) + (a2 * b[2][n] + a3 * b[3][n]);
    }
    for (unsigned n = 0; n < columns; ++n) c[n] = (float)sums[n];
  }
}

// ---- a warpgroup's products ----

// Runs the products of the groups before `group`, in order. C stays in its matrix from product to product.
static void run_products(unsigned which, unsigned group) {
  Warpgroup& warpgroup = warpgroups[which];
  const Product* held = nullptr;
  for (; warpgroup.done < warpgroup.requested; ++warpgroup.done) {
    const Product& product = products[which][warpgroup.done % PRODUCTS_MAX];
    if (product.request.group >= group) break;
    if (product.joined < WARPGROUP)
      die("product %u of warpgroup %u was asked for by %u of its 128 threads; thread %u was the first. All must ask "
          "for it", warpgroup.done, which, product.joined, product.first);
#ifdef PROBED
    if (!product.is_logged)
      die("product %u of warpgroup %u has no probe before it: a PROBE_PRODUCT of its operand B", warpgroup.done, which);
#endif
    if (!held || memcmp(held->c, product.c, sizeof product.c)) {
      if (held) move_c<false>(*held);
      move_c<true>(product);
    }
    held = &product;
    read_operands(product);
    multiply_add(product.request.columns, product.request.add);
  }
  if (held) move_c<false>(*held);
}
// A probe logs operand B of one product, or the bytes of all its thread's next products. Each product subtracts its own
// bytes.
static bool matches_probe(const ProductRequest& request, ThreadsProducts& own) {
#ifdef PROBED
  if (!current->announced) return false;
  const unsigned bytes = 2 * 16 * request.columns;
  const char* const first = static_cast<const char*>(current->announced);
  const char* const b = shared_memory + decode('B', request.b).start;
  const unsigned of = current->announced_bytes;
  const bool begins = b == first, goes_on = own.read_bytes && b >= first && b < first + of;
  if (current->announced_kind != PRODUCT || !(begins || goes_on) || own.read_bytes + bytes > of)
    die("a product that reads %u bytes of operand B at %s has no probe before it that says so (%s, and %u of them were "
        "read)", bytes, address_of(b).text, last_logged().text, own.read_bytes);
  own.read_bytes += bytes;
  if (own.read_bytes == of) current->announced = nullptr, own.read_bytes = 0;
  return true;
#else
  (void)request, (void)own;
  return false;
#endif
}
static void request_product(ProductRequest request, float* c, const unsigned* a) {
  const unsigned which = own_warpgroup("a product");
  Warpgroup& warpgroup = warpgroups[which];
  ThreadsProducts& own = threads_products[current->linear];
  if (!own.open) die("a product outside product_begin and product_end");
  if (own.requested - warpgroup.done == PRODUCTS_MAX)
    die("%u products of this thread are not waited for; the shim keeps no more. product_wait comes first",
        PRODUCTS_MAX);
  request.group = own.closed;
  Product& product = products[which][own.requested % PRODUCTS_MAX];
  if (own.requested++ == warpgroup.requested) {
    product.request = request, product.first = current->linear, product.joined = 0, product.is_logged = false;
    ++warpgroup.requested;
  }
  const ProductRequest& first = product.request;
  if (first.a != request.a || first.b != request.b || first.columns != request.columns ||
      first.group != request.group || first.is_half != request.is_half || first.add != request.add ||
      first.from_registers != request.from_registers || first.turned != request.turned)
    die("product %u of warpgroup %u differs from that of thread %u: N %u and %u, group %u and %u, A 0x%llx and 0x%llx, "
        "B 0x%llx and 0x%llx, add %d and %d. All threads of a warpgroup ask for the same", own.requested - 1, which,
        product.first, request.columns, first.columns, request.group, first.group, request.a, first.a, request.b,
        first.b, request.add, first.add);
  const unsigned thread = current->linear % WARPGROUP;
  product.c[thread] = c, product.a[thread] = a;
  product.is_logged |= matches_probe(request, own);
  ++product.joined;
}
// The threads of a warpgroup meet. The last one runs the closed groups, except `left` of them.
static void meet(const char* call, int argument, unsigned left) {
  const unsigned which = own_warpgroup(call), closed = threads_products[current->linear].closed;
  Warpgroup& warpgroup = warpgroups[which];
  if (!warpgroup.joined++)
    warpgroup.first = current->linear, warpgroup.call = call, warpgroup.argument = argument, warpgroup.closed = closed;
  if (strcmp(warpgroup.call, call) || warpgroup.argument != argument || warpgroup.closed != closed)
    die("%s<%d> after %u groups of products, where thread %u of the same warpgroup came to %s<%d> after %u", call,
        argument, closed, warpgroup.first, warpgroup.call, warpgroup.argument, warpgroup.closed);
  if (warpgroup.joined < WARPGROUP) return wait_for(For::WARPGROUP, which);
  if (closed > left) run_products(which, closed - left);
  warpgroup.joined = 0;
  wake(For::WARPGROUP, which);
}
static void explain_warpgroups(Text& text) {
  for (unsigned which = 0; which < threads / WARPGROUP; ++which) {
    const auto is = [which](unsigned i) { return waits_for(i, For::WARPGROUP, which); };
    const auto lacks = [=](unsigned i) { return i / WARPGROUP == which && !is(i); };
    if (!any_thread(is)) continue;
    add_threads(text, is);
    text.add(" at %s<%d> for ", warpgroups[which].call, warpgroups[which].argument);
    add_threads(text, lacks);
    text.add(" of warpgroup %u; ", which);
  }
}
}  // namespace simt

template <class T, int N> struct Product {
  static_assert(N == 64 || N == 96 || N == 128 || N == 256, "products have 64, 96, 128 or 256 columns");
  static_assert(std::is_same<T, half>::value || std::is_same<T, bfloat16>::value, "products of half or bfloat16");
  static constexpr bool IS_HALF = std::is_same<T, half>::value;
  static void shared(float (&C)[N / 2], unsigned long long a, unsigned long long b, int add, SIMT_HERE) {
    simt::at(here);
    simt::request_product({a, b, N, 0, IS_HALF, false, add != 0, false}, C, nullptr);
  }
  static void registers(float (&C)[N / 2], const unsigned* A, unsigned long long b, int add, SIMT_HERE) {
    simt::at(here);
    simt::request_product({0, b, N, 0, IS_HALF, true, add != 0, false}, C, A);
  }
};
inline void product_begin(SIMT_HERE) {
  simt::at(here);
  simt::own_warpgroup("product_begin");
  simt::threads_products[simt::current->linear].open = true;
}
inline void product_end(SIMT_HERE) {
  using namespace simt;
  simt::at(here);
  const unsigned which = own_warpgroup("product_end");
  ThreadsProducts& own = threads_products[current->linear];
  if (!own.open) die("product_end without a product_begin");
  if (own.read_bytes)
    die("the last probe logged a product of %u bytes, and products read %u of them", current->announced_bytes,
        own.read_bytes);
  own.open = false;
  unsigned& closed = closed_by[which][own.closed++ % PRODUCTS_MAX];
  if (++closed < WARPGROUP) return;
  closed = 0;
  if (!launch->reversed) run_products(which, own.closed);
}
template <int LEFT> void product_wait(SIMT_HERE) {
  simt::at(here);
  const simt::ThreadsProducts& own = simt::threads_products[simt::current->linear];
  if (own.open) simt::die("product_wait<%d> before product_end has closed the group", LEFT);
  simt::meet("product_wait", LEFT, LEFT);
}
inline unsigned long long operand(const void* smem, unsigned leading, unsigned stride, SIMT_HERE) {
  simt::at(here);
  const ptrdiff_t at = static_cast<const char*>(smem) - simt::shared_memory;
  if (at < 0 || at >= simt::launch->shared_bytes)
    simt::die("illegal address: an operand at offset %td of shared memory; the block has %u bytes", at,
              simt::launch->shared_bytes);
  return (unsigned long long)at >> 4 | (unsigned long long)(leading >> 4) << 16 |
         (unsigned long long)(stride >> 4) << 32 | 1ull << 62;
}
inline unsigned long long operand_at(unsigned long long operand, int bytes) {
  return operand + (unsigned long long)(bytes >> 4);
}
template <int N> void settle(float (&)[N]) {}
template <int N> void settle(unsigned (&)[N]) {}
template <int N> void give_registers(SIMT_HERE) {
  simt::at(here);
  static_assert(N % 8 == 0 && N >= 24 && N <= 256, "registers per thread: a multiple of 8 from 24 to 256");
  simt::meet("give_registers", N, ~0u);
}
template <int N> void take_registers(SIMT_HERE) {
  simt::at(here);
  static_assert(N % 8 == 0 && N >= 24 && N <= 256, "registers per thread: a multiple of 8 from 24 to 256");
  simt::meet("take_registers", N, ~0u);
}
