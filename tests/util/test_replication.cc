#include "tests/util/test_replication.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "server/app/file.h"
#include "server/app/loopback_port.h"
#include "server/app/postgres_cluster.h"
#include "server/app/program_log.h"
#include "server/base/check.h"
#include "tests/util/eventually.h"

namespace idempotency {
namespace {

constexpr char kAnyStandby[] = "ANY 1 (*)";

template <typename T>
T Must(absl::StatusOr<T> value) {
  IDEM_CHECK(value.ok()) << value.status();
  return *std::move(value);
}

std::string ValueOr(const std::string& conninfo, const std::string& sql,
                    const std::string& otherwise) {
  return QueryValue(conninfo, sql).value_or(otherwise);
}

void MustExec(const std::string& conninfo, const std::string& sql) {
  const absl::Status status = Exec(conninfo, sql);
  IDEM_CHECK(status.ok()) << status << sql;
}

}  // namespace

TestStandby::TestStandby(TestPostgres& primary, const std::string& name)
    : primary_(primary),
      name_(name),
      password_(primary.Password()),
      installation_(Must(FindPostgres("", 0))),
      user_(ServerUser()),
      state_(Must(StateDirectory::OpenEphemeral(user_.has_value()))) {
  Copy(PrimaryConninfo(primary.server().port()));
  Launch();
  AwaitStreaming(primary.server().ConnectionString());
}

TestStandby::~TestStandby() {
  Thaw();
  process_->Signal(SIGQUIT);
  process_->WaitFor(absl::InfiniteDuration());
}

std::string TestStandby::PrimaryConninfo(int port) const {
  return absl::StrCat("host=127.0.0.1 port=", port, " user=", kClusterSuperuser,
                      " password=", password_, " application_name=", name_, " sslmode=disable");
}

void TestStandby::Copy(const std::string& primary_conninfo) {
  const std::string data = state_->File(kClusterDataDirectory);
  IDEM_CHECK(mkdir(data.c_str(), 0700) == 0) << data;
  if (user_.has_value()) {
    IDEM_CHECK(chown(data.c_str(), user_->uid, user_->gid) == 0) << data;
  }
  const ProgramLog log = Must(ProgramLog::Open(state_->File("basebackup.log")));
  const std::unique_ptr<Process> copy =
      Must(Process::Start({.argv = {installation_.Program("pg_basebackup"), "-d", primary_conninfo,
                                    "-D", data, "-R", "-X", "stream", "-c", "fast", "--no-sync"},
                           .directory = data,
                           .output_fd = log.fd(),
                           .user = user_,
                           .death_signal = SIGKILL}));
  copy->WaitFor(absl::InfiniteDuration());
  IDEM_CHECK(copy->Succeeded()) << log.Describe();
}

void TestStandby::Launch() {
  const std::string data = state_->File(kClusterDataDirectory);
  std::string log_text;
  const bool started = Eventually([&] {
    port_ = Must(ChooseLoopbackPort(0));
    const ProgramLog log = Must(ProgramLog::Open(state_->File(kClusterLogFile)));
    process_ = Must(Process::Start(
        {.argv = {installation_.Program("postgres"), "-D", data, "-c", "listen_addresses=127.0.0.1",
                  "-c", absl::StrCat("port=", port_), "-c", "unix_socket_directories=", "-c",
                  "fsync=off", "-c", "wal_retrieve_retry_interval=50ms"},
         .directory = data,
         .output_fd = log.fd(),
         .user = user_,
         .death_signal = SIGQUIT}));
    // Ended: another program took the port meanwhile.
    while (process_->Running()) {
      if (Exec(ConnectionString(), "SELECT").ok()) return true;
    }
    log_text = log.Describe();
    return false;
  });
  IDEM_CHECK(started) << log_text;
}

void TestStandby::AwaitStreaming(const std::string& primary) {
  const std::string sql =
      absl::StrCat("SELECT state FROM pg_stat_replication WHERE application_name = '", name_, "'");
  IDEM_CHECK(Eventually([&] { return ValueOr(primary, sql, "") == "streaming"; }))
      << ReadFile(state_->File(kClusterLogFile));
}

std::string TestStandby::ConnectionString(absl::string_view database) const {
  return absl::StrReplaceAll(
      primary_.server().ConnectionString(database),
      {{absl::StrCat("port=", primary_.server().port()), absl::StrCat("port=", port_)}});
}

void TestStandby::Freeze() {
  IDEM_CHECK(frozen_ == 0) << "frozen twice";
  // The process that receives and confirms; it exists, because the standby streams.
  int pid = 0;
  IDEM_CHECK(absl::SimpleAtoi(
      ValueOr(ConnectionString(), "SELECT pid FROM pg_stat_wal_receiver", ""), &pid));
  frozen_ = pid;
  IDEM_CHECK(kill(frozen_, SIGSTOP) == 0);
  // The process's state follows its name in parentheses.
  IDEM_CHECK(Eventually([&] {
    return absl::StrContains(ReadFile(absl::StrCat("/proc/", frozen_, "/stat")), ") T ");
  }));
}

void TestStandby::Thaw() {
  if (frozen_ != 0) kill(frozen_, SIGCONT);
  frozen_ = 0;
}

std::string TestStandby::Detach() {
  MustExec(ConnectionString(), "ALTER SYSTEM SET primary_conninfo = ''");
  MustExec(ConnectionString(), "SELECT pg_reload_conf()");
  IDEM_CHECK(Eventually([&] {
    return ValueOr(ConnectionString(), "SELECT count(*) FROM pg_stat_wal_receiver", "") == "0";
  }));
  return ValueOr(ConnectionString(), "SELECT pg_last_wal_receive_lsn()", "");
}

void TestStandby::AwaitReceived(const std::string& place) {
  const std::string sql = absl::StrCat("SELECT pg_last_wal_receive_lsn() >= '", place, "'");
  IDEM_CHECK(Eventually([&] { return ValueOr(ConnectionString(), sql, "") == "t"; })) << place;
}

void TestStandby::Promote() { MustExec(ConnectionString(), "SELECT pg_promote(true, 60)"); }

void TestStandby::Follow(const TestStandby& primary) {
  MustExec(ConnectionString(), absl::StrCat("ALTER SYSTEM SET primary_conninfo = '",
                                            PrimaryConninfo(primary.port()), "'"));
  MustExec(ConnectionString(), "SELECT pg_reload_conf()");
  AwaitStreaming(primary.ConnectionString());
}

TestReplication::TestReplication(int standbys)
    : primary_(std::vector<std::pair<std::string, std::string>>{{"fsync", "off"}}) {
  for (int i = 1; i <= standbys; ++i) {
    standbys_.push_back(std::make_unique<TestStandby>(primary_, absl::StrCat("standby_", i)));
  }
  Recover();
}

std::string TestReplication::AdminConninfo(absl::string_view database) {
  return absl::StrCat(primary_.server().ConnectionString(database),
                      " application_name=admin options='-c synchronous_commit=local'");
}

void TestReplication::AlterSystem(const std::string& setting, const std::string& value) {
  MustExec(AdminConninfo(), absl::StrCat("ALTER SYSTEM SET ", setting, " = '", value, "'"));
  Reload();
}

void TestReplication::ResetSystem(const std::string& setting) {
  MustExec(AdminConninfo(), absl::StrCat("ALTER SYSTEM RESET ", setting));
  Reload();
}

void TestReplication::Reload() {
  const std::string loaded = "SELECT pg_conf_load_time()";
  const std::string before = ValueOr(AdminConninfo(), loaded, "");
  MustExec(AdminConninfo(), "SELECT pg_reload_conf()");
  // The main process loads it first, tells all others, and hands it down to new ones.
  IDEM_CHECK(Eventually([&] { return ValueOr(AdminConninfo(), loaded, before) != before; }));
  // The checkpointer, which decides whether commits wait for anybody, loads it before its next
  // work.
  MustExec(AdminConninfo(), "CHECKPOINT");
}

void TestReplication::Recover() {
  for (const auto& standby : standbys_) standby->Thaw();
  MustExec(AdminConninfo(), "ALTER SYSTEM RESET ALL");
  AlterSystem("synchronous_standby_names", kAnyStandby);
  IDEM_CHECK(Eventually([&] {
    return ValueOr(AdminConninfo(),
                   "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'", "") == "0";
  }));
}

}  // namespace idempotency
