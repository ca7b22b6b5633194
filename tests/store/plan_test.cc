// The plan of every statement in sql/queries, under the session's settings, in the states of the
// table in which a planner goes astray.
#include <gtest/gtest.h>
#include <libpq-fe.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "tests/store/postgres_fixture.h"

namespace idempotency {
namespace {

enum class Access {
  kNoPlan,      // a utility statement
  kNoRecords,   // does not touch the record table
  kInserts,     // writes it without reading it, in key order
  kInsertsOne,  // writes one row of it without reading it
  kByKey,       // one bitmap scan on the primary key for each item
  kByBlocks,    // one range of heap blocks
};

// A file of sql/queries without an entry fails the test: say here how it may read the table.
const std::map<std::string, Access>& Expectations() {
  static const auto* const expectations = new std::map<std::string, Access>{
      {"barrier", Access::kNoRecords},
      {"begin_insert", Access::kInserts},
      {"begin_insert_one", Access::kInsertsOne},
      {"check", Access::kNoRecords},
      {"clock_read", Access::kNoRecords},
      {"clock_refresh", Access::kNoRecords},
      {"count_blocks", Access::kNoRecords},
      {"durability", Access::kNoRecords},
      {"keep_commit", Access::kNoRecords},
      {"lock", Access::kByKey},
      {"lock_timeout", Access::kNoRecords},
      {"migrate_list", Access::kNoRecords},
      {"migrate_lock", Access::kNoRecords},
      {"migrate_record", Access::kNoRecords},
      {"migrate_table", Access::kNoPlan},
      {"migrate_table_column", Access::kNoPlan},
      {"migrate_unlock", Access::kNoRecords},
      {"owner_update", Access::kByKey},
      {"purge_step", Access::kByBlocks},
      {"purge_unsettled_step", Access::kByBlocks},
      {"read", Access::kByKey},
      {"session", Access::kNoRecords},
      {"survey_step", Access::kByBlocks},
      {"sweep_step", Access::kByBlocks},
      {"transaction_begin", Access::kNoPlan},
      {"transaction_commit", Access::kNoPlan},
      {"transaction_rollback", Access::kNoPlan},
      {"wait_probe", Access::kByKey},
      {"write", Access::kByKey},
  };
  return *expectations;
}

std::map<std::string, std::string> QueryFiles() {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(IDEM_SQL_DIR "/queries")) {
    std::stringstream text;
    text << std::ifstream(entry.path()).rdbuf();
    files[entry.path().stem().string()] = text.str();
  }
  return files;
}

int ParameterCount(const std::string& sql) {
  int count = 0;
  for (int n = 1; n < 100; ++n) {
    if (absl::StrContains(sql, absl::StrCat("$", n, "::"))) count = n;
  }
  return count;
}

// A session with the service's settings, as SQL.
class PlanSession {
 public:
  PlanSession(const std::string& conninfo, bool is_pinned)
      : connection_(PQconnectdb(conninfo.c_str()), &PQfinish) {
    if (!is_pinned) {
      Run("SET plan_cache_mode = force_generic_plan");
      return;
    }
    Run(absl::StrCat("PREPARE session AS ", QueryFiles().at("session")));
    Run("EXECUTE session('250ms', '10s', '10s', 'mark')");
  }

  // The generic plan, one line a node and condition.
  std::vector<std::string> Explain(const std::string& sql) {
    Run(absl::StrCat("PREPARE statement AS ", sql));
    std::vector<std::string> nulls(ParameterCount(sql), "NULL");
    const std::string values =
        nulls.empty() ? "" : absl::StrCat("(", absl::StrJoin(nulls, ", "), ")");
    const std::vector<std::string> lines =
        Run(absl::StrCat("EXPLAIN (COSTS OFF) EXECUTE statement", values));
    Run("DEALLOCATE statement");
    return lines;
  }

 private:
  std::vector<std::string> Run(const std::string& sql) {
    const std::unique_ptr<PGresult, decltype(&PQclear)> result(
        PQexec(connection_.get(), sql.c_str()), &PQclear);
    const ExecStatusType status = PQresultStatus(result.get());
    EXPECT_TRUE(status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK)
        << PQerrorMessage(connection_.get()) << sql;
    std::vector<std::string> lines;
    for (int i = 0; i < PQntuples(result.get()); ++i) {
      lines.push_back(PQgetvalue(result.get(), i, 0));
    }
    return lines;
  }

  std::unique_ptr<PGconn, decltype(&PQfinish)> connection_;
};

// A node of the plan, such as "Bitmap Heap Scan on idempotency_record r", or "".
std::string NodeOf(const std::string& line) {
  std::string node(absl::StripAsciiWhitespace(line));
  if (absl::StartsWith(node, "->")) node = std::string(absl::StripAsciiWhitespace(node.substr(2)));
  return node;
}

bool Has(const std::vector<std::string>& plan, absl::string_view start) {
  return std::any_of(plan.begin(), plan.end(), [&](const std::string& line) {
    return absl::StartsWith(NodeOf(line), start);
  });
}

// What reads the whole table, or may come to.
bool IsSafe(const std::vector<std::string>& plan) {
  for (const std::string& line : plan) {
    const std::string node = NodeOf(line);
    for (const char* forbidden : {"Hash", "Merge", "Materialize", "Memoize", "Parallel", "Gather",
                                  "Index Scan", "Index Only Scan"}) {
      if (absl::StartsWith(node, forbidden)) return false;
    }
    if (absl::StrContains(node, "Seq Scan on idempotency_record")) return false;
  }
  return true;
}

void ExpectAccess(Access access, const std::vector<std::string>& plan) {
  const std::string text = absl::StrJoin(plan, "\n");
  const bool by_key = Has(plan, "Bitmap Index Scan on idempotency_record_pkey") &&
                      Has(plan, "Bitmap Heap Scan on idempotency_record");
  const bool by_blocks = Has(plan, "Tid Range Scan on idempotency_record");
  switch (access) {
    case Access::kNoPlan:
      break;
    case Access::kNoRecords:
      EXPECT_FALSE(absl::StrContains(text, "idempotency_record")) << text;
      break;
    case Access::kInserts:
      EXPECT_TRUE(Has(plan, "Sort Key: u.merchant COLLATE \"C\", u.key COLLATE \"C\"")) << text;
      [[fallthrough]];
    case Access::kInsertsOne:
      EXPECT_TRUE(IsSafe(plan)) << text;
      EXPECT_TRUE(Has(plan, "Insert on idempotency_record")) << text;
      EXPECT_FALSE(absl::StrContains(text, "Scan on idempotency_record")) << text;
      // The clock is read in a node of its own before the insert, and after the sort.
      EXPECT_TRUE(Has(plan, "Result")) << text;
      break;
    case Access::kByKey:
      EXPECT_TRUE(IsSafe(plan)) << text;
      EXPECT_TRUE(by_key && !by_blocks) << text;
      // Both columns are conditions of the index, not filters behind it.
      for (const std::string& line : plan) {
        if (!absl::StartsWith(NodeOf(line), "Index Cond:")) continue;
        EXPECT_TRUE(absl::StrContains(line, "merchant_id = ")) << text;
        EXPECT_TRUE(absl::StrContains(line, "idempotency_key = ")) << text;
      }
      break;
    case Access::kByBlocks:
      EXPECT_TRUE(IsSafe(plan)) << text;
      EXPECT_TRUE(by_blocks && !by_key) << text;
      break;
  }
}

class PlanTest : public PostgresFixture {
 protected:
  // Only the tests' own VACUUMs and ANALYZEs.
  PlanTest() { Sql("ALTER TABLE idempotency_record SET (autovacuum_enabled = off)"); }

  void Load() {
    Sql("INSERT INTO idempotency_record (created_at, lease_expires_at, ttl_seconds, "
        "lease_ms, attempt_number, attempt_hash, flags, state, merchant_id, idempotency_key, "
        "fingerprint, operation) "
        "SELECT clock_timestamp(), clock_timestamp(), 86400, 60000, 1, gen_random_uuid(), 0, 1, "
        "'m' || n % 50, gen_random_uuid()::text, sha256(n::text::bytea), 'POST /orders' "
        "FROM generate_series(1, 5000) AS n");
  }

  void ExpectPlans() {
    PlanSession session(conninfo(), true);
    for (const auto& [name, sql] : QueryFiles()) {
      SCOPED_TRACE(name);
      const auto expected = Expectations().find(name);
      ASSERT_NE(expected, Expectations().end()) << "a query without an expectation of its plan";
      if (expected->second == Access::kNoPlan) continue;
      ExpectAccess(expected->second, session.Explain(sql));
    }
  }
};

TEST_F(PlanTest, HoldsWhenTheTableWasNeverVacuumed) { ExpectPlans(); }

TEST_F(PlanTest, HoldsWhenTheTableIsEmptyAfterVacuumAnalyze) {
  Sql("VACUUM ANALYZE idempotency_record");
  ExpectPlans();
}

TEST_F(PlanTest, HoldsWhenRowsCameAfterTheStatisticsOfAnEmptyTable) {
  Sql("VACUUM ANALYZE idempotency_record");
  Load();
  ExpectPlans();
}

TEST_F(PlanTest, HoldsWhenTheRowsAreAnalysed) {
  Load();
  Sql("VACUUM ANALYZE idempotency_record");
  ExpectPlans();
}

TEST_F(PlanTest, HoldsWhenTheTableWasEmptiedVacuumedAndRefilled) {
  Load();
  Sql("ANALYZE idempotency_record");
  Sql("DELETE FROM idempotency_record");
  Sql("VACUUM idempotency_record");
  Load();
  ExpectPlans();
}

TEST_F(PlanTest, GoesAstrayWithoutThePin) {
  Load();
  Sql("DELETE FROM idempotency_record");
  Sql("VACUUM idempotency_record");
  Load();
  PlanSession session(conninfo(), false);
  EXPECT_FALSE(IsSafe(session.Explain(QueryFiles().at("owner_update"))));
}

}  // namespace
}  // namespace idempotency
