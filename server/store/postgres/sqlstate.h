// What an SQLSTATE means to a batch: the one place where PostgreSQL's error codes are judged.
//
// A state is looked at only after the server has ended the pipeline with ReadyForQuery, so for all
// kinds but kLost nothing of the pipeline was applied. Thread-safe: pure functions.
#pragma once

#include "absl/strings/string_view.h"

namespace idempotency {

enum class ErrorKind {
  // A state of the moment: run the same statements again on the same connection.
  kRunAgain,
  // lock_timeout: another transaction holds a row of the batch.
  kLockTimeout,
  // The server refuses something in the batch: halve it until the culprit stands alone.
  kItem,
  // The prepared statements do not fit any more: run again on a new connection.
  kPrepareAgain,
  // Tables, columns or functions are missing: the schema is not this server's.
  kSchema,
  // Another client's statements are in the session: a pooler shares it among several.
  kSharedSession,
  // The node is full, going away, read-only: nothing was done; go on with a new connection.
  kUnavailable,
  // The state itself says that the result is not known; also the kind of a connection that ended.
  kLost,
};

// `sqlstate` is five characters; anything else, and a state that is not known, is kItem: halving
// gives the culprit its own error and its mates their success, whatever the error means.
ErrorKind KindOfSqlState(absl::string_view sqlstate);

// Whether a WARNING says that a commit did not wait as it should have. A wait for a standby that is
// cancelled reports success and a WARNING of the state 01000, which triggers raise as well: only
// the place in the server's source (PG_DIAG_SOURCE_FILE) tells it apart. A terminated one has
// 57P01.
bool IsWarningOfDoubt(absl::string_view sqlstate, absl::string_view source_file);

}  // namespace idempotency
