// What can be said about a connection string of libpq's without connecting.
//
// A string is a URI or keyword=value pairs. Thread-safe: no state.
#pragma once

#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace idempotency {

// kInvalidArgument when libpq cannot parse it; the message does not repeat it.
absl::Status CheckConninfo(absl::string_view conninfo);

// As keyword=value pairs, in either form, with "****" for every secret in it (the password, the
// client key's password). "****" when libpq cannot parse it.
std::string MaskedConninfo(const std::string& conninfo);

// What libpq's environment variables and service files say where the string says nothing, by
// keyword: PGCONNECT_TIMEOUT as connect_timeout, say. Without what is libpq's own default anyway.
// Opens no connection. Empty when libpq cannot parse the string. May hold passwords.
std::map<std::string, std::string> ValuesSetOutside(const std::string& conninfo);

// libpq's environment variables that say which database is meant: with one of them set, the
// service needs no connection string. PGPASSFILE, PGSSLMODE and the like name none.
absl::Span<const absl::string_view> LibpqDatabaseVariables();

}  // namespace idempotency
