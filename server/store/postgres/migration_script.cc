// Migrations as a script for psql: the part of migrate.h that needs no database.
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "server/base/check.h"
#include "server/store/postgres/migrate.h"
#include "server/store/postgres/migrator.h"

namespace idempotency {
namespace {

constexpr char kHead[] =
    R"sql(-- idempotencyd: the database's schema, migrations %d to %d, as `idempotencyd migrate up` applies them.
-- Apply it as the role that is to own the tables:
--     psql -X -v ON_ERROR_STOP=1 -f FILE
-- Each migration is a transaction of its own, and is refused unless the one before it is the last that was applied:
-- what was applied already is not applied again.
SET client_encoding = 'UTF8';

)sql";

// Without the ON_ERROR_STOP of psql, all that follows in the transaction fails after it.
constexpr char kOrder[] = R"sql(DO $order$
BEGIN
    IF (SELECT COALESCE(max(m.version), 0) FROM idempotency_migration AS m) <> %d THEN
        RAISE EXCEPTION '%s is to be applied to a schema of version %d';
    END IF;
END;
$order$;
)sql";

constexpr char kNote[] =
    R"sql(INSERT INTO idempotency_migration (version, name, checksum, oldest_server)
VALUES (%d, '%s', decode('%s', 'hex'), %d);
)sql";

// The statement as a script has it: files of sql/queries end without a semicolon.
std::string Terminated(Query query) {
  return absl::StrCat(absl::StripTrailingAsciiWhitespace(QueryText(query)), ";\n\n");
}

}  // namespace

std::string ServiceGrantsTo(absl::string_view role) {
  const std::string quoted = absl::StrCat("\"", absl::StrReplaceAll(role, {{"\"", "\"\""}}), "\"");
  return absl::StrReplaceAll(ServiceGrants(), {{kRolePlace, quoted}});
}

std::string MigrationScript(int from, const std::string& grant_to,
                            absl::Span<const Migration> migrations) {
  IDEM_CHECK(from >= 1 && from <= migrations.back().version) << "there is no migration " << from;
  std::string script = absl::StrFormat(kHead, from, migrations.back().version);
  absl::StrAppend(&script, Terminated(Query::kMigrateLock), Terminated(Query::kMigrateTable),
                  Terminated(Query::kMigrateTableColumn));
  for (const Migration& migration : migrations) {
    if (migration.version < from) continue;
    const std::string title = MigrationTitle(migration.version, migration.name);
    absl::StrAppend(&script, "BEGIN;\n");
    absl::StrAppendFormat(&script, kOrder, migration.version - 1, title, migration.version - 1);
    absl::StrAppend(&script, migration.sql, "\n");
    absl::StrAppendFormat(&script, kNote, migration.version, migration.name,
                          absl::BytesToHexString(ChecksumOf(migration)), migration.oldest_server);
    absl::StrAppend(&script, "COMMIT;\n\n");
  }
  if (!grant_to.empty()) {
    absl::StrAppend(&script, "BEGIN;\n", ServiceGrantsTo(grant_to), "COMMIT;\n\n");
  }
  return absl::StrCat(script, Terminated(Query::kMigrateUnlock));
}

}  // namespace idempotency
