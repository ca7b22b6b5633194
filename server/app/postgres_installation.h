// Where this machine's PostgreSQL server programs are.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace idempotency {

inline constexpr int kOldestPostgresMajor = 15;

struct PostgresInstallation {
  // Holds initdb and postgres. Absolute.
  std::string bin_directory;
  int major_version = 0;

  std::string Program(const std::string& name) const { return bin_directory + "/" + name; }
};

// Finds the programs: in `bin_directory` if that is not empty, else the newest of
// /usr/lib/postgresql/*/bin (Debian's place), else where pg_config says. `major_version` of an
// existing data directory asks for exactly that version; 0 takes any from kOldestPostgresMajor on.
//
// FailedPrecondition, with what to install, when there is none. Thread-safe; runs `postgres
// --version`.
absl::StatusOr<PostgresInstallation> FindPostgres(const std::string& bin_directory,
                                                  int major_version);

}  // namespace idempotency
