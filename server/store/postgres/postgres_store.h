// Store on PostgreSQL: see store.h for the contract, docs/architecture.md for how a batch runs.
#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include "absl/time/time.h"
#include "server/base/metrics.h"
#include "server/record/decide.h"
#include "server/store/postgres/durability.h"
#include "server/store/store.h"

namespace idempotency {

struct PostgresStoreOptions {
  // libpq's: a URI or keyword=value pairs. Several hosts are tried in order; only a node that takes
  // writes is used, unless target_session_attrs says otherwise.
  std::string conninfo;
  Policy policy;
  Durability durability = Durability::kLocal;

  // For each host and address that is tried; a connect_timeout in the conninfo goes before. A
  // search through several begins none after twice that time.
  absl::Duration connect_timeout = absl::Seconds(2);
  // How long the results of a pipeline, and then its commit, are waited for before the connection
  // is given up. With kReplicated a commit that is not answered in time opens the circuit
  // (circuit.h), which all stores of the factory share; Check of any of them closes it.
  absl::Duration statement_timeout = absl::Seconds(5);
  absl::Duration commit_timeout = absl::Seconds(5);
  // How long a statement waits for a row that another transaction holds. Well below the shortest
  // replay window, so that no wait outlives a record.
  absl::Duration lock_timeout = absl::Milliseconds(250);
  // For how long a batch whose commit's answer was lost is run again before it is kCommitUnknown.
  absl::Duration retry_budget = absl::Seconds(10);
  // Above this many bytes of outcomes in the answers of a batch the rest of it is kNotRead.
  int64_t max_answer_bytes = std::numeric_limits<int64_t>::max();
  // Between tries to connect: the first wait, and the longest. While waiting, calls fail at once.
  absl::Duration reconnect_first = absl::Milliseconds(50);
  absl::Duration reconnect_longest = absl::Seconds(1);
};

// `metrics` must outlive every store that the factory makes.
StoreFactory MakePostgresStoreFactory(PostgresStoreOptions options, Metrics* metrics);

}  // namespace idempotency
