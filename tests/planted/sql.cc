// Faults in the text of a statement.
#include "server/store/postgres/sql.h"

#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "tests/planted/planted.h"

namespace idempotency {

const char* RealQueryText(Query query) asm("__real__ZN11idempotency9QueryTextENS_5QueryE");
const char* PlantedQueryText(Query query) asm("__wrap__ZN11idempotency9QueryTextENS_5QueryE");

namespace {

struct Mutation {
  const char* fault;
  Query query;
  const char* from;
  const char* to;
};

constexpr Mutation kMutations[] = {
    {"skip-barrier", Query::kBarrier, "pg_logical_emit_message(true, 'idempotency', '')", "1"},
    {"no-attempt-check", Query::kOwnerUpdate, "  AND r.attempt_hash = u.attempt\n", ""},
    {"purge-unsettled", Query::kPurgeStep,
     "(s.state IN (2, 3) OR (s.state = 4 AND s.flags & 2 = 0))", "true"},
    {"reuse-tokens", Query::kBeginInsert, "SELECT\n    i.reading,\n",
     "SELECT\n    date_trunc('day', i.reading),\n"},
    {"reuse-tokens", Query::kBeginInsertOne, "SELECT\n    i.reading,\n",
     "SELECT\n    date_trunc('day', i.reading),\n"},
    {"complete-overwrites", Query::kOwnerUpdate, "ELSE r.state IN (1, 5, 6)", "ELSE true"},
    {"renew-not-kept", Query::kOwnerUpdate,
     "WHEN 1 THEN GREATEST(r.lease_expires_at, clock_timestamp() + u.lease_ms * interval '1 ms')",
     "WHEN 1 THEN r.lease_expires_at"},
    {"renew-not-kept", Query::kOwnerUpdate, "r.created_at, r.lease_expires_at, r.lease_ms",
     "r.created_at, GREATEST(r.lease_expires_at, clock_timestamp() + r.lease_ms * interval '1 ms'),"
     " r.lease_ms"},
};

std::string Mutate(Query query) {
  std::string text = RealQueryText(query);
  for (const Mutation& mutation : kMutations) {
    if (mutation.query != query || !planted::Is(mutation.fault)) continue;
    if (!absl::StrContains(text, mutation.from)) {
      std::fprintf(stderr, "planted fault %s: %s.sql has no '%s' any more\n", mutation.fault,
                   QueryName(query), mutation.from);
      std::exit(2);
    }
    text = absl::StrReplaceAll(text, {{mutation.from, mutation.to}});
  }
  return text;
}

}  // namespace

const char* PlantedQueryText(Query query) {
  // Kept for ever, as the original is. Small: one for each statement.
  static const auto* const texts = [] {
    auto* const all = new std::map<Query, std::string>;
    for (int i = 0; i <= static_cast<int>(Query::kWrite); ++i) {
      (*all)[static_cast<Query>(i)] = Mutate(static_cast<Query>(i));
    }
    return all;
  }();
  return texts->at(query).c_str();
}

}  // namespace idempotency
