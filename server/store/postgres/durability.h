// What an answer's commit has waited for, and how the settings of a PostgreSQL are judged by it.
#pragma once

#include <libpq-fe.h>

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace idempotency {

enum class Durability {
  // The primary's own disk. A standby that is promoted may have lost the answer.
  kLocal,
  // Also a synchronous standby: an answer survives the loss of the primary. Where PostgreSQL is not
  // set up so, or a commit's wait ended without the standby, nothing is answered.
  kReplicated,
};

// What is answered from a pipeline, and so what has to be on the standby before anybody is told.
enum class AnswersFrom {
  // Nothing: the transaction stays open or is rolled back, or nobody relies on it.
  kNothing,
  // Rows that it wrote itself: its commit waits for the standby.
  kItsWrites,
  // Also rows that it found. They may be on no standby yet (a cancelled wait makes a commit
  // visible), and a transaction that wrote nothing does not wait: it is sent with a barrier.
  kWhatItFound,
};

// A row of durability.sql.
struct CommitSettings {
  std::string synchronous_commit;
  std::string synchronous_standby_names;
  bool has_wal_senders = false;
  absl::Time loaded_at;  // when the session last loaded the configuration
  absl::Time now;        // the database's reading
};

// kInternal when the result is not a row of durability.sql.
absl::Status ReadCommitSettings(const PGresult* result, CommitSettings* settings);

// Whether a commit under these settings waits for a standby. kUnavailable with the setting that is
// wrong. Accepts synchronous_commit = on and remote_apply, and remote_write, which outlives the
// standby's PostgreSQL but not its operating system; not local and off.
absl::Status CheckReplicates(const CommitSettings& settings);

// Whether a commit that lay between these two readings waited for a standby to its end. Emptying
// synchronous_standby_names lets every waiting commit go on as if it were replicated, and without a
// WARNING, so the settings are read again after the commit, and nothing may have been loaded in
// between. kUnavailable: the settings are wrong. kAborted: the configuration was loaded meanwhile.
absl::Status CheckReplicated(const CommitSettings& before, const CommitSettings& after);

}  // namespace idempotency
