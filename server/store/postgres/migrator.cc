#include "server/store/postgres/migrator.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/status_macros.h"
#include "server/record/digest.h"
#include "server/store/postgres/connection.h"
#include "server/store/postgres/sqlstate.h"

namespace idempotency {
namespace {

constexpr char kUndefinedTable[] = "42P01";

}  // namespace

std::string ChecksumOf(const Migration& migration) {
  const Sha256Digest digest = Sha256().Bytes(migration.sql).Finish();
  return std::string(reinterpret_cast<const char*>(digest.data()), digest.size());
}

absl::StatusOr<Migrator> Migrator::Connect(const std::string& conninfo) {
  ConnectionOptions options;
  options.conninfo = conninfo;
  ASSIGN_OR_RETURN(const ConnectParams params, ConnectParams::Make(options));
  Migrator migrator(PQconnectdbParams(params.Keywords().data(), params.Values().data(), 0));
  if (PQstatus(migrator.connection_.get()) != CONNECTION_OK) {
    return absl::UnavailableError(
        absl::StrCat("connect: ", PQerrorMessage(migrator.connection_.get())));
  }
  PQsetNoticeProcessor(
      migrator.connection_.get(), [](void*, const char*) {}, nullptr);
  return migrator;
}

absl::StatusOr<PgResult> Migrator::Execute(Query query, const Params& params) {
  std::vector<const char*> pointers;
  std::vector<int> lengths;
  for (const std::string& value : params.values()) {
    pointers.push_back(value.data());
    lengths.push_back(static_cast<int>(value.size()));
  }
  const std::vector<int> formats(pointers.size(), 1);
  return Judge(PQexecParams(connection_.get(), QueryText(query), static_cast<int>(pointers.size()),
                            nullptr, pointers.data(), lengths.data(), formats.data(), 1),
               QueryName(query));
}

absl::Status Migrator::ExecuteScript(absl::string_view sql, absl::string_view doing) {
  return Judge(PQexec(connection_.get(), std::string(sql).c_str()), doing).status();
}

absl::StatusOr<std::vector<AppliedMigration>> Migrator::List() {
  const absl::StatusOr<PgResult> result = Execute(Query::kMigrateList);
  if (!result.ok() && last_sqlstate_ == kUndefinedTable) {
    return absl::NotFoundError("the database has no schema of this service");
  }
  RETURN_IF_ERROR(result.status());
  RETURN_IF_ERROR(CheckShape(result->get(), {PgType::kInt4, PgType::kText, PgType::kBytea,
                                             PgType::kTimestamptz, PgType::kInt4}));
  std::vector<AppliedMigration> applied;
  for (int i = 0; i < PQntuples(result->get()); ++i) {
    RowReader row(result->get(), i);
    AppliedMigration migration;
    migration.version = row.Int4();
    migration.name = std::string(row.Bytes());
    migration.checksum = std::string(row.Bytes());
    migration.applied_at = row.Timestamp();
    migration.oldest_server = row.Int4();
    RETURN_IF_ERROR(row.status());
    applied.push_back(std::move(migration));
  }
  return applied;
}

absl::StatusOr<PgResult> Migrator::Judge(PGresult* raw, absl::string_view doing) {
  PgResult result(raw);
  const ExecStatusType status = PQresultStatus(raw);
  last_sqlstate_.clear();
  if (status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK) return result;
  const char* state = PQresultErrorField(raw, PG_DIAG_SQLSTATE);
  last_sqlstate_ = state == nullptr ? "" : state;
  const std::string message =
      absl::StrCat(doing, ": SQLSTATE ", last_sqlstate_, ": ", PQerrorMessage(connection_.get()));
  if (PQstatus(connection_.get()) != CONNECTION_OK ||
      KindOfSqlState(last_sqlstate_) == ErrorKind::kUnavailable) {
    return absl::UnavailableError(message);
  }
  return absl::InternalError(message);
}

}  // namespace idempotency
