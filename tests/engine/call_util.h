// Calls for the tests of the engine's parts, where nobody answers them.
#pragma once

#include <memory>
#include <utility>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/engine/call.h"
#include "tests/engine/engine_fixture.h"

namespace idempotency {

// A call that is taken for answered, so that it may be thrown away.
inline std::unique_ptr<BeginCall> MakeBegin(BeginItem item, CallTerms terms) {
  auto call = std::make_unique<BeginCall>(std::move(item), std::move(terms),
                                          [](const absl::StatusOr<BeginResult>&) {});
  call->answered = true;
  return call;
}
inline std::unique_ptr<OwnerCall> MakeOwner(OwnerItem item, CallTerms terms) {
  auto call = std::make_unique<OwnerCall>(std::move(item), std::move(terms),
                                          [](const absl::StatusOr<OwnerResult>&) {});
  call->answered = true;
  return call;
}
inline std::unique_ptr<LookupCall> MakeLookup(absl::string_view key, CallTerms terms) {
  auto call = std::make_unique<LookupCall>(LookupItem{Key(key)}, std::move(terms),
                                           [](const absl::StatusOr<LookupResult>&) {});
  call->answered = true;
  return call;
}

}  // namespace idempotency
