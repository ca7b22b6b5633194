// Which build this is.
#pragma once

#include "absl/strings/string_view.h"

namespace idempotency {

// As CMakeLists.txt has it.
absl::string_view Version();

// The commit it was built from, or "unknown": the build is told by -DIDEMPOTENCY_COMMIT=…, and
// never looks for itself, so that the same sources make the same bytes.
absl::string_view Commit();

}  // namespace idempotency
