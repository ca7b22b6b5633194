#include "client/cpp/src/work_end.h"

#include <functional>
#include <utility>

namespace idempotency::client {
namespace {

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

template <typename Result>
RunResult WithFacts(Result result, RecordFacts facts) {
  result.recorded_without_body = facts.without_body;
  result.record_id = std::move(facts.record_id);
  result.attempt_number = facts.attempt_number;
  result.finish_time = facts.finish_time;
  return result;
}

}  // namespace

WorkEnd CallWork(const Work& fn, const Attempt& attempt, const RunOptions& options) {
  try {
    return {fn(attempt), nullptr};
  } catch (...) {
    const std::exception_ptr exception = std::current_exception();
    return {ResultOfException(exception, options.classify), exception};
  }
}

RunResult RecordedResult(WorkEnd end, RecordFacts facts) {
  if (const Outcome* outcome = end.result.outcome()) {
    Completed completed;
    completed.outcome = *outcome;
    return WithFacts(std::move(completed), std::move(facts));
  }
  Failed failed;
  failed.failure = *end.result.failure();
  failed.exception = std::move(end.exception);
  return WithFacts(std::move(failed), std::move(facts));
}

Error UnrecordedError(Error error, WorkEnd end) {
  error.work = std::move(end.result);
  error.exception = std::move(end.exception);
  return error;
}

RunResult UnprotectedResult(WorkEnd end, Error error) {
  return Unprotected{std::move(end.result), std::move(end.exception), std::move(error)};
}

}  // namespace idempotency::client
