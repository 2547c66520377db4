// The time limit of a launch: SIGALRM stops the running thread. kernels/run/backends/cpu.py starts the timer.
#pragma once
#include <csignal>
#include <pthread.h>

namespace simt {
static pthread_t limited;  // the OS thread of the launch
static volatile bool in_launch, late;  // late: the launch was stopped
static void (*out_of_time)();  // stops the launch if a CUDA thread runs. Then it does not return.

static void on_alarm(int) {
  if (!in_launch) return;
  if (!pthread_equal(pthread_self(), limited)) {  // the system chose another thread of the process
    pthread_kill(limited, SIGALRM);
    return;
  }
  out_of_time();
}
// During its life SIGALRM stops the launch, unless the program has its own handler.
struct Limit {
  bool ours;
  Limit(void (*stop)()) {
    struct sigaction before;
    sigaction(SIGALRM, nullptr, &before);
    ours = before.sa_handler == SIG_DFL || before.sa_handler == SIG_IGN;
    late = false, out_of_time = stop, limited = pthread_self(), in_launch = true;
    if (ours) set(on_alarm);
  }
  ~Limit() {
    in_launch = false;
    if (ours) set(SIG_IGN);  // a late alarm ends nothing
  }
  static void set(void (*handler)(int)) {
    struct sigaction action = {};
    action.sa_handler = handler;
    action.sa_flags = SA_NODEFER;  // the handler switches stacks and does not return
    sigaction(SIGALRM, &action, nullptr);
  }
};
}  // namespace simt
