// Every bound of the API and of the service that is not a setting, in one place.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/time/time.h"

namespace idempotency {

inline constexpr size_t kKiB = 1024;
inline constexpr size_t kMiB = 1024 * kKiB;

inline constexpr size_t kMaxMerchantIdBytes = 64;
inline constexpr size_t kMaxIdempotencyKeyBytes = 255;
inline constexpr size_t kMaxOperationBytes = 128;
inline constexpr size_t kMinAttemptIdBytes = 16;
inline constexpr size_t kMaxAttemptIdBytes = 64;
inline constexpr size_t kFingerprintBytes = 32;
inline constexpr size_t kMaxPayloadBytes = 1 * kMiB;
inline constexpr size_t kMaxContentTypeBytes = 255;
inline constexpr size_t kMaxResponseIdBytes = 255;
inline constexpr size_t kMaxLabels = 16;
inline constexpr size_t kMaxLabelNameBytes = 32;
inline constexpr size_t kMaxLabelValueBytes = 128;
inline constexpr size_t kMaxHeaders = 64;
inline constexpr size_t kMaxHeaderNameBytes = 128;
inline constexpr size_t kMaxHeadersBytes = 16 * kKiB;  // names and values together
inline constexpr size_t kDigestBytes = 32;
inline constexpr size_t kMaxFailureCodeBytes = 64;
inline constexpr size_t kMaxFailureMessageBytes = 1024;
inline constexpr size_t kMaxOutcomeBodyBytes = 1 * kMiB;  // the highest value of the setting
inline constexpr size_t kDefaultOutcomeBodyBytes = 256 * kKiB;
inline constexpr size_t kMaxReceiveBytes = 4 * kMiB;
inline constexpr size_t kMaxErrorDetailBytes = 4 * kKiB;
inline constexpr int kMaxFieldViolations = 16;

// Attempts before the last one that a record remembers.
inline constexpr size_t kEarlierAttempts = 8;

inline constexpr absl::Duration kDefaultSkewMargin = absl::Seconds(2);
inline constexpr absl::Duration kShortestSkewMargin = absl::Milliseconds(500);
// Nothing expires for this long after the database's clock jumped.
inline constexpr absl::Duration kExpiryPause = absl::Minutes(10);
inline constexpr absl::Duration kMaxWait = absl::Seconds(30);
// A waiting Begin answers this long before its caller's deadline.
inline constexpr absl::Duration kWaitEndsBeforeDeadline = absl::Milliseconds(100);
// A call without a deadline counts as having this one.
inline constexpr absl::Duration kDefaultDeadline = absl::Seconds(30);
inline constexpr absl::Duration kMinRetryAfter = absl::Milliseconds(100);
inline constexpr absl::Duration kMaxRetryAfter = absl::Seconds(2);
// A record keeps a refused outcome at most this often.
inline constexpr absl::Duration kRefusedOutcomeInterval = absl::Seconds(1);

}  // namespace idempotency
