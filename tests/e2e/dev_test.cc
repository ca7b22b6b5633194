// `idempotencyd dev`: the lines that it prints, run as printed.
#include <signal.h>
#include <stdlib.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/app/child_process.h"
#include "tests/e2e/service_process.h"
#include "tests/util/eventually.h"

namespace idempotency {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::SizeIs;

class DevEndToEnd : public testing::Test {
 protected:
  // What the shell needs before the line: a person's PATH, with the directory of the grpcurl that
  // is named to us, if one is. (RunAndRead hands on no environment.)
  static std::string PathSetting() {
    const char* const path = getenv("PATH");
    const char* const grpcurl = getenv("IDEMPOTENCY_GRPCURL");
    std::string setting = "PATH='";
    if (grpcurl != nullptr) {
      absl::StrAppend(&setting, std::filesystem::path(grpcurl).parent_path().string(), ":");
    }
    return absl::StrCat(setting, path == nullptr ? "" : path, "'; export PATH\n");
  }

  // Runs one line as a person would. What it printed, whether or not it failed.
  static std::string Run(const std::string& line) {
    const absl::StatusOr<std::string> printed =
        RunAndRead({"/bin/sh", "-c", PathSetting() + line}, absl::Minutes(1));
    return printed.ok() ? *printed : std::string(printed.status().message());
  }

  void SetUp() override {
    ASSERT_EQ(Run("command -v grpcurl >/dev/null || echo missing"), "")
        << "grpcurl is needed: ./dev test installs it; or name one in IDEMPOTENCY_GRPCURL";
  }

  // The JSON names that grpcurl prints depend on its version: unknown_attempts or unknownAttempts.
  // Both are unknownattempts here.
  static std::string Answer(const std::string& line) {
    return absl::AsciiStrToLower(absl::StrReplaceAll(Run(line), {{"_", ""}}));
  }

  // The commands that it has printed, once it has printed them all.
  static std::vector<std::string> AwaitLines(ServiceProcess& dev) {
    std::vector<std::string> lines;
    (void)Eventually([&] {
      lines.clear();
      for (absl::string_view line : absl::StrSplit(dev.Output(), '\n')) {
        if (absl::StartsWith(line, "grpcurl ")) lines.emplace_back(line);
      }
      return lines.size() == 9 || !dev.Running();
    });
    return lines;
  }

  // Walks through all of them, in order, at once.
  static void ExpectTheWalk(const std::vector<std::string>& lines) {
    ASSERT_THAT(lines, SizeIs(9));
    EXPECT_THAT(Answer(lines[0]), AllOf(HasSubstr("\"started\""), HasSubstr("\"fencingtoken\"")));
    EXPECT_THAT(Answer(lines[1]), AllOf(HasSubstr("\"inprogress\""), HasSubstr("\"retryafter\"")));
    EXPECT_THAT(Answer(lines[2]), HasSubstr("\"finishtime\""));
    EXPECT_THAT(Answer(lines[3]), AllOf(HasSubstr("\"replay\""), HasSubstr("\"statuscode\": 201"),
                                        HasSubstr("\"responseid\": \"pay-1\"")));
    EXPECT_THAT(Run(lines[4]), AllOf(HasSubstr("FailedPrecondition"), HasSubstr("KEY_REUSED")));
    EXPECT_THAT(Run(lines[5]), HasSubstr("\"RECORD_STATE_COMPLETED\""));
    EXPECT_THAT(Answer(lines[6]), HasSubstr("\"started\""));
    EXPECT_THAT(Answer(lines[7]), AllOf(HasSubstr("\"started\""), HasSubstr("\"attemptnumber\": 2"),
                                        HasSubstr("\"unknownattempts\": 1")));
    EXPECT_THAT(Answer(lines[8]),
                AllOf(HasSubstr("\"recordstateinprogress\""), HasSubstr("\"previousattempt\"")));
  }

  static void StopGracefully(ServiceProcess& dev) {
    dev.Signal(SIGINT);
    ASSERT_TRUE(dev.AwaitEnd());
    EXPECT_TRUE(dev.Succeeded()) << dev.HowItEnded() << dev.Log();
  }
};

TEST_F(DevEndToEnd, LinesWorkAsPrinted) {
  ServiceProcess dev({"dev", "--ephemeral"});
  const std::vector<std::string> lines = AwaitLines(dev);
  ASSERT_THAT(lines, SizeIs(9)) << dev.Output() << dev.Log();
  ExpectTheWalk(lines);
  StopGracefully(dev);
}

TEST_F(DevEndToEnd, LinesWorkAgainOnKeptData) {
  std::string directory =
      (std::filesystem::temp_directory_path() / "idempotencyd-dev-XXXXXX").string();
  ASSERT_NE(mkdtemp(directory.data()), nullptr);
  // Another user's PostgreSQL has to pass through it.
  std::filesystem::permissions(directory, std::filesystem::perms::owner_all |
                                              std::filesystem::perms::group_exec |
                                              std::filesystem::perms::others_exec);
  const std::string kept = directory + "/dev";
  std::string first_lookup;
  {
    ServiceProcess dev({"dev", "--directory=" + kept, "--listen=127.0.0.1:0"});
    const std::vector<std::string> lines = AwaitLines(dev);
    ASSERT_THAT(lines, SizeIs(9)) << dev.Output() << dev.Log();
    EXPECT_THAT(Run(lines[0]), HasSubstr("\"started\""));
    EXPECT_THAT(Answer(lines[2]), HasSubstr("\"finishtime\""));
    first_lookup = lines[5];
    StopGracefully(dev);
  }
  {
    ServiceProcess dev({"dev", "--directory=" + kept, "--listen=127.0.0.1:0"});
    const std::vector<std::string> lines = AwaitLines(dev);
    ASSERT_THAT(lines, SizeIs(9)) << dev.Output() << dev.Log();
    EXPECT_THAT(Run(lines[0]), HasSubstr("\"started\""));
    // What the run before recorded is still there, on another port.
    const std::string address(lines[0].substr(lines[0].rfind("127.0.0.1:")));
    const std::string here = address.substr(0, address.find(' '));
    const size_t old = first_lookup.rfind("127.0.0.1:");
    const std::string moved =
        first_lookup.substr(0, old) + here + first_lookup.substr(first_lookup.find(' ', old));
    EXPECT_THAT(Run(moved), HasSubstr("\"RECORD_STATE_COMPLETED\""));
    StopGracefully(dev);
  }
  std::filesystem::remove_all(directory);
}

TEST_F(DevEndToEnd, AnotherDevTakesAFreePort) {
  ServiceProcess one({"dev", "--ephemeral"});
  ServiceProcess two({"dev", "--ephemeral"});
  const std::vector<std::string> lines_of_one = AwaitLines(one);
  const std::vector<std::string> lines_of_two = AwaitLines(two);
  ASSERT_THAT(lines_of_one, SizeIs(9)) << one.Log();
  ASSERT_THAT(lines_of_two, SizeIs(9)) << two.Log();
  EXPECT_THAT(Run(lines_of_one[0]), HasSubstr("\"started\""));
  EXPECT_THAT(Run(lines_of_two[0]), HasSubstr("\"started\""));
}

TEST_F(DevEndToEnd, ReflectionShowsTheServiceAndHealth) {
  ServiceProcess dev({"dev", "--ephemeral"});
  const std::vector<std::string> lines = AwaitLines(dev);
  ASSERT_THAT(lines, SizeIs(9)) << dev.Log();
  const size_t begin = lines[0].rfind("127.0.0.1:");
  const std::string address = lines[0].substr(begin, lines[0].find(' ', begin) - begin);
  EXPECT_THAT(
      Run("grpcurl -plaintext " + address + " list"),
      AllOf(HasSubstr("idempotency.v1.IdempotencyService"), HasSubstr("grpc.health.v1.Health")));
  EXPECT_TRUE(Eventually([&] {
    return Run("grpcurl -plaintext " + address + " grpc.health.v1.Health/Check")
               .find("\"SERVING\"") != std::string::npos;
  }));
}

}  // namespace
}  // namespace idempotency
