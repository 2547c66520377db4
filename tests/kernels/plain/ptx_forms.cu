// Forms of asm statements. Each block sets o[N], and the comment before it has the value.
// = 2.4375
{
  float z = A;
  asm("add.f32 %0, %1, %2; mul.f32 %0, %0, %1;" : "=f"(z) : "f"(z), "f"(2.5f));
  o[N] = z;
}
// = 1.125
{
  float z = A;
  asm("add.f32 %0, %0, %1; mul.f32 %0, %0, %1;" : "+f"(z) : "f"(z));
  o[N] = z;
}
// = 1.681792830507429
{
  float z;
  EX2(z, A);
  o[N] = z;
}
// = 1.681792830507429
{
  float z;
  RAW(z, A);
  o[N] = z;
}
// = 32
{
  unsigned z;
  asm("mov.u32 %0, %%ntid.x;" : "=r"(z));
  o[N] = z;
}
// = 0
{
  unsigned z;
  asm volatile("mov.u32 %0, %laneid;" : "=r"(z));
  o[N] = z;
}
// = 18
{
  unsigned z;
  asm("{\n\t.reg .u32 t<3>; // a comment\n\tadd.u32 t1, %1, 5;\n\tshl.b32 %0, t1, 1;\n\t}" : "=r"(z) : "r"(4));
  o[N] = z;
}
// = 5
{
  float z = 1.f;
  asm("{.reg .pred p; setp.gt.f32 p, %1, 0f3F800000; @p mov.f32 %0, %1; @!p mov.f32 %0, 0f40A00000;}"
      : "+f"(z) : "f"(A));
  o[N] = z;
}
// = 12
{
  unsigned z = 0;
  asm("{.reg .pred p; LOOP: add.u32 %0, %0, 3; setp.lt.u32 p, %0, 10; @p bra LOOP;}" : "+r"(z));
  o[N] = z;
}
// = 5
{
  unsigned z = 0;
  for (int i = 0;
  i < 2;
  ++i) asm("{.reg .pred p; L%=: add.u32 %0, %0, 1; setp.lt.u32 p, %0, 4; @p bra.uni L%=;}" : "+r"(z));
  o[N] = z;
}
// = 5
{
  float4 z;
  asm("ld.global.nc.L1::no_allocate.L2::128B.v4.f32 {%0, %1, %2, %3}, [%4 + 16];"
      : "=f"(z.x), "=f"(z.y), "=f"(z.z), "=f"(z.w) : "l"(x));
  o[N] = z.y;
}
// = 63
{
  unsigned z;
  asm("ld.global.s8 %0, [%1];" : "=r"(z) : "l"((const char*)x + 7));
  o[N] = (int)z;
}
// = 7
{
  asm volatile("st.shared.f32 [%0 + 4], %1;" :: "r"((unsigned)__cvta_generic_to_shared(s)), "f"(7.f) : "memory");
  __syncthreads();
  o[N] = s[1];
}
// = 12
{
  unsigned z;
  asm("{.reg .u64 p; cvta.to.shared.u64 p, %1; cvt.u32.u64 %0, p;}" : "=r"(z) : "l"(s + 3));
  o[N] = z - (unsigned)__cvta_generic_to_shared(s);
}
// = 3
{
  s[threadIdx.x] = 1;
  __syncthreads();
  asm volatile("red.shared.add.f32 [%0], 0f40000000;" :: "r"((unsigned)__cvta_generic_to_shared(s + threadIdx.x)));
  __syncthreads();
  o[N] = s[5];
}
// = 69
{
  int z;
  __shared__ int count;
  if (!threadIdx.x) count = 5;
  __syncthreads();
  asm volatile("atom.shared::cta.add.u32 %0, [%1], 2;"
      : "=r"(z) : "r"((unsigned)__cvta_generic_to_shared(&count)) : "memory");
  __syncthreads();
  o[N] = count;
}
// = 11
{
  unsigned z;
  asm("shfl.sync.bfly.b32 %0, %1, 1, 0x1f, 0xffffffff;" : "=r"(z) : "r"(threadIdx.x + 10));
  o[N] = z;
}
// = 99
{
  unsigned z;
  asm("{.reg .pred p; shfl.sync.up.b32 %0|p, %1, 1, 0, -1; @!p mov.u32 %0, 99;}" : "=r"(z) : "r"(threadIdx.x));
  o[N] = z;
}
// = 7
{
  unsigned z;
  asm("{.reg .pred p; setp.lt.u32 p, %1, 3; vote.sync.ballot.b32 %0, p, 0xffffffff;}" : "=r"(z) : "r"(threadIdx.x));
  o[N] = z;
}
// = -9
{
  int z;
  asm("redux.sync.max.s32 %0, %1, 0xffffffff;" : "=r"(z) : "r"((int)threadIdx.x - 40));
  o[N] = z;
}
// = 1
{
  unsigned z;
  asm volatile("{.reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 %0, 1, 0, p;}" : "=r"(z));
  o[N] = z;
}
// = 1
{
  asm volatile("bar.sync 0;" ::: "memory");
  asm volatile("barrier.sync 1, 32;");
  asm volatile("fence.proxy.async;");
  asm volatile("membar.gl;");
  asm volatile("" ::: "memory");
  o[N] = 1;
}
// = 2
{
  asm volatile("prefetch.global.L2 [%0];" :: "l"(x));
  asm volatile("griddepcontrol.wait;");
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" :: "n"(240));
  o[N] = 2;
}
// = 32312
{
  unsigned short z;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;"
      : "=h"(z) : "f"(1000.f), "f"(1.f));
  o[N] = z;
}
// = 2.5
{
  float z;
  asm("{.reg .f16 h; mov.b16 h, %1; cvt.f32.f16 %0, h;}"
      : "=f"(z) : "h"((unsigned short)0x4100));
  o[N] = z;
}
// = 3
{
  asm volatile("prefetchu.L1 [%0];" :: "l"(x));
  asm volatile("{.reg .b64 p; createpolicy.fractional.L2::evict_first.b64 p, 1.0;}" ::);
  asm volatile("{discard.global.L2 [%0], 128;}" :: "l"(x));
  asm volatile("applypriority.global.L2::evict_normal [%0], 128;" :: "l"(x));
  asm volatile("nanosleep.u32 20;");
  o[N] = 3;
}
// = 2
{
  float z;
  asm("{.reg .pred p; setp.lt.f32 p, %1, 0f00000000; @p trap; ldu.global.f32 %0, [%2 + 8];}"
      : "=f"(z) : "f"(A), "l"(x));
  o[N] = z;
}
// = 4294967295
{
  unsigned z;
  asm volatile("activemask.b32 %0;" : "=r"(z));
  o[N] = z;
}
// = 10
{
  int z;
  if (threadIdx.x == 0) {
    *kept = 3;
    asm volatile("atom.global.cas.b32 %0, [%1], 3, 9;" : "=r"(z) : "l"(kept) : "memory");
    asm volatile("{.reg .b32 t; atom.release.gpu.global.exch.b32 t, [%0], 7;}" :: "l"(kept) : "memory");
    asm volatile("{.reg .b32 t; ld.acquire.gpu.global.u32 t, [%0]; st.relaxed.gpu.global.u32 [%0], t;}" :: "l"(kept));
    z += *kept;
  }
  o[N] = z;
}
