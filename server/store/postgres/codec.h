// A record as columns, and back: the messages of idempotency.store.v1 in the bytea columns, and the
// bits of `flags`.
//
// Nothing is written that can be left out: a record that has no answer, no history or no labels has
// an empty bytea there. Thread-safe: functions of their arguments only.
#pragma once

#include <libpq-fe.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "server/record/record.h"
#include "server/store/postgres/params.h"
#include "server/store/postgres/rows.h"

namespace idempotency {

// The bits of the column `flags`.
int16_t EncodeFlags(bool hold, bool has_unknown_attempts, int32_t fingerprint_scheme);

// Empty for null.
std::string EncodeAnswer(const Answer* answer);
std::string EncodeHistory(const Record& record);
// Of a record whose only attempt has this token offset: what EncodeHistory would make of it.
std::string EncodeFirstHistory(int64_t token_offset_us);
std::string EncodeLabels(const Labels& labels);

absl::string_view BytesOf(const Fingerprint& fingerprint);

// kInternal when the bytes are not what EncodeAnswer writes for an answer that leads to `state`.
absl::StatusOr<std::shared_ptr<const Answer>> DecodeAnswer(absl::string_view bytes,
                                                           RecordState state);
// Sets what EncodeHistory keeps. REQUIRES: created_at is set.
absl::Status DecodeHistory(absl::string_view bytes, Record& record);
absl::StatusOr<Labels> DecodeLabels(absl::string_view bytes);

// Reads the columns that read.sql and lock.sql share, from created_at to operation, into a record
// of that key. kInternal when a column is not what this service writes: such a row is no use to
// anyone but an operator.
absl::StatusOr<Record> DecodeRecord(const RecordKey& key, RowReader& row);

// A row for write.sql.
struct RowToWrite {
  const Record* record;
  bool keeps_answer;  // the column outcome stays as it is
};
// REQUIRES: sorted by key, no key twice.
Params EncodeRows(absl::Span<const RowToWrite> rows);

}  // namespace idempotency
