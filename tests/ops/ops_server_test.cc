#include "server/ops/ops_server.h"

#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/ops/raw_client.h"
#include "tests/ops/strict_exposition.h"
#include "tests/util/fake_clock.h"

namespace idempotency {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

class OpsServerTest : public testing::Test {
 protected:
  OpsServerTest() {
    OpsOptions options;
    options.address = "127.0.0.1:0";
    options.build = {"1.2.3", "abc"};
    options.oldest_schema = 1;
    options.newest_schema = 2;
    options.settings = {{"listen", "0.0.0.0:50051", "flag"},
                        {"database_url", "(hidden)", "environment"},
                        {"odd", "a \"quote\" and \xff", "default"}};
    absl::StatusOr<std::unique_ptr<OpsServer>> server =
        OpsServer::Start(options, &metrics_, &readiness_);
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  HttpReply GetPage(absl::string_view target) { return Get(server_->port(), target); }

  FakeClock clock_;
  Metrics metrics_;
  Readiness readiness_{&clock_};
  std::unique_ptr<OpsServer> server_;
};

TEST_F(OpsServerTest, LivezAsksNothing) {
  EXPECT_EQ(GetPage("/livez").status, 200);
  readiness_.SetDraining();
  EXPECT_EQ(GetPage("/livez").status, 200);
  EXPECT_EQ(GetPage("/livez").body, "ok\n");
}

TEST_F(OpsServerTest, ReadyzFollowsReadiness) {
  EXPECT_EQ(GetPage("/readyz").status, 503);
  readiness_.SetChecked({{true, ""}, {true, ""}, {true, "local"}});
  EXPECT_EQ(GetPage("/readyz").status, 200);
  EXPECT_EQ(GetPage("/readyz").body, "ok\n");
  readiness_.SetChecked({{true, ""}, {false, "version 9"}, {true, "local"}});
  EXPECT_EQ(GetPage("/readyz").status, 503);
  EXPECT_EQ(GetPage("/readyz").body, "not ready: schema\n");
  EXPECT_EQ(GetPage("/readyz?verbose").status, 503);
  EXPECT_THAT(GetPage("/readyz?verbose").body, HasSubstr("[-]schema failed: version 9\n"));
  EXPECT_THAT(GetPage("/readyz?verbose").body, HasSubstr("[+]database ok\n"));
}

TEST_F(OpsServerTest, MetricsAreTheExposition) {
  const HttpReply reply = GetPage("/metrics");
  EXPECT_EQ(reply.status, 200);
  EXPECT_THAT(reply.head, HasSubstr("Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n"));
  const ParsedExposition parsed = ParseStrictly(reply.body);
  EXPECT_THAT(parsed.mistakes, IsEmpty());
  EXPECT_EQ(parsed.Value("idempotency_build_info{version=\"1.2.3\",commit=\"abc\"}"), 1);
}

TEST_F(OpsServerTest, VersionNamesBuildAndSchemas) {
  const HttpReply reply = GetPage("/version");
  EXPECT_THAT(reply.head, HasSubstr("Content-Type: application/json\r\n"));
  const auto json = nlohmann::json::parse(reply.body);
  EXPECT_EQ(json["version"], "1.2.3");
  EXPECT_EQ(json["commit"], "abc");
  EXPECT_EQ(json["oldest_schema"], 1);
  EXPECT_EQ(json["newest_schema"], 2);
}

TEST_F(OpsServerTest, SettingsAreListedWithTheirSources) {
  const auto json = nlohmann::json::parse(GetPage("/settings").body);
  ASSERT_EQ(json["settings"].size(), 3u);
  EXPECT_EQ(json["settings"][0]["name"], "listen");
  EXPECT_EQ(json["settings"][0]["value"], "0.0.0.0:50051");
  EXPECT_EQ(json["settings"][0]["source"], "flag");
  EXPECT_EQ(json["settings"][1]["value"], "(hidden)");
}

TEST_F(OpsServerTest, IndexNamesEveryPage) {
  const std::string index = GetPage("/").body;
  for (const char* const page :
       {"/livez", "/readyz", "/readyz?verbose", "/metrics", "/version", "/settings"}) {
    EXPECT_THAT(index, HasSubstr(page));
    EXPECT_NE(GetPage(page).status, 404) << page;
  }
}

}  // namespace
}  // namespace idempotency
