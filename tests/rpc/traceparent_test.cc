#include "server/rpc/traceparent.h"

#include <string>

#include "gtest/gtest.h"

namespace idempotency {
namespace {

constexpr char kTrace[] = "4bf92f3577b34da6a3ce929d0e0e4736";
constexpr char kValid[] = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

std::string TraceIn(absl::string_view header) {
  return std::string(ParseTraceparent(header).trace.text());
}

TEST(Traceparent, IsReadAndWrittenAgain) {
  const TraceContext context = ParseTraceparent(kValid);
  ASSERT_TRUE(context.trace.is_set());
  EXPECT_EQ(std::string(context.trace.text()), kTrace);
  EXPECT_EQ(TraceparentText(context), kValid);
}

TEST(Traceparent, FlagsAreKeptAsTheyCame) {
  for (const char* const header : {"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00",
                                   "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-ff"}) {
    EXPECT_EQ(TraceparentText(ParseTraceparent(header)), header);
  }
}

TEST(Traceparent, LaterVersionsAreReadAsFarAsTheyAreKnown) {
  for (const char* const header :
       {"01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-what-the-future-brings",
        "fe-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-"}) {
    EXPECT_EQ(TraceIn(header), kTrace) << header;
    EXPECT_EQ(TraceparentText(ParseTraceparent(header)), kValid);
  }
}

TEST(Traceparent, WhatIsNotValidIsNoTrace) {
  for (const char* const header : {
           "",
           "00",
           "00-",
           // Too short by one, too long for its version, no dash after a later version's 55.
           "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0",
           "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-011",
           "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-",
           "01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01.x",
           // ff is no version, and a version is hexadecimal.
           "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
           "0x-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
           "FE-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
           // Upper case, other characters, all zeros.
           "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
           "00-4bf92f3577b34da6a3ce929d0e0e473g-00f067aa0ba902b7-01",
           "00-4bf92f3577b34da6a3ce929d0e0e4736-00F067AA0BA902B7-01",
           "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0A",
           "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0 ",
           "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
           "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
           // Dashes elsewhere, blanks around it.
           "00_4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
           "00-4bf92f3577b34da6a3ce929d0e0e4736_00f067aa0ba902b7-01",
           "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7_01",
           " 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
           "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01 ",
       }) {
    EXPECT_EQ(TraceIn(header), "") << header;
  }
}

TEST(Traceparent, NulIsNoDigit) {
  std::string header = kValid;
  header[3] = '\0';
  EXPECT_EQ(TraceIn(header), "");
}

}  // namespace
}  // namespace idempotency
