// The runtime's functions for matrices of a warp (calls.h): ldmatrix, stmatrix, mma.sync. Inside extern "C".
//
// Products are exact, and each sum is rounded once. A tensor core cuts off bits of the sum.
#pragma once

static void check_warp(const char* what) {
  if (threads - (current->linear & ~31u) < 32) die("%s needs a whole warp; the block's last has %u threads",
      what, threads % 32);
}
void simt_load_matrices(unsigned* words, int count, int trans, const void* row, const char* file,
    unsigned line, void* pc) {
  collective(pc, file, line);
  check_warp("ldmatrix");
  char own_row[16] = {};
  if ((current->linear & 31) < 8u * count) access((char*)row, 16, SIMT_READ, pc), memcpy(own_row, row, 16);
  settle();
  Matrices m{own_row, (unsigned)count, trans != 0, {}};
  rendezvous(~0u, LDMATRIX, &m, deal_matrices);
  memcpy(words, m.words, sizeof m.words);
}
struct Rows { const unsigned* words; int count, trans; uint16_t row[8]; };
static void gather_rows(void** lanes, unsigned) {
  for (unsigned l = 0; l < 32; ++l) {
    Rows& own_rows = *static_cast<Rows*>(lanes[l]);
    if (l >= 8u * own_rows.count) continue;
    for (unsigned column = 0; column < 8; ++column) {
      const unsigned r = own_rows.trans ? column : l % 8, c = own_rows.trans ? l % 8 : column;
      const unsigned word = static_cast<Rows*>(lanes[4 * r + c / 2])->words[l / 8];
      own_rows.row[column] = word >> c % 2 * 16;
    }
  }
}
void simt_store_matrices(const unsigned* words, int count, int trans, void* row, const char* file,
    unsigned line, void* pc) {
  collective(pc, file, line);
  check_warp("stmatrix");
  Rows rows{words, count, trans, {}};
  rendezvous(~0u, STORE_MATRICES, &rows, gather_rows);
  if ((current->linear & 31) < 8u * count) access((char*)row, 16, SIMT_WRITE, pc), memcpy(row, rows.row, 16);
}
static void turn_words(void** lanes, unsigned) {
  unsigned turned[32] = {};
  for (unsigned l = 0; l < 32; ++l)
    for (unsigned e = 0; e < 2; ++e)
      turned[l] |= (*static_cast<unsigned*>(lanes[4 * (2 * (l % 4) + e) + l / 8]) >> l / 4 % 2 * 16 & 0xffff) << 16 * e;
  for (unsigned l = 0; l < 32; ++l) *static_cast<unsigned*>(lanes[l]) = turned[l];
}
unsigned simt_turn_matrix(unsigned word, const char* file, unsigned line, void* pc) {
  collective(pc, file, line);
  check_warp("movmatrix");
  rendezvous(~0u, LDMATRIX, &word, turn_words);
  return word;
}

enum Element { F16, BF16, TF32, E4M3, E5M2, S8, U8, F64 };
enum Sum { SUM_F32, SUM_F16, SUM_S32, SUM_F64 };
static float of_half(unsigned bits) {  // the exponent moves to a float's, and a product corrects it
  const unsigned special = (bits & 0x7c00) == 0x7c00 ? 0x7f800000u : 0;
  return __uint_as_float(__float_as_uint(__uint_as_float((bits & 0x7fff) << 13) * 0x1p112f) | special | (bits &
      0x8000) << 16);
}
static float of_fp8(unsigned bits, unsigned exponent_bits) {  // e5m2 is the upper byte of a half
  if (exponent_bits == 5) return of_half(bits << 8);
  const unsigned exponent = bits >> 3 & 15;
  if ((bits & 0x7f) == 0x7f) return NAN;
  const float size = exponent ? ldexpf(8 + (bits & 7), (int)exponent - 10) : ldexpf(bits & 7, -9);
  return bits & 0x80 ? -size : size;
}
static double element(uint64_t bits, unsigned type) {
  switch (type) {
    case F16: return of_half(bits & 0xffff);
    case BF16: return __uint_as_float(unsigned(bits & 0xffff) << 16);
    case TF32: return __uint_as_float(unsigned(bits) & ~0x1fffu);
    case E4M3: return of_fp8(bits & 0xff, 4);
    case E5M2: return of_fp8(bits & 0xff, 5);
    case S8: return (signed char)bits;
    case U8: return (unsigned char)bits;
  }
  double value;
  memcpy(&value, &bits, 8);
  return value;
}
static unsigned to_half_bits(double value) {
  const _Float16 half = (_Float16)value;
  uint16_t bits;
  memcpy(&bits, &half, 2);
  return bits;
}
struct Product {
  unsigned long long* d;
  const unsigned long long *a, *b, *c;
  unsigned types;
  int depth;
};
// A lane holds, with g = lane / 4 and t = lane % 4: of A rows g and g + 8, of B column g, of C columns 2t and 2t + 1
static void multiply_lanes(void** lanes, unsigned) {
  const Product& first = *static_cast<Product*>(lanes[0]);
  const unsigned type_a = first.types & 255, type_b = first.types >> 8 & 255, sums = first.types >> 16 & 255;
  const bool clamps = first.types >> 24;
  const unsigned bits = type_a == F64 ? 64 : type_a == TF32 ? 32 : type_a <= BF16 ? 16 : 8;
  const unsigned in_register = bits > 32 ? 1 : 32 / bits, rows = type_a == F64 ? 8 : 16, depth = first.depth;
  double a[16][32], b[32][8];
  const uint64_t mask = bits == 64 ? ~0ull : (1ull << bits) - 1;
  for (unsigned l = 0; l < 32; ++l) {
    const Product& lane = *static_cast<Product*>(lanes[l]);
    for (unsigned n = 0; n < rows * depth / 32; ++n) {
      const unsigned r = n / in_register, e = n % in_register, halves = rows / 8;
      a[l / 4 + r % halves * 8][l % 4 * in_register + e + r / halves * 4 * in_register] =
          element(lane.a[r] >> (in_register > 1 ? e * bits : 0) & mask, type_a);
    }
    for (unsigned n = 0; n < 8 * depth / 32; ++n) {
      const unsigned r = n / in_register, e = n % in_register;
      b[l % 4 * in_register + e + r * 4 * in_register][l / 4] =
          element(lane.b[r] >> (in_register > 1 ? e * bits : 0) & mask, type_b);
    }
  }
  for (unsigned l = 0; l < 32; ++l) {
    const Product& lane = *static_cast<Product*>(lanes[l]);
    unsigned halves[4] = {};
    for (unsigned i = 0; i < rows / 4; ++i) {
      const unsigned row = l / 4 + i / 2 * 8, column = 2 * (l % 4) + i % 2;
      const uint64_t held = lane.c[sums == SUM_F16 ? i / 2 : i];
      double sum = sums == SUM_F16 ? of_half(held >> i % 2 * 16 & 0xffff) : sums == SUM_S32 ? (double)(int)held
                   : sums == SUM_F64 ? element(held, F64) : (double)__uint_as_float((unsigned)held);
      for (unsigned k = 0; k < depth; ++k) sum += a[row][k] * b[k][column];
      if (sums == SUM_F32) lane.d[i] = __float_as_uint((float)sum);
      if (sums == SUM_F64) memcpy(&lane.d[i], &sum, 8);
      if (sums == SUM_S32) lane.d[i] = (unsigned)(clamps ? (long long)fmin(fmax(sum, -0x1p31),
          0x1p31 - 1) : (long long)sum);
      if (sums == SUM_F16) halves[i] = to_half_bits(sum);
    }
    if (sums == SUM_F16)
      for (unsigned i = 0; i < 2; ++i) lane.d[i] = halves[2 * i] | halves[2 * i + 1] << 16;
  }
}
void simt_mma(unsigned long long* d, const unsigned long long* a, const unsigned long long* b,
    const unsigned long long* c,
              unsigned types, int depth, const char* file, unsigned line, void* pc) {
  collective(pc, file, line);
  check_warp("mma.sync");
  Product product{d, a, b, c, types, depth};
  rendezvous(~0u, MMA, &product, multiply_lanes);
}
