#include "server/app/options.h"

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/app/config_view.h"
#include "server/app/exit_code.h"
#include "server/app/setting_row.h"
#include "server/app/setting_table.h"
#include "server/engine/call.h"
#include "server/record/limit.h"

namespace idempotency {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr char kUrl[] = "--database-url=host=db password=hunter2";

std::vector<std::string> Serve(std::vector<std::string> more) {
  std::vector<std::string> arguments = {"serve", "--insecure", "--durability=local", kUrl};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

// REQUIRES: the arguments are good.
CommandLine Parsed(const std::vector<std::string>& arguments, const Environment& environment = {}) {
  auto parsed = ParseCommandLine(arguments, environment);
  if (const auto* text = std::get_if<ExitText>(&parsed)) {
    ADD_FAILURE() << text->text;
    return {};
  }
  return std::get<CommandLine>(std::move(parsed));
}

// REQUIRES: the arguments are not to run anything.
ExitText Refused(const std::vector<std::string>& arguments, const Environment& environment = {}) {
  auto parsed = ParseCommandLine(arguments, environment);
  if (std::holds_alternative<CommandLine>(parsed)) {
    ADD_FAILURE() << "was taken";
    return {};
  }
  return std::get<ExitText>(std::move(parsed));
}

TEST(Options, ServeNeedsToBeToldTheDurability) {
  const ExitText refused = Refused({"serve", "--insecure", kUrl});
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.text, HasSubstr("--durability"));
}

TEST(Options, AnUnknownDurabilityIsRefusedWithThoseThereAre) {
  const ExitText refused = Refused({"serve", "--insecure", kUrl, "--durability=eternal"});
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.text,
              AllOf(HasSubstr("--durability"), HasSubstr("local"), HasSubstr("replicated")));
}

TEST(Options, ReplicatedIsADurability) {
  EXPECT_EQ(Parsed({"serve", "--insecure", kUrl, "--durability=replicated"}).settings.durability,
            "replicated");
}

TEST(Options, ServeNeedsToBeToldInsecure) {
  const ExitText refused = Refused({"serve", "--durability=local", kUrl});
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.text, HasSubstr("--insecure"));
}

TEST(Options, ServeAndMigrateNeedADatabase) {
  EXPECT_THAT(Refused({"serve", "--insecure", "--durability=local"}).text,
              HasSubstr("--database-url"));
  EXPECT_THAT(Refused({"migrate"}).text, HasSubstr("--database-url"));
}

TEST(Options, ServeHasSafeDefaults) {
  const CommandLine line = Parsed(Serve({}));
  EXPECT_EQ(line.command, Command::kServe);
  EXPECT_EQ(line.settings.listen, "127.0.0.1:50051");
  EXPECT_EQ(line.settings.database_url, "host=db password=hunter2");
  EXPECT_EQ(line.settings.log_level, LogLevel::kInfo);
  EXPECT_EQ(line.settings.bounds.ttl.standard, absl::Hours(24));
  EXPECT_EQ(line.settings.engine.policy.replay_window, absl::Hours(1));
  EXPECT_EQ(line.settings.engine.policy.shortest_lease, absl::Seconds(1));
}

TEST(Options, EverySettingTakesItsDefaultFromTheCommandLine) {
  Settings defaults;
  for (const SettingRow& row : SettingTable(&defaults)) {
    SCOPED_TRACE(row.name);
    const std::string text = ValueText(row);
    if (text.empty() || (row.commands & kServeCommand) == 0 || row.name == "insecure") continue;
    (void)Parsed(Serve({absl::StrCat(FlagOf(row.name), "=", text)}));
  }
}

TEST(Options, EverySpanAndNumberIsRefusedOutOfItsBoundsAndNamed) {
  Settings defaults;
  for (const SettingRow& row : SettingTable(&defaults)) {
    SCOPED_TRACE(row.name);
    if (row.span == nullptr && row.size == nullptr && row.number == nullptr) continue;
    for (const std::string value : {"-1", "-1s", "x", "999999999999", "99999h", "inf"}) {
      const ExitText refused = Refused(Serve({absl::StrCat(FlagOf(row.name), "=", value)}));
      EXPECT_EQ(refused.status, 2);
      EXPECT_THAT(refused.text, AllOf(HasSubstr(FlagOf(row.name)), HasSubstr(row.name),
                                      HasSubstr(BoundsText(row))));
    }
  }
}

TEST(Options, ASettingIsTakenFromTheEnvironment) {
  const CommandLine line =
      Parsed({"serve", "--insecure", "--durability=local"},
             {{"IDEMPOTENCY_REPLAY_WINDOW", "2h"}, {"IDEMPOTENCY_DATABASE_URL", "host=other"}});
  EXPECT_EQ(line.settings.engine.policy.replay_window, absl::Hours(2));
  EXPECT_EQ(line.settings.database_url, "host=other");
}

TEST(Options, AFlagWinsOverTheEnvironment) {
  EXPECT_EQ(Parsed(Serve({"--lanes=3"}), {{"IDEMPOTENCY_LANES", "5"}}).settings.engine.lanes, 3);
}

TEST(Options, TheLastOfTwoFlagsWins) {
  EXPECT_EQ(Parsed(Serve({"--lanes=3", "--lanes=4"})).settings.engine.lanes, 4);
}

TEST(Options, UnderscoresAreDashes) {
  EXPECT_EQ(Parsed(Serve({"--queue_max_items=100"})).settings.engine.queue_max_items, 100u);
}

TEST(Options, AWrongVariableIsNamed) {
  EXPECT_THAT(Refused(Serve({}), {{"IDEMPOTENCY_SKEW_MARGIN", "soon"}}).text,
              HasSubstr("IDEMPOTENCY_SKEW_MARGIN"));
}

TEST(Options, TheReplayWindowIsAtLeastTenMinutes) {
  EXPECT_EQ(Parsed(Serve({"--replay-window=10m"})).settings.engine.policy.replay_window,
            absl::Minutes(10));
  EXPECT_EQ(Refused(Serve({"--replay-window=599999ms"})).status, 2);
}

TEST(Options, TestsMayGoBelowTheBounds) {
  const CommandLine line =
      Parsed(Serve({"--unsafe-test-bounds", "--replay-window=1s", "--lease-min-duration=100ms"}));
  EXPECT_EQ(line.settings.engine.policy.replay_window, absl::Seconds(1));
  EXPECT_EQ(line.settings.engine.policy.shortest_lease, absl::Milliseconds(100));
  EXPECT_EQ(Refused(Serve({"--unsafe-test-bounds", "--replay-window=0"})).status, 2);
}

TEST(Options, TheDefaultLiesBetweenItsBounds) {
  EXPECT_THAT(Refused(Serve({"--ttl-max=23h"})).text,
              AllOf(HasSubstr("--ttl-max"), HasSubstr("ttl.default (default: 24h)")));
  EXPECT_EQ(Parsed(Serve({"--ttl-max=24h"})).settings.bounds.ttl.longest, absl::Hours(24));
  EXPECT_THAT(Refused(Serve({"--lease-min-duration=2m"})).text,
              AllOf(HasSubstr("--lease-min-duration"), HasSubstr("lease.default_duration")));
}

TEST(Options, WaitsAreAtMostHalfOfTheCalls) {
  EXPECT_EQ(
      Parsed(Serve({"--waits-max=100", "--calls-in-flight-max=200"})).settings.engine.waits_max,
      100u);
  EXPECT_THAT(Refused(Serve({"--waits-max=101", "--calls-in-flight-max=200"})).text,
              HasSubstr("--waits-max"));
}

TEST(Options, PurgingUnsettledRecordsIsOffOrAtLeast90Days) {
  EXPECT_EQ(Parsed(Serve({"--purge-unsettled-after=off"})).settings.engine.purge_unsettled_after,
            absl::InfiniteDuration());
  EXPECT_EQ(Parsed(Serve({"--purge-unsettled-after=2160h"})).settings.engine.purge_unsettled_after,
            absl::Hours(2160));
  EXPECT_EQ(Refused(Serve({"--purge-unsettled-after=2159h"})).status, 2);
}

TEST(Options, TestsMayPurgeUnsettledRecordsOfAnyAge) {
  EXPECT_EQ(Parsed(Serve({"--unsafe-test-bounds", "--purge-unsettled-after=1s"}))
                .settings.engine.purge_unsettled_after,
            absl::Seconds(1));
  EXPECT_EQ(Refused(Serve({"--unsafe-test-bounds", "--purge-unsettled-after=0"})).status, 2);
}

TEST(Options, MerchantsHaveNoRateUnlessToldAndGenerousCallsInFlight) {
  const MerchantLimitOptions merchants = Parsed(Serve({})).settings.merchants;
  EXPECT_EQ(merchants.max_rate, 0u);
  EXPECT_EQ(merchants.burst, 0u);
  EXPECT_EQ(merchants.max_calls_in_flight, 3072u);
}

TEST(Options, MerchantsLimitsAreSet) {
  const MerchantLimitOptions merchants =
      Parsed(Serve({"--merchant-max-rate=50", "--merchant-burst=200",
                    "--merchant-max-calls-in-flight=0"}))
          .settings.merchants;
  EXPECT_EQ(merchants.max_rate, 50u);
  EXPECT_EQ(merchants.burst, 200u);
  EXPECT_EQ(merchants.max_calls_in_flight, 0u);
  EXPECT_EQ(Refused(Serve({"--merchant-max-rate=1000001"})).status, 2);
}

TEST(Options, AMerchantsBurstWithoutARateIsAMistake) {
  EXPECT_THAT(Refused(Serve({"--merchant-burst=200"})).text,
              AllOf(HasSubstr("merchant.burst"), HasSubstr("merchant.max_rate")));
}

TEST(Options, EveryLaneQueuesAtLeastFourCalls) {
  EXPECT_EQ(Parsed(Serve({"--lanes=20", "--queue-max-items=80"})).settings.engine.queue_max_items,
            80u);
  EXPECT_THAT(Refused(Serve({"--lanes=20", "--queue-max-items=79"})).text,
              AllOf(HasSubstr("--queue-max-items"), HasSubstr("--lanes"), HasSubstr(": 80")));
}

TEST(Options, TheLargestCompleteFitsIntoALanesReservedQuarter) {
  const size_t bound = 64 * 4 * LargestOwnerCallBytes(kDefaultOutcomeBodyBytes);
  EXPECT_EQ(Parsed(Serve({"--lanes=64", absl::StrCat("--queue-max-bytes=", bound)}))
                .settings.engine.queue_max_bytes,
            bound);
  EXPECT_THAT(Refused(Serve({"--lanes=64", absl::StrCat("--queue-max-bytes=", bound - 1)})).text,
              AllOf(HasSubstr("--queue-max-bytes"), HasSubstr("--lanes"),
                    HasSubstr("outcome.max_body_bytes"), HasSubstr(absl::StrCat(bound))));
}

TEST(Options, AnUnknownFlagIsNamed) {
  const ExitText refused = Refused(Serve({"--nonsense"}));
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.text, HasSubstr("--nonsense"));
}

TEST(Options, NoMessageRepeatsThePassword) {
  for (const char* wrong : {"--nonsense", "--lanes=x", "--log-level=loud", "--ttl-max=1m"}) {
    EXPECT_THAT(Refused(Serve({wrong})).text, Not(HasSubstr("hunter2")));
  }
}

TEST(Options, AMistypedFlagIsNamedWithoutItsValue) {
  for (const std::string value : {"=postgres://u:hunter2@h/db", ":hunter2", " hunter2"}) {
    const ExitText refused = Refused(Serve({"--databse-url" + value}));
    EXPECT_EQ(refused.status, 2);
    EXPECT_THAT(refused.text, AllOf(HasSubstr("--databse-url"), Not(HasSubstr("hunter2"))));
  }
  EXPECT_THAT(Refused(Serve({"--databse-url", "postgres://u:hunter2@h/db"})).text,
              AllOf(HasSubstr("--databse-url"), Not(HasSubstr("hunter2"))));
  EXPECT_THAT(Refused(Serve({"-Whunter2"})).text,
              AllOf(HasSubstr("-W"), Not(HasSubstr("hunter2"))));
}

TEST(Options, AnArgumentThatIsNoFlagIsNotRepeated) {
  const std::vector<std::vector<std::string>> wrong = {{"serve", "postgres://u:hunter2@h/db"},
                                                       {"postgres://u:hunter2@h/db", "serve"},
                                                       {"postgres://u:hunter2@h/db"},
                                                       {"migrate", "postgres://u:hunter2@h/db"},
                                                       {"serve", "--", "hunter2"}};
  for (const std::vector<std::string>& arguments : wrong) {
    const ExitText refused = Refused(arguments);
    EXPECT_EQ(refused.status, 2);
    EXPECT_THAT(refused.text, Not(HasSubstr("hunter2")));
  }
  EXPECT_THAT(Refused(wrong[0]).text, HasSubstr("an argument that is no flag"));
}

TEST(Options, AValueOfASwitchIsNotRepeated) {
  EXPECT_THAT(Refused(Serve({"--unsafe-test-bounds=hunter2"})).text,
              AllOf(HasSubstr("--unsafe-test-bounds"), Not(HasSubstr("hunter2"))));
  EXPECT_THAT(
      Refused({"serve", "--durability=local", kUrl}, {{"IDEMPOTENCY_INSECURE", "hunter2"}}).text,
      AllOf(HasSubstr("IDEMPOTENCY_INSECURE"), Not(HasSubstr("hunter2"))));
}

TEST(Options, WithoutASubcommandItSaysWhatThereIs) {
  EXPECT_EQ(Refused({}).status, 2);
  const ExitText help = Refused({"--help"});
  EXPECT_EQ(help.status, 0);
  EXPECT_THAT(help.text, AllOf(HasSubstr("serve"), HasSubstr("dev"), HasSubstr("migrate"),
                               HasSubstr("version")));
}

TEST(Options, HelpOfServeShowsEverySettingWithBoundAndVariable) {
  const ExitText help = Refused({"serve", "--help"});
  EXPECT_EQ(help.status, 0);
  Settings defaults;
  for (const SettingRow& row : SettingTable(&defaults)) {
    EXPECT_THAT(help.text, AllOf(HasSubstr(FlagOf(row.name)), HasSubstr(BoundsText(row))));
    if (row.in_environment) {
      EXPECT_THAT(help.text, HasSubstr(VariableOf(row.name)));
    }
  }
}

TEST(Options, EveryHelpShowsTheExitCodes) {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"--help"}, {"serve", "--help"}, {"config", "print", "--help"}}) {
    const ExitText help = Refused(arguments);
    EXPECT_EQ(help.status, 0);
    for (const ExitCodeText& code : ExitCodes()) {
      EXPECT_THAT(help.text, HasSubstr(std::string(code.meaning)));
    }
  }
}

TEST(Options, HelpOfAnInnerCommandShowsWhatItHasFromTheOuterOne) {
  EXPECT_THAT(Refused({"config", "print", "--help"}).text,
              AllOf(HasSubstr("--format"), HasSubstr("--queue-max-bytes")));
}

TEST(Options, AFlagWithoutAValueIsRefused) {
  for (const std::string flag : {"--lanes=", "--database-url=", "--listen="}) {
    EXPECT_THAT(Refused(Serve({flag, "3"})).text,
                AllOf(HasSubstr(flag.substr(0, flag.size() - 1)), HasSubstr("empty")));
  }
  EXPECT_THAT(Refused(Serve({"--lanes", ""})).text, HasSubstr("empty"));
}

TEST(Options, EveryMistakeIsNamedAtOnce) {
  EXPECT_THAT(Refused(Serve({"--lanes=x", "--ttl-min=y"})).text,
              AllOf(HasSubstr("--lanes"), HasSubstr("--ttl-min")));
}

TEST(Options, AMaximalLeaseBeyondTheTakeoverWindowIsRefused) {
  EXPECT_THAT(Refused(Serve({"--takeover-window=59m"})).text,
              AllOf(HasSubstr("lease.max_duration"), HasSubstr("--takeover-window")));
  (void)Parsed(Serve({"--takeover-window=1h"}));
}

TEST(Options, ConfigPrintNeedsNothingAndShowsWhatServeWouldUse) {
  const CommandLine line = Parsed({"config", "print", "--lanes=3"});
  EXPECT_EQ(line.command, Command::kConfigPrint);
  EXPECT_FALSE(line.json);
  EXPECT_EQ(FindSetting(line.effective, "lanes")->value, "3");
  EXPECT_TRUE(Parsed({"config", "print", "--format=json"}).json);
  EXPECT_EQ(Refused({"config", "print", "--format=xml"}).status, 2);
}

TEST(Options, ConfigValidateChecksWhatServeChecks) {
  EXPECT_EQ(Parsed({"config", "validate", "--insecure", "--durability=local", kUrl}).command,
            Command::kConfigValidate);
  EXPECT_THAT(Refused({"config", "validate", "--insecure", "--durability=local"}).text,
              HasSubstr("--database-url"));
  EXPECT_THAT(Refused({"config", "validate", kUrl, "--durability=local"}).text,
              HasSubstr("--insecure"));
  EXPECT_THAT(
      Refused({"config", "validate", kUrl, "--insecure", "--durability=local", "--ttl-max=23h"})
          .text,
      HasSubstr("ttl.default"));
}

TEST(Options, HealthcheckAsksWhereServeListens) {
  EXPECT_EQ(Parsed({"healthcheck"}).healthcheck.address, "127.0.0.1:50051");
  EXPECT_EQ(Parsed({"healthcheck"}, {{"IDEMPOTENCY_LISTEN", "0.0.0.0:7"}}).healthcheck.address,
            "127.0.0.1:7");
  EXPECT_EQ(Parsed({"healthcheck", "--listen=[::]:7"}).healthcheck.address, "[::1]:7");
  EXPECT_EQ(Parsed({"healthcheck", "--address=other:7"}).healthcheck.address, "other:7");
}

TEST(Options, HealthcheckNeedsAPort) {
  const ExitText refused = Refused({"healthcheck", "--listen=127.0.0.1:0"});
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.text, HasSubstr("--address"));
  EXPECT_EQ(Refused({"healthcheck", "--address=nowhere"}).status, 2);
}

TEST(Options, HealthcheckIsBounded) {
  EXPECT_EQ(Parsed({"healthcheck"}).healthcheck.timeout, absl::Seconds(3));
  EXPECT_EQ(Parsed({"healthcheck", "--timeout=100ms"}).healthcheck.timeout,
            absl::Milliseconds(100));
  EXPECT_EQ(Parsed({"healthcheck", "--timeout=1m"}).healthcheck.timeout, absl::Minutes(1));
  for (const std::string timeout : {"99ms", "61s", "inf", "soon"}) {
    EXPECT_THAT(Refused({"healthcheck", "--timeout=" + timeout}).text, HasSubstr("--timeout"));
  }
}

TEST(Options, DevListensOnLoopbackOnly) {
  EXPECT_EQ(Refused({"dev", "--listen=0.0.0.0:50051"}).status, 2);
  EXPECT_EQ(Refused({"dev", "--listen=127.evil.example:50051"}).status, 2);
  for (const char* address : {"127.0.0.1:1", "localhost:1", "[::1]:1"}) {
    EXPECT_EQ(Parsed({"dev", std::string("--listen=") + address}).settings.listen, address);
  }
}

TEST(Options, DevKnowsWhetherAnAddressWasAskedFor) {
  EXPECT_FALSE(Parsed({"dev"}).dev.is_listen_given);
  EXPECT_TRUE(Parsed({"dev", "--listen=127.0.0.1:50051"}).dev.is_listen_given);
}

TEST(Options, DevKeepsItsDataUnlessToldOtherwise) {
  EXPECT_FALSE(Parsed({"dev"}).dev.ephemeral);
  EXPECT_TRUE(Parsed({"dev", "--ephemeral"}).dev.ephemeral);
  EXPECT_EQ(Refused({"dev", "--ephemeral", "--directory=/tmp/x"}).status, 2);
}

TEST(Options, DevIsQuiet) {
  EXPECT_EQ(Parsed({"dev"}).settings.log_level, LogLevel::kWarn);
  EXPECT_EQ(Parsed({"dev", "--log-level=debug"}).settings.log_level, LogLevel::kDebug);
}

TEST(Options, MigrateAndVersionAreTheirOwn) {
  EXPECT_EQ(Parsed({"version"}).command, Command::kVersion);
  const CommandLine line = Parsed({"migrate", kUrl});
  EXPECT_EQ(line.command, Command::kMigrateUp);
  EXPECT_EQ(line.settings.database_url, "host=db password=hunter2");
}

}  // namespace
}  // namespace idempotency
