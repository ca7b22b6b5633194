#include "tests/util/test_pooler.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/app/loopback_port.h"
#include "server/app/postgres_cluster.h"
#include "server/app/program_log.h"
#include "server/base/check.h"
#include "tests/util/eventually.h"

namespace idempotency {
namespace {

// Debian's, and other systems' where it is the same.
constexpr char kProgram[] = "/usr/sbin/pgbouncer";

template <typename T>
T Must(absl::StatusOr<T> result) {
  IDEM_CHECK(result.ok()) << result.status();
  return *std::move(result);
}

std::string MakeDirectory() {
  std::string path = "/tmp/idempotencyd-pooler-XXXXXX";
  IDEM_CHECK(mkdtemp(path.data()) != nullptr) << path;
  return path;
}

}  // namespace

TestPooler::TestPooler(TestPostgres& postgres, absl::string_view database,
                       absl::string_view pool_mode)
    : directory_(MakeDirectory()) {
  const int port = Must(ChooseLoopbackPort(std::nullopt));
  conninfo_ =
      absl::StrCat("host=127.0.0.1 port=", port, " user=", kClusterSuperuser, " dbname=", database);
  const std::string file = directory_ + "/pgbouncer.ini";
  std::ofstream(file) << "[databases]\n* = host=127.0.0.1 port=" << postgres.server().port()
                      << " user=" << kClusterSuperuser << " password=" << postgres.Password()
                      << "\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = " << port
                      << "\nunix_socket_dir =\nauth_type = any\npool_mode = " << pool_mode
                      << "\ndefault_pool_size = 50\n";
  IDEM_CHECK(chmod(file.c_str(), 0600) == 0) << file;
  for (const std::string& path : {file, directory_}) {
    const std::optional<ProcessUser> user = ServerUser();
    if (!user.has_value()) continue;
    IDEM_CHECK(chown(path.c_str(), user->uid, user->gid) == 0) << path;
  }
  Launch();
}

TestPooler::~TestPooler() {
  process_.reset();
  std::error_code error;
  std::filesystem::remove_all(directory_, error);
}

void TestPooler::Launch() {
  const ProgramLog log = Must(ProgramLog::Open(directory_ + "/log"));
  process_ = Must(Process::Start({.argv = {kProgram, directory_ + "/pgbouncer.ini"},
                                  .directory = directory_,
                                  .output_fd = log.fd(),
                                  .user = ServerUser(),
                                  .death_signal = SIGKILL}));
  const bool is_up =
      Eventually([&] { return !process_->Running() || Exec(conninfo_, "SELECT").ok(); });
  IDEM_CHECK(is_up && process_->Running()) << log.Describe();
}

void TestPooler::Restart() {
  process_->Signal(SIGKILL);
  IDEM_CHECK(process_->WaitFor(absl::Minutes(1))) << "the pooler does not end";
  Launch();
}

}  // namespace idempotency
