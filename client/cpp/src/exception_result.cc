#include "client/cpp/src/exception_result.h"

namespace idempotency::client {

WorkResult ResultOfException(
    const std::exception_ptr& exception,
    const std::function<FailureDisposition(const std::exception_ptr&)>& classify) {
  auto disposition = FailureDisposition::kUnknown;
  if (classify) {
    try {
      disposition = classify(exception);
    } catch (...) {  // NOLINT(bugprone-empty-catch)
      // It does not know either.
    }
  }
  // What the exception says stays with the caller: it may hold card numbers.
  const char* const code = "EXCEPTION";
  switch (disposition) {
    case FailureDisposition::kNotApplied:
      return WorkResult::NotApplied(code, "the work threw, by its own account before any effect");
    case FailureDisposition::kFinal:
      return WorkResult::FinalFailure(code, "the work threw, by its own account for good");
    case FailureDisposition::kUnknown:
      break;
  }
  return WorkResult::Unknown(code, "the work threw, and whether it had an effect is not known");
}

}  // namespace idempotency::client
