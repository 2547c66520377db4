// A browser sends no signal, so a launch has no limit of time. Only our own kernels run there.
#pragma once
namespace simt {
static bool late;
struct Limit { explicit Limit(void (*)()) { late = false; } };
}  // namespace simt
