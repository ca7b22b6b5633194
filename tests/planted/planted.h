// The service with a fault of one's choice: proof that whoever checks the service would notice.
//
// idempotencyd_planted is idempotencyd, linked so that some functions go through the wraps in this
// folder (the linker's --wrap). IDEMPOTENCY_PLANTED names the fault; without it the program is the
// service. Nothing of this is in idempotencyd, and nothing in server/ knows of it.
//
// A fault whose place is gone (a text that SQL no longer has, a function with another signature)
// does not stay silent: SQL is checked at start, and a wrap that is never called plants nothing,
// which `./dev chaos --planted all` reports as a fault that was not caught.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace idempotency::planted {

struct Fault {
  const char* name;
  const char* what;
};

// All of them, in a fixed order.
const std::vector<Fault>& Faults();

// Whether this is the one that IDEMPOTENCY_PLANTED names. Thread-safe.
bool Is(absl::string_view name);

// The named variable's value, or empty. Ends the process, and says why, if it names no fault.
const std::string& Chosen();

}  // namespace idempotency::planted
