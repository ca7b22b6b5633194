// The rules that several fields share: texts, spans, tokens. Each adds at most one violation, under
// the path it is given.
#pragma once

#include <cstddef>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "google/protobuf/duration.pb.h"
#include "server/rpc/validate.h"

namespace idempotency {

// What lengths are allowed, in bytes. A `shortest` above zero makes the field required.
struct LengthBounds {
  size_t shortest = 0;
  size_t longest = 0;
};

// Printable ASCII: the bytes 0x20 to 0x7E.
bool IsPrintableAscii(absl::string_view text);
// Any but the control characters U+0000-U+001F and U+007F-U+009F. REQUIRES: text is UTF-8.
bool HasNoControlCharacters(absl::string_view text);
// RFC 9110, section 5.6.2: what the name of a header field is made of.
bool IsToken(absl::string_view text);
// A-Z a-z 0-9 . _ : -
bool IsMerchantId(absl::string_view text);

// Length, and nothing else. False if it added a violation.
bool CheckLength(absl::string_view path, absl::string_view text, LengthBounds length,
                 Violations* violations);
void CheckPrintableAscii(absl::string_view path, absl::string_view text, LengthBounds length,
                         Violations* violations);

// The span that `given` means, rounded up to `unit`: its standard when it is absent (null). Out of
// its bounds, or no Duration at all by protobuf's own rules, is a violation; then the standard is
// returned.
absl::Duration CheckDuration(absl::string_view path, const google::protobuf::Duration* given,
                             const DurationBounds& bounds, absl::Duration unit,
                             Violations* violations);
// As above for wait_timeout: absent is zero, zero is allowed, more than kMaxWait counts as
// kMaxWait.
absl::Duration CheckWait(absl::string_view path, const google::protobuf::Duration* given,
                         Violations* violations);

}  // namespace idempotency
