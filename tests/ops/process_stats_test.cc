#include "server/ops/process_stats.h"

#include <fcntl.h>
#include <unistd.h>

#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace idempotency {
namespace {

TEST(ProcessStats, SayWhatAProcessIs) {
  const ProcessStats stats = ReadProcessStats();
  EXPECT_GE(stats.cpu_seconds, 0);
  EXPECT_GT(stats.resident_bytes, 1 << 20);
  EXPECT_GT(stats.virtual_bytes, stats.resident_bytes);
  EXPECT_GE(stats.open_fds, 1);
  EXPECT_GE(stats.threads, 1);
}

TEST(ProcessStats, StartLiesBeforeNowAndAfterTheYear2020) {
  const ProcessStats stats = ReadProcessStats();
  // A second more: the kernel's boot time is in whole seconds.
  EXPECT_LE(stats.start_time_seconds, absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch()) + 1);
  EXPECT_GT(stats.start_time_seconds, 1'577'836'800);
}

TEST(ProcessStats, CountsDescriptors) {
  const int64_t before = ReadProcessStats().open_fds;
  std::vector<int> opened;
  for (int i = 0; i < 5; ++i) opened.push_back(open("/dev/null", O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(ReadProcessStats().open_fds, before + 5);
  for (const int fd : opened) close(fd);
  EXPECT_EQ(ReadProcessStats().open_fds, before);
}

}  // namespace
}  // namespace idempotency
