// The process of a stranger's launches on the CPU. Each run starts a new one by exec, so its memory never held a text of
// another user or a secret.
//
// It reads its task from descriptor 0, maps the memory that it shares with its worker, and confines itself. Then it
// loads the library and makes the calls of the task. Results stay in the shared memory. Descriptor 1 gets "!"
// and the reason why no jail started, or "+" before the library loads and "whole" at the end. The library can write
// only behind the "+". kernels/run/backends/jailed.py writes the task.
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <initializer_list>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

namespace {

enum Kind : uint64_t { ALWAYS = 1, LAUNCH = 2 };  // after a stopped launch only the calls with ALWAYS follow
struct Call {  // as CALL in jailed.py. Without a name, it copies args[2] bytes from args[1] to args[0].
  const char* name;
  uint64_t args[6], kind, result;
};
struct Task {  // as TASK in jailed.py
  uint64_t address, bytes;  // of the shared memory
  uint64_t calls, call_count;
  double deadline;  // of the launches, by CLOCK_MONOTONIC, or 0
  uint64_t memory_bytes, cpu_seconds;  // memory_bytes: that the calls add
  int32_t memory, library, worker;  // two descriptors, a process id
  uint32_t landlock_bytes;
  uint64_t landlock[3];  // struct landlock_ruleset_attr
  uint32_t rule_count, program;  // program: the descriptor of this file
  sock_filter rules[512];
} task;

constexpr int CREATE_RULESET = 444, RESTRICT_SELF = 446;  // Landlock's system calls, on each processor
int answer = 1, library;

[[noreturn]] void refuse(const char* what, const char* why) {
  dprintf(answer, "!%s: %s", what, why);
  _exit(3);
}
void check(bool works, const char* what) {
  if (!works) refuse(what, strerror(errno));
}
void limit(decltype(RLIMIT_AS) what, uint64_t most) {
  const rlimit both{most, most};
  check(!setrlimit(what, &both), "setrlimit");
}

// No path reaches the system. The filter traps the calls of dlopen: its library is open already.
void on_path(int, siginfo_t* info, void* context) {
  const int before = errno;
  auto& machine = static_cast<ucontext_t*>(context)->uc_mcontext;
#ifdef __x86_64__
  auto& result = machine.gregs[REG_RAX];
  const uint64_t first = machine.gregs[REG_RDI], third = machine.gregs[REG_RDX], fourth = machine.gregs[REG_R10];
#else
  auto& result = machine.regs[0];
  const uint64_t first = machine.regs[0], third = machine.regs[2], fourth = machine.regs[3];
#endif
  if (info->si_syscall == SYS_newfstatat && fourth & AT_EMPTY_PATH) {
    result = syscall(SYS_fstat, first, third) ? -errno : 0;
  } else if (info->si_syscall != SYS_newfstatat && library >= 0) {
    result = library, library = -1;
  } else {
    result = -EPERM;
  }
  errno = before;
}

// Users and mounts of its own, where the machine allows them: its root is an empty folder. A network of its own would
// take some milliseconds, and the filter refuses each call of a network.
void leave_mounts() {
  if (unshare(CLONE_NEWUSER | CLONE_NEWNS) && unshare(CLONE_NEWNS)) return;
  if (mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr)) return;
  if (mount("none", "/proc", "tmpfs", MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC, "size=4k")) return;
  if (chdir("/proc") || syscall(SYS_pivot_root, ".", ".")) return;
  if (umount2(".", MNT_DETACH)) return;
}

void confine() {
  const int nowhere = open("/dev/null", O_RDWR);
  answer = dup(1);
  check(nowhere >= 0 && answer >= 0 && dup2(nowhere, 0) == 0 && dup2(nowhere, 1) == 1 && dup2(nowhere, 2) == 2,
        "/dev/null");
  close(nowhere);
  unsigned long pages = 0;
  FILE* const sizes = fopen("/proc/self/statm", "r");
  check(sizes && fscanf(sizes, "%lu", &pages) == 1, "/proc/self/statm");
  fclose(sizes);
  leave_mounts();
  check(!prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0), "prctl");
  if (getppid() != task.worker) _exit(3);  // its worker ended before
  check(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl");
  const int rules = syscall(CREATE_RULESET, task.landlock, size_t(task.landlock_bytes), 0);
  check(rules >= 0 && !syscall(RESTRICT_SELF, rules, 0), "Landlock");
  close(rules);
  limit(RLIMIT_AS, pages * sysconf(_SC_PAGESIZE) + task.memory_bytes), limit(RLIMIT_CPU, task.cpu_seconds);
  for (const auto what : {RLIMIT_FSIZE, RLIMIT_CORE, RLIMIT_NPROC, RLIMIT_NOFILE}) limit(what, 0);
  const struct { uint32_t version; int pid; } powers{0x20080522, 0};  // struct __user_cap_header_struct
  const uint32_t none[6] = {};
  check(!syscall(SYS_capset, &powers, none), "capset");

  struct sigaction trap{};
  trap.sa_sigaction = on_path, trap.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  check(!sigaction(SIGSYS, &trap, nullptr), "sigaction");
  signal(SIGALRM, SIG_IGN);  // an alarm outside a launch does nothing
  const sock_fprog program{static_cast<unsigned short>(task.rule_count), task.rules};
  check(!prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0), "seccomp");
}

void set_alarm(bool on) {
  itimerval timer{};
  if (on) {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    const double rest = task.deadline - now.tv_sec - now.tv_nsec * 1e-9, first = rest > 0.001 ? rest : 0.001;
    timer.it_value.tv_sec = first, timer.it_value.tv_usec = (first - timer.it_value.tv_sec) * 1e6;
    timer.it_interval.tv_usec = 20000;
  }
  setitimer(ITIMER_REAL, &timer, nullptr);
}

void make_calls(void* loaded) {
  using Function = uint64_t (*)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);
  bool stopped = false;
  auto* const calls = reinterpret_cast<Call*>(task.address + task.calls);
  for (uint64_t n = 0; n < task.call_count; ++n) {
    Call& call = calls[n];
    const uint64_t* const a = call.args;
    if (stopped && !(call.kind & ALWAYS)) continue;
    if (!call.name) {
      memcpy(reinterpret_cast<void*>(a[0]), reinterpret_cast<const void*>(a[1]), a[2]);
      continue;
    }
    const auto function = reinterpret_cast<Function>(dlsym(loaded, call.name));
    if (!function) refuse(call.name, "the library does not have this function");
    const bool timed = call.kind & LAUNCH && task.deadline > 0;
    if (timed) set_alarm(true);
    call.result = function(a[0], a[1], a[2], a[3], a[4], a[5]);
    if (timed) set_alarm(false);
    if (call.kind & LAUNCH) stopped = static_cast<uint32_t>(call.result) != 0;
  }
}
}  // namespace

int main() {
  size_t got = 0;
  for (ssize_t more; (more = read(0, reinterpret_cast<char*>(&task) + got, sizeof task - got)) > 0;) got += more;
  if (got < offsetof(Task, rules) || got != offsetof(Task, rules) + task.rule_count * sizeof(sock_filter)) _exit(3);
  void* const at = reinterpret_cast<void*>(task.address);
  const int flags = MAP_SHARED | MAP_FIXED_NOREPLACE;
  check(mmap(at, task.bytes, PROT_READ | PROT_WRITE, flags, task.memory, 0) == at, "the address of the shared memory");
  close(task.memory), close(task.program);
  library = task.library;
  confine();
  check(write(answer, "+", 1) == 1, "the answer");
  void* const loaded = dlopen("/kernel.so", RTLD_NOW);  // not the true name, which would show folders of the server
  if (!loaded) refuse("the library", dlerror());
  make_calls(loaded);
  _exit(write(answer, "whole", 5) < 0);
}
