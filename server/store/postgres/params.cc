#include "server/store/postgres/params.h"

#include <limits>
#include <utility>

#include "server/base/check.h"

namespace idempotency {
namespace {

constexpr int64_t kNegativeInfinity = std::numeric_limits<int64_t>::min();
constexpr int64_t kPositiveInfinity = std::numeric_limits<int64_t>::max();
// From 1970-01-01 to 2000-01-01.
constexpr int64_t kPgEpochSeconds = 946684800;

template <typename Unsigned>
void AppendBigEndian(std::string& to, Unsigned value) {
  for (int shift = static_cast<int>(sizeof(value)) * 8 - 8; shift >= 0; shift -= 8) {
    to.push_back(static_cast<char>(value >> shift & 0xff));
  }
}

}  // namespace

int64_t ToPgMicros(absl::Time time) {
  if (time == absl::InfinitePast()) return kNegativeInfinity;
  if (time == absl::InfiniteFuture()) return kPositiveInfinity;
  return absl::ToUnixMicros(time - absl::Seconds(kPgEpochSeconds));
}

absl::Time FromPgMicros(int64_t micros) {
  if (micros == kNegativeInfinity) return absl::InfinitePast();
  if (micros == kPositiveInfinity) return absl::InfiniteFuture();
  return absl::FromUnixMicros(micros) + absl::Seconds(kPgEpochSeconds);
}

ArrayParam::ArrayParam(PgType element, size_t count) : element_(element), count_(count) {
  // The header: dimensions, whether NULLs may follow, element type, length, lower bound.
  Append32(count == 0 ? 0 : 1);
  Append32(1);
  Append32(static_cast<uint32_t>(element));
  if (count == 0) return;
  Append32(static_cast<uint32_t>(count));
  Append32(1);
}

void ArrayParam::Append32(uint32_t value) { AppendBigEndian(encoded_, value); }
void ArrayParam::Append64(uint64_t value) { AppendBigEndian(encoded_, value); }

void ArrayParam::Bytes(absl::string_view bytes) {
  IDEM_CHECK(element_ == PgType::kText || element_ == PgType::kBytea || element_ == PgType::kUuid);
  ++added_;
  Append32(static_cast<uint32_t>(bytes.size()));
  encoded_.append(bytes.data(), bytes.size());
}

void ArrayParam::Uuid(const std::array<uint8_t, 16>& uuid) {
  Bytes(absl::string_view(reinterpret_cast<const char*>(uuid.data()), uuid.size()));
}

void ArrayParam::Int2(int16_t value) {
  IDEM_CHECK(element_ == PgType::kInt2);
  ++added_;
  Append32(2);
  AppendBigEndian(encoded_, static_cast<uint16_t>(value));
}

void ArrayParam::Int4(int32_t value) {
  IDEM_CHECK(element_ == PgType::kInt4);
  ++added_;
  Append32(4);
  Append32(static_cast<uint32_t>(value));
}

void ArrayParam::Timestamp(absl::Time value) {
  IDEM_CHECK(element_ == PgType::kTimestamptz);
  ++added_;
  Append32(8);
  Append64(static_cast<uint64_t>(ToPgMicros(value)));
}

void ArrayParam::Null() {
  ++added_;
  Append32(0xffffffff);
}

Params& Params::Add(ArrayParam array) {
  IDEM_CHECK(array.added_ == array.count_) << array.added_ << " of " << array.count_;
  values_.push_back(std::move(array.encoded_));
  return *this;
}

Params& Params::AddInt2(int16_t value) {
  AppendBigEndian(values_.emplace_back(), static_cast<uint16_t>(value));
  return *this;
}

Params& Params::AddInt4(int32_t value) {
  AppendBigEndian(values_.emplace_back(), static_cast<uint32_t>(value));
  return *this;
}

Params& Params::AddInt8(int64_t value) {
  AppendBigEndian(values_.emplace_back(), static_cast<uint64_t>(value));
  return *this;
}

Params& Params::AddBool(bool value) {
  values_.emplace_back(1, value ? '\1' : '\0');
  return *this;
}

Params& Params::AddTimestamp(absl::Time value) { return AddInt8(ToPgMicros(value)); }

Params& Params::AddBytes(absl::string_view value) {
  values_.emplace_back(value.data(), value.size());
  return *this;
}

Params& Params::AddBlock(uint32_t block) {
  std::string& encoded = values_.emplace_back();
  AppendBigEndian(encoded, block);
  AppendBigEndian(encoded, uint16_t{0});
  return *this;
}

}  // namespace idempotency
