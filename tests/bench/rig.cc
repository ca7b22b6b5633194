#include "tests/bench/rig.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "libpq-fe.h"
#include "server/app/loopback_port.h"
#include "server/app/postgres_installation.h"
#include "server/base/status_macros.h"
#include "server/store/postgres/migrate.h"

namespace idempotency::bench {
namespace {

namespace fs = std::filesystem;

// Longer than the longest load, which makes ten million records.
constexpr absl::Duration kLoadTimeout = absl::Hours(3);

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  std::ifstream file(path);
  if (!file) return absl::NotFoundError(absl::StrCat("cannot read ", path));
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

const char* TableOf(Contestant contestant) {
  return contestant == Contestant::kPlain ? "obvious_idempotency_key" : "idempotency_record";
}

}  // namespace

const char* ContestantName(Contestant contestant) {
  switch (contestant) {
    case Contestant::kOurs:
      return "ours";
    case Contestant::kPlain:
      return "plain";
    case Contestant::kNoop:
      return "no-op";
  }
  return "";
}

ServerUnderTest::~ServerUnderTest() {
  process_->Signal(SIGKILL);
  process_->WaitFor(absl::InfiniteDuration());
}

std::string ServerUnderTest::address() const { return absl::StrCat("127.0.0.1:", port_); }

absl::StatusOr<std::unique_ptr<Rig>> Rig::Start(const RigOptions& options) {
  std::unique_ptr<Rig> rig(new Rig(options));
  RETURN_IF_ERROR(rig->MakeDirectory());
  PrivatePostgresOptions postgres;
  postgres.ephemeral = true;
  // Everything else is as installed; synchronous_commit and fsync are on. A gigabyte of buffers,
  // and no checkpoint in the middle of a measurement: both serve the plain server at least as much
  // as ours.
  postgres.settings = {
      {"shared_buffers", "1GB"}, {"max_wal_size", "8GB"}, {"checkpoint_timeout", "30min"}};
  if (options.slow_disk) {
    ASSIGN_OR_RETURN(postgres.bin_directory, rig->MakeSlowPrograms());
    postgres.start_timeout = absl::Minutes(2);
  }
  ASSIGN_OR_RETURN(rig->postgres_, PrivatePostgres::Start(postgres));
  RETURN_IF_ERROR(Migrate(rig->postgres_->ConnectionString()));
  ASSIGN_OR_RETURN(const std::string obvious, ReadFile(options.programs + "/sql/obvious.sql"));
  RETURN_IF_ERROR(rig->Query(obvious).status());
  return rig;
}

Rig::~Rig() {
  if (postgres_ != nullptr) postgres_->Stop().IgnoreError();
  std::error_code error;
  if (!directory_.empty()) fs::remove_all(directory_, error);
}

absl::Status Rig::MakeDirectory() {
  std::string path = (fs::temp_directory_path() / "idempotency-bench-XXXXXX").string();
  if (mkdtemp(path.data()) == nullptr)
    return absl::ErrnoToStatus(errno, absl::StrCat("mkdtemp ", path));
  directory_ = path;
  // PostgreSQL may run as another user, and reads the preloaded library from here.
  chmod(path.c_str(), 0755);
  return absl::OkStatus();
}

// A directory of PostgreSQL's programs in which `postgres` is a script that preloads the slow
// fsync. A script, because a Process starts with an environment of its own.
absl::StatusOr<std::string> Rig::MakeSlowPrograms() {
  ASSIGN_OR_RETURN(const PostgresInstallation found, FindPostgres("", 0));
  const std::string library = directory_ + "/libslow_fsync.so";
  const std::string directory = directory_ + "/bin";
  std::error_code error;
  fs::create_directory(directory, error);
  fs::copy_file(options_.programs + "/libslow_fsync.so", library, error);
  if (error)
    return absl::InternalError(absl::StrCat("cannot copy libslow_fsync.so: ", error.message()));
  chmod(directory.c_str(), 0755);
  chmod(library.c_str(), 0755);
  const std::string script = directory + "/postgres";
  std::ofstream(script) << "#!/bin/sh\nLD_PRELOAD=" << library << " exec "
                        << found.Program("postgres") << " \"$@\"\n";
  chmod(script.c_str(), 0755);
  // initdb finds its own postgres beside its real place: the cluster is made at full speed.
  fs::create_symlink(found.Program("initdb"), directory + "/initdb", error);
  if (error) return absl::InternalError(absl::StrCat("cannot link initdb: ", error.message()));
  return directory;
}

absl::StatusOr<std::string> Rig::Query(const std::string& sql) {
  PGconn* const connection = PQconnectdb(postgres_->ConnectionString().c_str());
  PGresult* const result = PQexec(connection, sql.c_str());
  const ExecStatusType status = PQresultStatus(result);
  absl::StatusOr<std::string> value = std::string();
  if (status == PGRES_TUPLES_OK && PQntuples(result) > 0) {
    value = std::string(PQgetvalue(result, 0, 0));
  } else if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK) {
    value = absl::InternalError(absl::StrCat(sql, ": ", PQerrorMessage(connection)));
  }
  PQclear(result);
  PQfinish(connection);
  return value;
}

absl::Status Rig::Reset() {
  RETURN_IF_ERROR(Query("TRUNCATE idempotency_record, obvious_idempotency_key").status());
  return Query("CHECKPOINT").status();
}

absl::StatusOr<std::unique_ptr<ServerUnderTest>> Rig::StartServer(Contestant contestant) {
  ASSIGN_OR_RETURN(const int port, ChooseLoopbackPort(std::nullopt));
  const std::string address = absl::StrCat("127.0.0.1:", port);
  ProcessCommand command;
  switch (contestant) {
    case Contestant::kOurs:
      command.argv = {options_.server,
                      "serve",
                      "--insecure",
                      "--durability",
                      "local",
                      "--listen",
                      address,
                      "--drain-delay",
                      "0s",
                      "--database-url",
                      postgres_->ConnectionString()};
      command.argv.insert(command.argv.end(), options_.server_flags.begin(),
                          options_.server_flags.end());
      break;
    case Contestant::kPlain:
      command.argv = {options_.programs + "/plain_server", address, postgres_->ConnectionString()};
      break;
    case Contestant::kNoop:
      command.argv = {options_.programs + "/noop_server", address};
      break;
  }
  const std::string log = directory_ + "/server.log";
  command.output_fd = open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  command.death_signal = SIGKILL;
  absl::StatusOr<std::unique_ptr<Process>> process = Process::Start(command);
  close(command.output_fd);
  if (!process.ok()) return process.status();
  return std::make_unique<ServerUnderTest>(*std::move(process), port);
}

absl::StatusOr<nlohmann::json> Rig::Run(const std::string& program,
                                        const std::vector<std::string>& arguments) {
  const std::string output = absl::StrCat(directory_, "/", program, ".json");
  ProcessCommand command;
  command.argv = {absl::StrCat(options_.programs, "/", program)};
  command.argv.insert(command.argv.end(), arguments.begin(), arguments.end());
  command.output_fd = open(output.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  command.death_signal = SIGKILL;
  absl::StatusOr<std::unique_ptr<Process>> process = Process::Start(command);
  close(command.output_fd);
  if (!process.ok()) return process.status();
  if (!(*process)->WaitFor(kLoadTimeout)) {
    (*process)->Signal(SIGKILL);
    return absl::DeadlineExceededError(absl::StrCat(program, " did not end"));
  }
  ASSIGN_OR_RETURN(const std::string text, ReadFile(output));
  nlohmann::json json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_object()) return json;
  const absl::StatusOr<std::string> log = ReadFile(directory_ + "/server.log");
  return absl::InternalError(absl::StrCat(
      program, " failed: ", text, "\nthe server's log: ", log.ok() ? log->substr(0, 2000) : ""));
}

absl::StatusOr<nlohmann::json> Rig::Load(const ServerUnderTest& server,
                                         const std::vector<std::string>& arguments) {
  std::vector<std::string> all = {"--target", server.address(),
                                  "--watch",  absl::StrCat("server=", server.pid()),
                                  "--watch",  absl::StrCat("postgres=", postgres_->Pid())};
  all.insert(all.end(), arguments.begin(), arguments.end());
  ASSIGN_OR_RETURN(nlohmann::json json, Run("load_generator", all));
  const double processor_seconds =
      json["seconds"].get<double>() * std::max(1U, std::thread::hardware_concurrency());
  greatest_foreign_share_ = std::max(
      greatest_foreign_share_, json["cpu_seconds"]["others"].get<double>() / processor_seconds);
  return json;
}

absl::StatusOr<nlohmann::json> Rig::Measure(Contestant contestant,
                                            const std::vector<std::string>& arguments) {
  RETURN_IF_ERROR(Reset());
  ASSIGN_OR_RETURN(const std::unique_ptr<ServerUnderTest> server, StartServer(contestant));
  return Load(*server, arguments);
}

absl::StatusOr<double> Rig::Pgbench(const std::string& protocol, int seconds) {
  RETURN_IF_ERROR(Reset());
  ASSIGN_OR_RETURN(const PostgresInstallation found, FindPostgres("", 0));
  ASSIGN_OR_RETURN(const std::string text,
                   RunAndRead({found.Program("pgbench"), "--no-vacuum", "--protocol=" + protocol,
                               "--client=16", "--jobs=2", absl::StrCat("--time=", seconds),
                               "--file=" + options_.programs + "/sql/insert.pgbench",
                               postgres_->ConnectionString()},
                              absl::Seconds(seconds) + absl::Minutes(1)));
  const size_t place = text.find("tps = ");
  double rate = 0;
  if (place == std::string::npos ||
      !absl::SimpleAtod(text.substr(place + 6, text.find(' ', place + 6) - place - 6), &rate)) {
    return absl::InternalError(absl::StrCat("pgbench: ", text));
  }
  return rate;
}

absl::Status Rig::VacuumAnalyze(Contestant contestant) {
  return Query(absl::StrCat("VACUUM ANALYZE ", TableOf(contestant))).status();
}

absl::StatusOr<TableSize> Rig::SizeOf(Contestant contestant) {
  const std::string table = TableOf(contestant);
  TableSize size;
  ASSIGN_OR_RETURN(const std::string heap,
                   Query(absl::StrCat("SELECT pg_table_size('", table, "')")));
  ASSIGN_OR_RETURN(const std::string index,
                   Query(absl::StrCat("SELECT pg_indexes_size('", table, "')")));
  if (!absl::SimpleAtoi(heap, &size.heap_bytes) || !absl::SimpleAtoi(index, &size.index_bytes)) {
    return absl::InternalError("a size that is no number");
  }
  return size;
}

absl::StatusOr<int64_t> Rig::CountRows(Contestant contestant) {
  ASSIGN_OR_RETURN(const std::string text,
                   Query(absl::StrCat("SELECT count(*) FROM ", TableOf(contestant))));
  int64_t rows = 0;
  if (!absl::SimpleAtoi(text, &rows)) return absl::InternalError("a count that is no number");
  return rows;
}

}  // namespace idempotency::bench
