// The service with a fault of one's choice: proof that whoever checks the service would notice.
//
// idempotencyd_planted is idempotencyd, linked so that some functions go through the wraps in this
// folder (the linker's --wrap). It takes one more flag, --planted=NAME, or --planted=list; without
// it the program is the service. Nothing of this is in idempotencyd, and nothing in server/ knows
// of it.
//
// A fault whose place is gone (a text that SQL no longer has, a function with another signature)
// does not stay silent: SQL is checked at start, and a wrap that is never called plants nothing,
// which `./dev chaos --planted all` reports as a fault that was not caught.
#pragma once

#include <vector>

#include "absl/strings/string_view.h"

namespace idempotency::planted {

struct Fault {
  const char* name;
  const char* what;
};

// All of them, in a fixed order.
const std::vector<Fault>& Faults();

// From now on that fault is there. False, and nothing changes, if there is none of that name.
// REQUIRES: no other thread runs yet.
bool Choose(absl::string_view name);

// Whether this is the chosen one. Thread-safe.
bool Is(absl::string_view name);

}  // namespace idempotency::planted
