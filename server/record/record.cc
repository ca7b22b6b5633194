#include "server/record/record.h"

#include <algorithm>

#include "server/base/check.h"
#include "server/record/digest.h"

namespace idempotency {
namespace {

// Kinds and presence marks of the content digest. The values are part of stored evidence: they
// never change.
constexpr int64_t kOutcomeKind = 1;
constexpr int64_t kFailureKind = 2;

void AddOutcome(const Outcome& outcome, Sha256& sha) {
  sha.Number(outcome.status_code);
  sha.Number(static_cast<int64_t>(outcome.headers.size()));
  for (const Header& header : outcome.headers) sha.Field(header.name).Field(header.value);
  sha.Field(outcome.content_type);
  sha.Number(outcome.body.has_value() ? 1 : 0).Field(outcome.body.value_or(""));
  sha.Number(outcome.body_omitted ? 1 : 0);
  sha.Number(outcome.body_size.has_value() ? 1 : 0).Number(outcome.body_size.value_or(0));
  sha.Field(outcome.body_sha256).Field(outcome.response_id);
}

}  // namespace

AttemptHash HashAttemptId(absl::string_view attempt_id) {
  const Sha256Digest digest = Sha256().Bytes(attempt_id).Finish();
  AttemptHash hash;
  std::copy_n(digest.begin(), hash.bytes.size(), hash.bytes.begin());
  return hash;
}

RecordState StateAfter(const Answer& answer) {
  const auto* failure = std::get_if<Failure>(&answer);
  if (failure == nullptr) return RecordState::kCompleted;
  switch (failure->disposition) {
    case Disposition::kNotApplied:
      return RecordState::kReleased;
    case Disposition::kFinal:
      return RecordState::kFailedFinal;
    case Disposition::kUnknown:
      return RecordState::kFailedUnknown;
  }
  IDEM_CHECK(false) << "a disposition that validation lets pass";
  return RecordState::kFailedUnknown;
}

ContentDigest DigestOf(const Answer& answer) {
  Sha256 sha;
  if (const auto* outcome = std::get_if<Outcome>(&answer)) {
    sha.Number(kOutcomeKind);
    AddOutcome(*outcome, sha);
    return sha.Finish();
  }
  const auto& failure = std::get<Failure>(answer);
  sha.Number(kFailureKind).Number(static_cast<int64_t>(failure.disposition));
  sha.Field(failure.code).Field(failure.message);
  sha.Number(failure.outcome.has_value() ? 1 : 0);
  if (failure.outcome.has_value()) AddOutcome(*failure.outcome, sha);
  return sha.Finish();
}

}  // namespace idempotency
