#include "idempotency/client/http_answer.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>
#include <variant>

#include "client/cpp/src/encoding.h"
#include "client/cpp/src/utf8.h"

namespace idempotency::client {
namespace {

constexpr char kTryAgain[] = "Nothing was done. Try again with the same key.";

// A string of RFC 8785, without its quotation marks. JSON is UTF-8, so the rest becomes a question
// mark.
std::string Escaped(std::string_view text) {
  constexpr std::string_view kShort = "\"\\\b\f\n\r\t";
  constexpr std::string_view kLetters = "\"\\bfnrt";
  std::string escaped;
  for (const char c : CleanText(text, std::numeric_limits<size_t>::max())) {
    const size_t at = kShort.find(c);
    if (at != std::string_view::npos) {
      escaped.push_back('\\');
      escaped.push_back(kLetters[at]);
    } else if (static_cast<unsigned char>(c) < 0x20) {
      escaped += "\\u00" + Hex(std::string_view(&c, 1));
    } else {
      escaped.push_back(c);
    }
  }
  return escaped;
}

HttpAnswer Problem(int status, std::string_view code, std::string_view message) {
  HttpAnswer answer;
  answer.status = status;
  answer.headers.push_back({"Content-Type", "application/json"});
  answer.body = R"({"status":)" + std::to_string(status) + R"(,"code":")" + Escaped(code) +
                R"(","message":")" + Escaped(message) + R"("})";
  return answer;
}

// Whole seconds, rounded up, at least one.
void AddRetryAfter(std::optional<std::chrono::milliseconds> span, HttpAnswer* answer) {
  const int64_t millis = span.value_or(std::chrono::milliseconds(0)).count();
  const int64_t seconds = millis / 1000 + (millis % 1000 > 0 ? 1 : 0);
  answer->headers.push_back({"Retry-After", std::to_string(std::max<int64_t>(seconds, 1))});
}

bool IsContentType(const Header& header) {
  constexpr std::string_view kName = "content-type";
  return std::equal(header.name.begin(), header.name.end(), kName.begin(), kName.end(),
                    [](char a, char b) { return ('A' <= a && a <= 'Z' ? a + 32 : a) == b; });
}

// `is_replay`: adds the header that says so.
HttpAnswer AnswerOf(const Outcome& outcome, bool is_replay) {
  const bool is_sendable = outcome.status_code >= 200 && outcome.status_code <= 599;
  HttpAnswer answer;
  if (is_sendable) {
    answer.status = outcome.status_code;
    answer.headers = outcome.headers;
    if (!outcome.content_type.empty() &&
        std::none_of(answer.headers.begin(), answer.headers.end(), IsContentType)) {
      answer.headers.push_back({"Content-Type", outcome.content_type});
    }
    if (!outcome.body_omitted) answer.body = outcome.body.value_or("");
  } else {
    answer =
        Problem(500, "BAD_STATUS_CODE", "The recorded status code is none that HTTP can carry.");
  }
  if (is_replay) answer.headers.push_back({"Idempotent-Replayed", "true"});
  if (is_sendable && outcome.body_omitted) {
    answer.headers.push_back({"Idempotent-Body-Omitted", "true"});
  }
  return answer;
}

HttpAnswer AnswerOf(const Failure& failure, bool is_replay) {
  switch (failure.disposition) {
    case FailureDisposition::kFinal: {
      if (failure.outcome.has_value()) return AnswerOf(*failure.outcome, is_replay);
      HttpAnswer answer = Problem(422, failure.code, failure.message);
      if (is_replay) answer.headers.push_back({"Idempotent-Replayed", "true"});
      return answer;
    }
    case FailureDisposition::kNotApplied: {
      HttpAnswer answer = Problem(503, "NOT_APPLIED", kTryAgain);
      AddRetryAfter(std::nullopt, &answer);
      return answer;
    }
    case FailureDisposition::kUnknown:
      break;
  }
  return Problem(502, "OUTCOME_UNKNOWN",
                 "Whether this was done is not known. Try again with the same key.");
}

struct ErrorAnswer {
  ErrorKind kind;
  // Where `fn` did not run.
  int status;
  const char* code;
  const char* message;
};

constexpr char kNotSetUp[] = "The service is not set up right.";
constexpr ErrorAnswer kInternalAnswer = {ErrorKind::kInternal, 500, "INTERNAL",
                                         "The service failed. Try again with the same key."};
constexpr std::array kErrorAnswers = {
    ErrorAnswer{ErrorKind::kInvalidField, 400, "INVALID_FIELD", "The request is invalid."},
    ErrorAnswer{ErrorKind::kRequestTooLarge, 413, "REQUEST_TOO_LARGE", "The request is too large."},
    ErrorAnswer{ErrorKind::kKeyReused, 422, "KEY_REUSED", "The key was used for another request."},
    ErrorAnswer{ErrorKind::kLeaseLost, 409, "LEASE_LOST",
                "This came too late. Try again with the same key."},
    ErrorAnswer{ErrorKind::kOutcomeConflict, 409, "OUTCOME_CONFLICT",
                "Another outcome is recorded."},
    ErrorAnswer{ErrorKind::kNeedsResolution, 409, "NEEDS_RESOLUTION",
                "Whether this was done is not known, and has to be found out first."},
    ErrorAnswer{ErrorKind::kRecordNotFound, 404, "RECORD_NOT_FOUND",
                "There is no record of this key."},
    ErrorAnswer{ErrorKind::kRateLimited, 429, "RATE_LIMITED",
                "Too many requests. Try again with the same key."},
    ErrorAnswer{ErrorKind::kUnavailable, 503, "UNAVAILABLE", kTryAgain},
    ErrorAnswer{ErrorKind::kDeadlineExceeded, 504, "DEADLINE_EXCEEDED",
                "There was no answer in time. Try again with the same key."},
    ErrorAnswer{ErrorKind::kCancelled, 499, "CANCELLED", "The caller has left."},
    ErrorAnswer{ErrorKind::kOutcomeNotRecorded, 500, "OUTCOME_NOT_RECORDED",
                "This ended, and its outcome is not recorded. Try again with the same key."},
    ErrorAnswer{ErrorKind::kUnauthenticated, 500, "UNAUTHENTICATED", kNotSetUp},
    ErrorAnswer{ErrorKind::kPermissionDenied, 500, "PERMISSION_DENIED", kNotSetUp},
    kInternalAnswer,
};

HttpAnswer AnswerOf(const Error& error) {
  const auto* const found =
      std::find_if(kErrorAnswers.begin(), kErrorAnswers.end(),
                   [&](const ErrorAnswer& row) { return row.kind == error.kind; });
  const ErrorAnswer& row = found == kErrorAnswers.end() ? kInternalAnswer : *found;
  if (error.kind == ErrorKind::kOutcomeNotRecorded && error.still_recording) {
    return Problem(504, row.code, row.message);
  }
  // The work is done and its record is not: no payer can mend that by another request.
  if (error.work.has_value()) return Problem(500, row.code, row.message);
  HttpAnswer answer = Problem(row.status, row.code, row.message);
  if (error.kind == ErrorKind::kRateLimited || error.kind == ErrorKind::kUnavailable) {
    AddRetryAfter(error.retry_after, &answer);
  }
  return answer;
}

struct AnswerVisitor {
  HttpAnswer operator()(const Completed& completed) const {
    return AnswerOf(completed.outcome, /*is_replay=*/false);
  }
  HttpAnswer operator()(const Replayed& replayed) const {
    return std::visit([](const auto& answer) { return AnswerOf(answer, /*is_replay=*/true); },
                      replayed.answer);
  }
  HttpAnswer operator()(const InProgress& in_progress) const {
    HttpAnswer answer =
        Problem(409, "IN_PROGRESS", "This is being done. Try again with the same key.");
    AddRetryAfter(in_progress.retry_after, &answer);
    return answer;
  }
  HttpAnswer operator()(const Failed& failed) const {
    return AnswerOf(failed.failure, /*is_replay=*/false);
  }
  HttpAnswer operator()(const Unprotected& unprotected) const {
    const Outcome* const outcome = unprotected.work.outcome();
    return outcome != nullptr ? AnswerOf(*outcome, /*is_replay=*/false)
                              : AnswerOf(*unprotected.work.failure(), /*is_replay=*/false);
  }
  HttpAnswer operator()(const Error& error) const { return AnswerOf(error); }
};

}  // namespace

HttpAnswer HttpAnswerOf(const RunResult& result) { return std::visit(AnswerVisitor(), result); }

}  // namespace idempotency::client
