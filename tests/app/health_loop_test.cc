#include "server/app/health_loop.h"

#include <atomic>
#include <sstream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/record/fault.h"
#include "tests/util/eventually.h"
#include "tests/util/model_store.h"

namespace idempotency {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class HealthLoopTest : public testing::Test {
 protected:
  HealthLoopTest() : log_(To(&output_)) {}

  static LogOptions To(std::ostream* output) {
    LogOptions options;
    options.output = output;
    return options;
  }

  std::string Written() {
    log_.Stop();
    return output_.str();
  }

  ModelDatabase database_;
  std::ostringstream output_;
  Log log_;
};

TEST_F(HealthLoopTest, SaysWhatTheStoreSays) {
  std::vector<bool> said;
  HealthLoop loop(
      std::make_unique<ModelStore>(&database_),
      [&](const absl::Status& status) { said.push_back(status.ok()); }, &log_);
  loop.Step();
  database_.SetCheck(MakeFault(Fault::kStoreUnavailable, "away"));
  loop.Step();
  database_.SetCheck(MakeFault(Fault::kSchemaIncompatible, "version 9"));
  loop.Step();
  database_.SetCheck(absl::OkStatus());
  loop.Step();
  EXPECT_THAT(said, ElementsAre(true, false, false, true));
}

TEST_F(HealthLoopTest, LogsChangesOnly) {
  HealthLoop loop(
      std::make_unique<ModelStore>(&database_), [](const absl::Status&) {}, &log_);
  database_.SetCheck(MakeFault(Fault::kStoreUnavailable, "away"));
  for (int i = 0; i < 5; ++i) loop.Step();
  const std::string written = Written();
  EXPECT_THAT(written, HasSubstr("\"event\":\"not_serving\""));
  EXPECT_THAT(written, HasSubstr("away"));
  EXPECT_EQ(std::count(written.begin(), written.end(), '\n'), 1);
}

TEST_F(HealthLoopTest, ChecksByItselfOnceStarted) {
  std::atomic<int> checks{0};
  HealthLoop loop(
      std::make_unique<ModelStore>(&database_), [&](const absl::Status&) { ++checks; }, &log_);
  loop.Start();
  EXPECT_TRUE(Eventually([&] { return checks >= 2; }));
}

// "+" and "-" of database, schema and durability.
std::string Marks(const absl::Status& checked) {
  const CheckedParts parts = PartsOf(checked, "local");
  std::string marks;
  for (const ReadinessPart& part : {parts.database, parts.schema, parts.durability}) {
    marks += part.is_ok ? '+' : '-';
  }
  return marks;
}

TEST(PartsOf, EachFaultIsItsPartsAlone) {
  EXPECT_EQ(Marks(absl::OkStatus()), "+++");
  EXPECT_EQ(Marks(MakeFault(Fault::kSchemaIncompatible, "")), "+--");
  EXPECT_EQ(Marks(MakeFault(Fault::kNotDurable, "")), "++-");
  EXPECT_EQ(Marks(MakeFault(Fault::kStoreUnavailable, "")), "---");
  EXPECT_EQ(Marks(MakeFault(Fault::kInternal, "")), "---");
  EXPECT_EQ(Marks(absl::UnknownError("")), "---");
}

TEST(PartsOf, ShowsWhatOperatorsMaySeeAndNothingElse) {
  EXPECT_EQ(PartsOf(absl::OkStatus(), "local").durability.detail, "local");
  EXPECT_EQ(PartsOf(MakeFault(Fault::kSchemaIncompatible, "version 9"), "").schema.detail,
            "version 9");
  EXPECT_EQ(PartsOf(MakeFault(Fault::kNotDurable, "a setting"), "").durability.detail, "a setting");
  const CheckedParts away = PartsOf(MakeFault(Fault::kStoreUnavailable, "host db.internal"), "");
  for (const ReadinessPart& part : {away.database, away.schema, away.durability}) {
    EXPECT_THAT(part.detail, testing::Not(HasSubstr("db.internal")));
  }
}

}  // namespace
}  // namespace idempotency
