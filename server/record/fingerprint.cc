#include "server/record/fingerprint.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "server/base/status_macros.h"
#include "server/record/canonical_json.h"
#include "server/record/digest.h"

namespace idempotency {
namespace {

bool IsCanonicalisedAsJson(absl::string_view content_type, absl::string_view body) {
  return !body.empty() && IsJsonContentType(content_type);
}

}  // namespace

bool IsJsonContentType(absl::string_view content_type) {
  const absl::string_view type =
      absl::StripAsciiWhitespace(content_type.substr(0, content_type.find(';')));
  return absl::EqualsIgnoreCase(type, "application/json") ||
         absl::EndsWithIgnoreCase(type, "+json");
}

absl::StatusOr<Fingerprint> FingerprintOf(absl::string_view content_type, absl::string_view body) {
  Sha256 sha256;
  if (IsCanonicalisedAsJson(content_type, body)) {
    RETURN_IF_ERROR(
        CanonicalizeJson(body, [&sha256](absl::string_view piece) { sha256.Bytes(piece); }));
  } else {
    sha256.Bytes(body);
  }
  return sha256.Finish();
}

absl::StatusOr<std::string> CanonicalBody(absl::string_view content_type, absl::string_view body) {
  if (!IsCanonicalisedAsJson(content_type, body)) {
    return std::string(body);
  }
  std::string canonical;
  RETURN_IF_ERROR(CanonicalizeJson(body, [&canonical](absl::string_view piece) {
    canonical.append(piece.data(), piece.size());
  }));
  return canonical;
}

}  // namespace idempotency
