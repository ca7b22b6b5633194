#include "server/app/config_file.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace idempotency {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

std::string Refusal(const std::string& content) {
  const auto entries = ParseConfigFile(content, "c.toml");
  EXPECT_FALSE(entries.ok());
  return std::string(entries.status().message());
}

TEST(ConfigFile, TablesAndDottedNamesAreOne) {
  const auto entries = ParseConfigFile(
      "lanes = 2 # comment\nqueue.max_bytes = 1_000\n[batch]\nmax_items = 3\n\n[a.b]\nc = "
      "'x'\nd = true\n",
      "c.toml");
  ASSERT_TRUE(entries.ok()) << entries.status();
  ASSERT_EQ(entries->size(), 5u);
  const FileEntry expected[] = {{"lanes", FileEntry::Kind::kInteger, "2", 1},
                                {"queue.max_bytes", FileEntry::Kind::kInteger, "1000", 2},
                                {"batch.max_items", FileEntry::Kind::kInteger, "3", 4},
                                {"a.b.c", FileEntry::Kind::kString, "x", 7},
                                {"a.b.d", FileEntry::Kind::kBoolean, "true", 8}};
  for (size_t i = 0; i < entries->size(); ++i) {
    EXPECT_EQ((*entries)[i].name, expected[i].name);
    EXPECT_EQ((*entries)[i].kind, expected[i].kind);
    EXPECT_EQ((*entries)[i].text, expected[i].text);
    EXPECT_EQ((*entries)[i].line, expected[i].line);
  }
}

TEST(ConfigFile, AnEmptyFileSaysNothing) {
  for (const std::string content : {"", "\n", "# only a comment"}) {
    const auto entries = ParseConfigFile(content, "c.toml");
    ASSERT_TRUE(entries.ok()) << entries.status();
    EXPECT_TRUE(entries->empty());
  }
}

TEST(ConfigFile, ANameGivenTwiceIsRefusedWithNameAndLine) {
  EXPECT_THAT(Refusal("lanes = 1\nlanes = 2\n"),
              AllOf(HasSubstr("lanes"), HasSubstr("c.toml:2"), HasSubstr("twice")));
  EXPECT_THAT(Refusal("[queue]\nmax_items = 1\n[queue]\n"),
              AllOf(HasSubstr("[queue]"), HasSubstr("c.toml:3"), HasSubstr("twice")));
  EXPECT_THAT(Refusal("queue.max_items = 1\n[queue]\nmax_items = 2\n"), HasSubstr("twice"));
}

TEST(ConfigFile, WhatIsNoTomlIsRefusedWithLineAndNameAndNotRepeated) {
  EXPECT_THAT(Refusal("\nlisten = hunter2\n"),
              AllOf(HasSubstr("listen"), HasSubstr("c.toml:2"), Not(HasSubstr("hunter2"))));
  EXPECT_THAT(Refusal("database.url = \"hunter2\n"),
              AllOf(HasSubstr("database.url"), HasSubstr("c.toml:1"), Not(HasSubstr("hunter2"))));
  EXPECT_THAT(Refusal("postgres://u:hunter2@h/db\n"),
              AllOf(HasSubstr("c.toml:1"), Not(HasSubstr("hunter2"))));
  EXPECT_THAT(Refusal("postgres://u:hunter2@h/db?a=b\n"), Not(HasSubstr("hunter2")));
  EXPECT_THAT(Refusal("listen: 127.0.0.1\n"), HasSubstr("c.toml:1"));
}

TEST(ConfigFile, WhatIsNoUtf8IsRefusedWithItsLine) {
  EXPECT_THAT(Refusal("lanes = 1\nlisten = \"\xff\"\n"),
              AllOf(HasSubstr("c.toml:2"), HasSubstr("UTF-8")));
}

TEST(ConfigFile, AFileThatCannotBeReadIsRefusedByName) {
  const auto missing = ReadConfigFile("/nonexistent/c.toml");
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(missing.status().message()),
              AllOf(HasSubstr("/nonexistent/c.toml"), HasSubstr("No such file")));
  EXPECT_THAT(std::string(ReadConfigFile("/").status().message()), HasSubstr("directory"));
}

TEST(ConfigFile, AnEndlessFileIsRefused) {
  EXPECT_THAT(std::string(ReadConfigFile("/dev/zero").status().message()),
              HasSubstr("1048576 bytes"));
}

TEST(ConfigFile, NamesAreNestedWithinABound) {
  const auto nested = [](int dots) {
    std::string content = "lanes = 1\n";
    for (int i = 0; i < dots; ++i) content += "a.";
    return content + "a = 1\n";
  };
  EXPECT_TRUE(ParseConfigFile(nested(64), "c.toml").ok());
  EXPECT_THAT(Refusal(nested(65)), AllOf(HasSubstr("c.toml:2"), HasSubstr("64 dots")));
  // Far past it the parser itself would be at its end.
  EXPECT_THAT(Refusal(nested(400'000)), HasSubstr("64 dots"));
  // Dots in texts and comments are none of names.
  const std::string dots(100, '.');
  EXPECT_TRUE(ParseConfigFile("a = \"\\\"" + dots + "\" # it's " + dots + "\nb = '" + dots + "'\n",
                              "c.toml")
                  .ok());
}

TEST(ConfigFile, WhatIsNoNameIsNotShown) {
  EXPECT_EQ(ShownName(" queue.max_bytes "), "queue.max_bytes");
  EXPECT_EQ(ShownName("postgres://u:hunter2@h/db"), "");
  EXPECT_EQ(ShownName(std::string(65, 'x')), "");
}

}  // namespace
}  // namespace idempotency
