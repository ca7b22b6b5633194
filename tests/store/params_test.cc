#include "server/store/postgres/params.h"

#include <gtest/gtest.h>

#include <limits>

#include "absl/strings/escaping.h"

namespace idempotency {
namespace {

// 1 dimension, "may hold NULLs", and the element type.
std::string Header(const char* type, const char* count) {
  return std::string("0000000100000001") + type + count + "00000001";
}

std::string Encoded(ArrayParam array) {
  return absl::BytesToHexString(Params().Add(std::move(array)).values()[0]);
}

TEST(ArrayParamTest, EncodesTextWithItsLength) {
  ArrayParam array(PgType::kText, 2);
  array.Bytes("ab");
  array.Bytes("");
  EXPECT_EQ(Encoded(std::move(array)), Header("00000019", "00000002") +
                                           "00000002"
                                           "6162"
                                           "00000000");
}

TEST(ArrayParamTest, EncodesAnyByteOfBytea) {
  ArrayParam array(PgType::kBytea, 1);
  array.Bytes(absl::string_view("\0\xff\\", 3));
  EXPECT_EQ(Encoded(std::move(array)), Header("00000011", "00000001") + "0000000300ff5c");
}

TEST(ArrayParamTest, EncodesNumbersBigEndian) {
  ArrayParam small(PgType::kInt2, 1);
  small.Int2(-2);
  EXPECT_EQ(Encoded(std::move(small)), Header("00000015", "00000001") + "00000002fffe");
  ArrayParam medium(PgType::kInt4, 1);
  medium.Int4(std::numeric_limits<int32_t>::min());
  EXPECT_EQ(Encoded(std::move(medium)), Header("00000017", "00000001") + "0000000480000000");
}

TEST(ArrayParamTest, EncodesUuidAsItsBytes) {
  std::array<uint8_t, 16> uuid{};
  uuid[0] = 0xab;
  uuid[15] = 0x01;
  ArrayParam array(PgType::kUuid, 1);
  array.Uuid(uuid);
  EXPECT_EQ(Encoded(std::move(array)),
            Header("00000b86", "00000001") + "00000010ab000000000000000000000000000001");
}

TEST(ArrayParamTest, EncodesNullAsLengthMinusOne) {
  ArrayParam array(PgType::kBytea, 1);
  array.Null();
  EXPECT_EQ(Encoded(std::move(array)), Header("00000011", "00000001") + "ffffffff");
}

TEST(ArrayParamTest, EncodesTheEmptyArrayWithoutDimensions) {
  EXPECT_EQ(Encoded(ArrayParam(PgType::kText, 0)), "000000000000000100000019");
}

TEST(ArrayParamDeathTest, IsRefusedWhenElementsAreMissing) {
  ArrayParam array(PgType::kText, 2);
  array.Bytes("only one");
  EXPECT_DEATH(Params().Add(std::move(array)), "1 of 2");
}

TEST(ArrayParamDeathTest, IsRefusedWhenAnElementIsOfAnotherType) {
  ArrayParam array(PgType::kText, 1);
  EXPECT_DEATH(array.Int4(1), "CHECK failed");
}

TEST(ParamsTest, EncodesTheStartOfABlock) {
  EXPECT_EQ(absl::BytesToHexString(Params().AddBlock(0x01020304).values()[0]), "010203040000");
}

TEST(ParamsTest, EncodesSingleValues) {
  Params params;
  params.AddInt4(1).AddInt8(-1).AddBytes("5ms");
  EXPECT_EQ(absl::BytesToHexString(params.values()[0]), "00000001");
  EXPECT_EQ(absl::BytesToHexString(params.values()[1]), "ffffffffffffffff");
  EXPECT_EQ(params.values()[2], "5ms");
}

TEST(PgMicrosTest, CountsFromTheYear2000) {
  EXPECT_EQ(ToPgMicros(absl::FromUnixSeconds(946684800)), 0);
  EXPECT_EQ(ToPgMicros(absl::UnixEpoch()), -946684800000000);
}

TEST(PgMicrosTest, KeepsEveryMicrosecond) {
  for (const int64_t micros : {int64_t{0}, int64_t{1}, int64_t{-1}, int64_t{1754000000123457},
                               int64_t{-62135596800000000}, int64_t{253402300799999999}}) {
    const absl::Time time = absl::FromUnixMicros(micros);
    EXPECT_EQ(FromPgMicros(ToPgMicros(time)), time) << micros;
  }
}

TEST(PgMicrosTest, RoundsDownBelowAMicrosecond) {
  const absl::Time time = absl::FromUnixMicros(1754000000123457);
  EXPECT_EQ(FromPgMicros(ToPgMicros(time + absl::Nanoseconds(999))), time);
}

TEST(PgMicrosTest, HasPostgresInfinities) {
  EXPECT_EQ(ToPgMicros(absl::InfinitePast()), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(ToPgMicros(absl::InfiniteFuture()), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(FromPgMicros(std::numeric_limits<int64_t>::min()), absl::InfinitePast());
  EXPECT_EQ(FromPgMicros(std::numeric_limits<int64_t>::max()), absl::InfiniteFuture());
}

TEST(PgMicrosTest, ReadsTheLargestFiniteValuesWithoutOverflow) {
  const int64_t largest = std::numeric_limits<int64_t>::max() - 1;
  EXPECT_LT(FromPgMicros(largest), absl::InfiniteFuture());
  EXPECT_GT(FromPgMicros(largest), FromPgMicros(largest - 1));
}

}  // namespace
}  // namespace idempotency
