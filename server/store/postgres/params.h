// Parameters of a statement in PostgreSQL's binary format.
//
// A batch travels as one array for each column, so that one prepared statement serves every batch
// size. All values are binary: nothing is quoted, and no byte has a meaning of its own.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace idempotency {

// The types that the statements use, by their fixed OIDs (PostgreSQL's pg_type.dat).
enum class PgType : uint32_t {
  kBool = 16,
  kBytea = 17,
  kInt8 = 20,
  kInt2 = 21,
  kInt4 = 23,
  kText = 25,
  kTimestamptz = 1184,
  kUuid = 2950,
};

// Microseconds since 2000-01-01, as timestamptz counts them. Exact for whole microseconds (below
// that it rounds down); the infinite times are PostgreSQL's infinities.
int64_t ToPgMicros(absl::Time time);
absl::Time FromPgMicros(int64_t micros);

// An array in the making. Add exactly `count` elements, then give it to Params::Add.
class ArrayParam {
 public:
  ArrayParam(PgType element, size_t count);

  // REQUIRES for each: the element type is the one named (Bytes: text, bytea or uuid).
  void Bytes(absl::string_view bytes);
  void Uuid(const std::array<uint8_t, 16>& uuid);
  void Int2(int16_t value);
  void Int4(int32_t value);
  void Timestamp(absl::Time value);
  void Null();

 private:
  friend class Params;
  void Append32(uint32_t value);
  void Append64(uint64_t value);

  const PgType element_;
  const size_t count_;
  size_t added_ = 0;
  std::string encoded_;
};

// The parameters of one execution, in order. A value; movable.
class Params {
 public:
  // Checks that the array is complete.
  Params& Add(ArrayParam array);
  Params& AddInt2(int16_t value);
  Params& AddInt4(int32_t value);
  Params& AddInt8(int64_t value);
  Params& AddBool(bool value);
  Params& AddTimestamp(absl::Time value);
  // text, bytea or, with its 16 bytes, uuid.
  Params& AddBytes(absl::string_view value);
  // The start of a heap block.
  Params& AddBlock(uint32_t block);

  const std::vector<std::string>& values() const { return values_; }

 private:
  std::vector<std::string> values_;
};

}  // namespace idempotency
