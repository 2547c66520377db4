// Launches by a kernel (dynamic parallelism): name<<<grid, block, shared_bytes, stream>>>(...) in device code.
//
//   cudaStreamFireAndForget  starts as soon as the GPU can, also before the end of its parent. Nothing orders it.
//   cudaStreamTailLaunch     starts after the end of its parent and of all other children, in the order of launches.
//
// The launch after the parent waits for all of its children. The CPU shim runs them after their parent's grid.
//
// The opening comment lists each child after its parent, and the parent's table names it: children = ["name"]. The
// numbers of the children follow the comment: 0, 1, ... Their probes need two more words:
//   PROBE_CHILDREN   ends the parent's parameter list after PROBE_PARAM, with no comma before it
//   PROBE_CHILD(i)   ends the arguments of the launch of child i, with no comma before it
#pragma once
#include "launches.cuh"
#ifndef __CUDACC__
#include "children.h"
#endif

#if defined(PROBED)
struct ProbeChild { ProbeRecord* records; unsigned *counts, capacity, first, blocks; };
#define PROBE_CHILD(i) \
  , probe_children[i].records, probe_children[i].counts, probe_children[i].capacity, probe_children[i].first, \
      probe_children[i].blocks
#elif defined(TIMELINE)
struct ProbeChild { BlockTime* times; };
#define PROBE_CHILD(i) , probe_children[i].times
#elif defined(MARK_EVERY)
struct ProbeChild { MarkRecord* records; unsigned* counts; WriterClocks* clocks; unsigned capacity; };
#define PROBE_CHILD(i) \
  , probe_children[i].records, probe_children[i].counts, probe_children[i].clocks, probe_children[i].capacity
#endif
#ifdef PROBE_CHILD
#define PROBE_CHILDREN , const ProbeChild *probe_children
#else
#define PROBE_CHILDREN
#define PROBE_CHILD(i)
#endif
