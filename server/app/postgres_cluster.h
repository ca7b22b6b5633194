// The data directory of a private PostgreSQL: found, or made with initdb.
//
// Of the state directory's files (see private_postgres.h) this owns data/ and pgpass.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "server/app/child_process.h"
#include "server/app/postgres_installation.h"
#include "server/app/state_directory.h"

namespace idempotency {

inline constexpr char kClusterSuperuser[] = "idempotencyd";
inline constexpr char kClusterDataDirectory[] = "data";
inline constexpr char kClusterPasswordFile[] = "pgpass";
inline constexpr char kClusterLogFile[] = "postgres.log";

struct ClusterOptions {
  // See FindPostgres.
  std::string bin_directory;
  // Who the server will run as. Nothing: the current user.
  std::optional<ProcessUser> server_user;
  // False: initdb does not sync what it wrote to the disk.
  bool sync = true;
};

// Makes sure that the state directory has a data directory and returns the programs that fit it.
// One that a killed process was still making is made anew: initdb works beside the final name,
// which is given last.
//
// FailedPrecondition, with what to do, when there is something else in its place, its password is
// lost, its PostgreSQL version is not installed, or initdb failed. DeadlineExceeded when initdb
// took more than two minutes.
absl::StatusOr<PostgresInstallation> OpenCluster(const StateDirectory& state,
                                                 const ClusterOptions& options);

}  // namespace idempotency
