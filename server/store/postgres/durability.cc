#include "server/store/postgres/durability.h"

#include "absl/strings/str_cat.h"
#include "server/base/status_macros.h"
#include "server/store/postgres/rows.h"

namespace idempotency {

absl::Status ReadCommitSettings(const PGresult* result, CommitSettings* settings) {
  RETURN_IF_ERROR(CheckShape(result, {PgType::kText, PgType::kText, PgType::kInt4,
                                      PgType::kTimestamptz, PgType::kTimestamptz}));
  if (PQntuples(result) != 1) return absl::InternalError("durability: no row");
  RowReader row(result, 0);
  settings->synchronous_commit = std::string(row.Bytes());
  settings->synchronous_standby_names = std::string(row.Bytes());
  settings->has_wal_senders = row.Int4() > 0;
  settings->loaded_at = row.Timestamp();
  settings->now = row.Timestamp();
  return row.status();
}

absl::Status CheckReplicates(const CommitSettings& settings) {
  const std::string& commit = settings.synchronous_commit;
  if (commit != "on" && commit != "remote_apply" && commit != "remote_write") {
    return absl::UnavailableError(absl::StrCat("synchronous_commit is ", commit,
                                               ": commits do not wait for a standby; "
                                               "--durability=replicated needs on"));
  }
  if (settings.synchronous_standby_names.empty()) {
    return absl::UnavailableError(
        "synchronous_standby_names is empty: commits wait for no standby; "
        "--durability=replicated needs one named");
  }
  if (!settings.has_wal_senders) {
    return absl::UnavailableError("max_wal_senders is 0: commits wait for no standby");
  }
  return absl::OkStatus();
}

absl::Status CheckReplicated(const CommitSettings& before, const CommitSettings& after) {
  RETURN_IF_ERROR(CheckReplicates(before));
  RETURN_IF_ERROR(CheckReplicates(after));
  if (before.loaded_at != after.loaded_at) {
    return absl::AbortedError("the configuration was loaded during the commit");
  }
  return absl::OkStatus();
}

}  // namespace idempotency
