#include "server/store/postgres/sqlstate.h"

#include "absl/strings/match.h"

namespace idempotency {
namespace {

struct Rule {
  absl::string_view prefix;  // a whole state, or a class of two characters
  ErrorKind kind;
};

// The first prefix that matches wins: states stand before their class.
constexpr Rule kRules[] = {
    {"0A000", ErrorKind::kPrepareAgain},  // "cached plan must not change result type"
    {"26000", ErrorKind::kPrepareAgain},  // a pooler's DISCARD ALL took the statements
    {"08", ErrorKind::kLost},            // connection exceptions, also those that a pooler makes up
    {"25P03", ErrorKind::kUnavailable},  // idle in transaction for too long: the session is gone
    {"25", ErrorKind::kUnavailable},     // 25006 read-only; others: our session is in a wrong state
    {"3F000", ErrorKind::kSchema},       // invalid schema name
    {"40001", ErrorKind::kRunAgain},     // serialization failure
    {"40003", ErrorKind::kLost},         // statement completion unknown
    {"40P01", ErrorKind::kRunAgain},     // deadlock
    {"40", ErrorKind::kRunAgain},        // other reasons for a rollback
    {"42P01", ErrorKind::kSchema},       // undefined table
    {"42703", ErrorKind::kSchema},       // undefined column
    {"42883", ErrorKind::kSchema},       // undefined function or operator
    {"42704", ErrorKind::kSchema},       // undefined object
    {"42804", ErrorKind::kSchema},       // a column has another type
    {"42P05", ErrorKind::kSharedSession},  // the prepared statement exists
    {"42501", ErrorKind::kUnavailable},    // no privilege: an operator's mistake, not an item's
    {"53", ErrorKind::kUnavailable},       // disk full, out of memory, too many connections
    {"55P03", ErrorKind::kLockTimeout},    // lock_timeout
    {"57014", ErrorKind::kRunAgain},       // cancelled by an operator, or by statement_timeout
    {"57", ErrorKind::kUnavailable},       // shutdown, crash of another backend, starting up
    {"58", ErrorKind::kUnavailable},       // I/O error
    {"F0", ErrorKind::kUnavailable},       // the server's configuration file is broken
    // Left to the default on purpose: 22 and 23 (data, constraints), 44, 54 (an index row too
    // large), P0 (raised by a trigger), XX (one row's TOAST may be broken, its mates' is not).
};

}  // namespace

ErrorKind KindOfSqlState(absl::string_view sqlstate) {
  if (sqlstate.size() != 5) return ErrorKind::kItem;
  for (const Rule& rule : kRules) {
    if (absl::StartsWith(sqlstate, rule.prefix)) return rule.kind;
  }
  return ErrorKind::kItem;
}

bool IsWarningOfDoubt(absl::string_view sqlstate, absl::string_view source_file) {
  return source_file == "syncrep.c" || (sqlstate.size() == 5 && absl::StartsWith(sqlstate, "57"));
}

}  // namespace idempotency
