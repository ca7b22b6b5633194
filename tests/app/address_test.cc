#include "server/app/address.h"

#include <string>

#include "gtest/gtest.h"

namespace idempotency {
namespace {

TEST(Address, IsHostAndPort) {
  const auto address = ParseAddress("db-1.example:65535");
  ASSERT_TRUE(address.ok());
  EXPECT_EQ(address->host, "db-1.example");
  EXPECT_EQ(address->port, 65535);
  EXPECT_EQ(ParseAddress("[::1]:0")->host, "::1");
  EXPECT_EQ(ParseAddress("127.0.0.1:0")->port, 0);
}

TEST(Address, OtherTextsAreRefused) {
  for (const std::string text :
       {"", "host", "host:", ":1", "host:65536", "host:-1", "host:+1", "host: 1", "host:1x",
        "::1:1", "[]:1", "[::1", "a b:1", "http://host:1", "host:000001"}) {
    EXPECT_EQ(CheckAddress(text).code(), absl::StatusCode::kInvalidArgument) << text;
  }
  EXPECT_TRUE(CheckAddress(std::string(253, 'x') + ":1").ok());
  EXPECT_FALSE(CheckAddress(std::string(254, 'x') + ":1").ok());
}

TEST(Address, LoopbackIsByNumberOrLocalhost) {
  for (const std::string text : {"127.0.0.1:1", "127.9.9.9:1", "localhost:1", "[::1]:1"}) {
    EXPECT_TRUE(IsLoopback(*ParseAddress(text))) << text;
  }
  for (const std::string text : {"0.0.0.0:1", "[::]:1", "127.evil.example:1", "10.0.0.1:1"}) {
    EXPECT_FALSE(IsLoopback(*ParseAddress(text))) << text;
  }
}

TEST(Address, EveryAddressIsDialledOverLoopback) {
  EXPECT_EQ(*DialAddress("0.0.0.0:7"), "127.0.0.1:7");
  EXPECT_EQ(*DialAddress("[::]:7"), "[::1]:7");
  EXPECT_EQ(*DialAddress("10.0.0.1:7"), "10.0.0.1:7");
  EXPECT_EQ(*DialAddress("localhost:7"), "localhost:7");
}

TEST(Address, PortZeroCannotBeDialled) {
  EXPECT_EQ(DialAddress("127.0.0.1:0").status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace idempotency
