// A stranger's native code. The first argument names a threat, the second its target.
// It prints "reached" if the threat reached its target, else "held".
#include <arpa/inet.h>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <fstream>
#include <functional>
#include <map>
#include <sched.h>
#include <string>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

using Target = const std::string&;

static bool reads(Target path) { return access(path.c_str(), R_OK) == 0 && std::ifstream(path).get() != EOF; }
static bool lists(Target path) { return opendir(path.c_str()) != nullptr; }
static bool writes(Target path) { return bool(std::ofstream(path) << "mine" << std::flush); }
static bool links(Target path) { return symlink(path.c_str(), "link") == 0 && reads("link"); }
static bool runs(Target command) { return system(command.c_str()) == 0; }
static bool asks_environment(Target name) { return getenv(name.c_str()) != nullptr; }
static bool descriptors(Target) {
  bool any = false;
  for (int fd = 3; fd < 1024; ++fd) any = any || fcntl(fd, F_GETFD) != -1;
  return any;
}
static bool connects(Target port) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in to = {};
  to.sin_family = AF_INET, to.sin_port = htons(atoi(port.c_str())), to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof to) == 0;
}
static bool connects_by_name(Target name) {  // an abstract socket of Unix, which has no file
  const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un to = {};
  to.sun_family = AF_UNIX;
  memcpy(to.sun_path + 1, name.c_str(), name.size());
  return connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof to.sun_family + 1 + name.size()) == 0;
}
static bool kills(Target pid) { return kill(atoi(pid.c_str()), SIGTERM) == 0; }
static bool traces(Target pid) { return ptrace(PTRACE_ATTACH, atoi(pid.c_str()), nullptr, nullptr) == 0; }
static bool forks(Target) {
  const pid_t pid = fork();
  if (pid == 0) _exit(0);
  return pid > 0;
}
static bool survives(Target) {  // fork, setsid and fork again
  if (fork() > 0) return false;
  setsid();
  if (fork() > 0) _exit(0);
  sleep(60);
  return true;
}
static bool takes(Target bytes) {  // memory, and writes to each page
  const size_t size = atoll(bytes.c_str());
  char* const p = static_cast<char*>(mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  if (p == MAP_FAILED) return false;
  for (size_t i = 0; i < size; i += 4096) p[i] = 1;
  return true;
}
static bool shares(Target bytes) {  // memory that outlives the process
  const int id = shmget(IPC_PRIVATE, atoll(bytes.c_str()), IPC_CREAT | 0600);
  if (id >= 0) shmctl(id, IPC_RMID, nullptr);
  return id >= 0;
}
static bool hides(Target bytes) {  // memory in files without a name
  const int fd = syscall(SYS_memfd_create, "m", 0);
  return fd >= 0 && ftruncate(fd, atoll(bytes.c_str())) == 0;
}
static bool floods(Target) {
  for (;;) puts("a line of a flood of lines, which nobody asked for");
}
static bool waits(Target) {
  for (volatile int i = 0;; i = i + 1) {
  }
}
static bool raises(Target) {  // a limit
  rlimit more = {RLIM_INFINITY, RLIM_INFINITY};
  return setrlimit(RLIMIT_AS, &more) == 0;
}
static bool leaves(Target) { return unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0; }
static bool mounts(Target) { return syscall(SYS_mount, "none", "/tmp", "tmpfs", 0, nullptr) == 0; }
static bool dies(Target) { abort(); }

int main(int, char** words) {
  const std::map<std::string, std::function<bool(Target)>> threats = {
      {"reads", reads}, {"lists", lists}, {"writes", writes}, {"links", links}, {"runs", runs},
      {"asks_environment", asks_environment}, {"descriptors", descriptors}, {"connects", connects},
      {"connects_by_name", connects_by_name}, {"kills", kills}, {"traces", traces}, {"forks", forks},
      {"survives", survives}, {"takes", takes}, {"shares", shares}, {"hides", hides}, {"floods", floods},
      {"waits", waits}, {"raises", raises}, {"leaves", leaves}, {"mounts", mounts}, {"dies", dies},
  };
  signal(SIGXFSZ, SIG_IGN);
  puts(threats.at(words[1])(words[2]) ? "reached" : "held");
}
