#include "server/base/version.h"

namespace idempotency {

absl::string_view Version() { return IDEMPOTENCY_VERSION; }

absl::string_view Commit() {
  constexpr absl::string_view kTold = IDEMPOTENCY_COMMIT;
  return kTold.empty() ? "unknown" : kTold;
}

}  // namespace idempotency
