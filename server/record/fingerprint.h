// The fingerprint of a request: what tells a repeat of a request from another request under the
// same key.
//
// Scheme 1 is the SHA-256 of the canonical body. Two spellings of one JSON document have one
// fingerprint; the vectors of tests/data/fingerprint.json never change, because fingerprints are
// stored. Thread-safe: functions of their arguments only.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace idempotency {

using Fingerprint = std::array<uint8_t, 32>;

// Whether a body of this content type is canonicalised as JSON: `application/json`, and every type
// that ends in
// `+json`, in any case, with or without parameters, with or without white space around it.
bool IsJsonContentType(absl::string_view content_type);

// The SHA-256 of the canonical body:
//   - JSON (see IsJsonContentType): the canonical form of canonical_json.h;
//   - any other content type, or none: the bytes as they are;
//   - an empty body, JSON or not: no bytes.
// kInvalidArgument when a JSON body has no canonical form. The message says what is wrong and near
// which byte, and never repeats anything of the body.
//
// Takes time and memory proportional to the body (memory about twice its size, up to ten times for
// objects with very many members); a body of 1 MiB may take tens of milliseconds, so large ones
// belong on a worker thread.
absl::StatusOr<Fingerprint> FingerprintOf(absl::string_view content_type, absl::string_view body);

// The bytes that FingerprintOf hashes, for tests and tools. Fails like FingerprintOf. Numbers such
// as 3e-324 are written out, so the result may be fifty times as long as the body; FingerprintOf
// never holds it.
absl::StatusOr<std::string> CanonicalBody(absl::string_view content_type, absl::string_view body);

}  // namespace idempotency
