// Identifiers that are derived, not stored. The formulas never change: partners and callers keep
// the results.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "server/record/record.h"

namespace idempotency {

using Uuid = std::array<uint8_t, 16>;

// The record's name: a UUIDv8 (RFC 9562, section 5.8). Bytes 0-5 are the creation time in
// milliseconds since the epoch, bytes 6-15 the first ten bytes of SHA-256("idempotency.v1 record" ‖
// u16 length ‖ merchant ‖ u16 length ‖ key ‖ int64 creation time in µs, all big-endian), then
// version and variant bits are set.
Uuid RecordIdOf(const RecordKey& key, absl::Time created_at);

// The key to send to partners, the same for every attempt of the record: the UUIDv5 (RFC 9562,
// section 5.5) of the record id's 16 bytes under the namespace
// 6f1c8a34-2b57-4d0e-9a43-7c1be05d92f8.
Uuid DownstreamKeyOf(const Uuid& record_id);

// 36 lower-case characters.
std::string UuidText(const Uuid& uuid);

// The record id as callers see it.
std::string RecordIdText(const RecordKey& key, absl::Time created_at);
inline std::string RecordIdText(const Record& record) {
  return RecordIdText(record.key, record.created_at);
}

// A random UUIDv4 from the system's random source: the attempt id of a caller that gave none.
std::string RandomUuidText();

}  // namespace idempotency
