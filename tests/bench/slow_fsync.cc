// slow_fsync: a slow disk. Preloaded into PostgreSQL, it makes every fsync and fdatasync take 2 ms
// longer: about what a network volume adds.
//
//   LD_PRELOAD=…/libslow_fsync.so postgres …
#include <dlfcn.h>
#include <time.h>

namespace {

using Sync = int (*)(int);

void Delay() {
  const timespec delay{0, 2'000'000};
  nanosleep(&delay, nullptr);
}

int SyncSlowly(const char* name, int fd) {
  const auto real = reinterpret_cast<Sync>(dlsym(RTLD_NEXT, name));
  const int result = real(fd);
  Delay();
  return result;
}

}  // namespace

extern "C" int fsync(int fd) { return SyncSlowly("fsync", fd); }
extern "C" int fdatasync(int fd) { return SyncSlowly("fdatasync", fd); }
