#include "server/app/configuration.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "server/app/config_docs.h"
#include "server/app/contradiction.h"
#include "server/app/setting_table.h"

namespace idempotency {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class ConfigurationTest : public testing::Test {
 protected:
  ConfigurationTest() {
    std::string path =
        (std::filesystem::temp_directory_path() / "idempotencyd-config-XXXXXX").string();
    EXPECT_NE(mkdtemp(path.data()), nullptr);
    directory_ = path;
  }
  ~ConfigurationTest() override { std::filesystem::remove_all(directory_); }

  std::string Write(const std::string& name, const std::string& content) const {
    const std::string path = absl::StrCat(directory_, "/", name);
    std::ofstream(path, std::ios::binary) << content;
    return path;
  }
  // With a configuration file of that content.
  Configuration FromFile(const std::string& content, const Environment& environment = {}) const {
    return Configure({}, {{"config", Write("c.toml", content)}}, environment);
  }
  static std::string Mistakes(const Configuration& configuration) {
    return absl::StrJoin(configuration.mistakes, "\n");
  }
  static EffectiveSetting Shown(const Configuration& configuration, const std::string& name) {
    const EffectiveSetting* const found = FindSetting(configuration.effective, name);
    EXPECT_NE(found, nullptr) << name;
    return found == nullptr ? EffectiveSetting() : *found;
  }
  static std::string Everything(const Configuration& configuration) {
    return absl::StrCat(Mistakes(configuration), EffectiveText(configuration.effective),
                        EffectiveJson(configuration.effective));
  }

  std::string directory_;
};

TEST(SettingTableTest, NamesAreNestedNounsAndMeetInNoFlagVariableOrFile) {
  Settings settings;
  std::set<std::string> flags;
  std::set<std::string> variables;
  const std::vector<SettingRow> table = SettingTable(&settings);
  for (const SettingRow& row : table) {
    SCOPED_TRACE(row.name);
    EXPECT_EQ(row.name.find_first_not_of("abcdefghijklmnopqrstuvwxyz_."), std::string::npos);
    EXPECT_TRUE(flags.insert(FlagOf(row.name)).second);
    EXPECT_TRUE(variables.insert(VariableOf(row.name)).second);
    for (const SettingRow& other : table) {
      EXPECT_FALSE(absl::StartsWith(other.name, absl::StrCat(row.name, ".")))
          << other.name << ": a name cannot be both a value and a table of the file";
    }
  }
}

TEST(SettingTableTest, EveryRowHasOneValueOneMeaningAndADefaultInItsBounds) {
  Settings settings;
  for (const SettingRow& row : SettingTable(&settings)) {
    SCOPED_TRACE(row.name);
    EXPECT_EQ((row.span != nullptr) + (row.size != nullptr) + (row.number != nullptr) +
                  (row.toggle != nullptr) + (row.level != nullptr) + (row.text != nullptr) +
                  !row.file_of.empty(),
              1);
    EXPECT_FALSE(row.meaning.empty());
    const std::string text = ValueText(row);
    if (text.empty()) continue;
    EXPECT_TRUE(SetFromText(row, text, /*unsafe=*/false).ok());
    EXPECT_EQ(ValueText(row), text);
  }
}

TEST(SettingTableTest, EveryBoundIsTakenAndOnePastItIsNot) {
  Settings settings;
  for (const SettingRow& row : SettingTable(&settings)) {
    SCOPED_TRACE(row.name);
    if (row.span != nullptr) {
      for (const absl::Duration bound : {row.shortest, row.longest}) {
        EXPECT_TRUE(SetFromText(row, absl::FormatDuration(bound), false).ok());
        EXPECT_EQ(*row.span, bound);
      }
      EXPECT_FALSE(SetFromText(row, absl::FormatDuration(row.shortest - row.unit), false).ok());
      EXPECT_FALSE(SetFromText(row, absl::FormatDuration(row.longest + row.unit), false).ok());
      EXPECT_FALSE(SetFromText(row, absl::FormatDuration(row.longest - row.unit / 2), false).ok());
    }
    if (row.size != nullptr || row.number != nullptr) {
      for (const int64_t bound : {row.lowest, row.highest}) {
        EXPECT_TRUE(SetFromText(row, absl::StrCat(bound), false).ok());
        EXPECT_EQ(ValueText(row), absl::StrCat(bound));
      }
      EXPECT_FALSE(SetFromText(row, absl::StrCat(row.lowest - 1), false).ok());
      EXPECT_FALSE(SetFromText(row, absl::StrCat(row.highest + 1), false).ok());
    }
  }
}

TEST(SettingTableTest, EverySecretHasAFile) {
  Settings settings;
  const std::vector<SettingRow> table = SettingTable(&settings);
  for (const SettingRow& row : table) {
    if (!row.is_secret) continue;
    EXPECT_TRUE(std::any_of(table.begin(), table.end(), [&](const SettingRow& other) {
      return other.file_of == row.name;
    })) << row.name;
  }
}

TEST(ConfigurationPageTest, IsThatOfTheTable) {
  std::ifstream file(IDEM_SOURCE_DIR "/docs/configuration.md", std::ios::binary);
  const std::string page(std::istreambuf_iterator<char>(file), {});
  EXPECT_EQ(page, ConfigurationPage()) << "run: idempotencyd config docs >docs/configuration.md";
}

TEST_F(ConfigurationTest, FlagGoesBeforeEnvironmentBeforeFileBeforeDefault) {
  const std::string path = Write("c.toml",
                                 "lanes = 3\n[queue]\nmax_items = 100\nmax_bytes = "
                                 "33554432\n");
  const Configuration all =
      Configure({}, {{"config", path}, {"lanes", "5"}},
                {{"IDEMPOTENCY_LANES", "4"}, {"IDEMPOTENCY_QUEUE_MAX_ITEMS", "200"}});
  EXPECT_THAT(all.mistakes, IsEmpty());
  EXPECT_EQ(all.settings.engine.lanes, 5);
  EXPECT_EQ(Shown(all, "lanes").source, "flag --lanes");
  EXPECT_EQ(all.settings.engine.queue_max_items, 200u);
  EXPECT_EQ(Shown(all, "queue.max_items").source, "environment IDEMPOTENCY_QUEUE_MAX_ITEMS");
  EXPECT_EQ(all.settings.engine.queue_max_bytes, 33554432u);
  EXPECT_EQ(Shown(all, "queue.max_bytes").source, absl::StrCat("file ", path, ":4"));
  EXPECT_EQ(Shown(all, "batch.max_items").source, "default");
  EXPECT_EQ(Shown(all, "batch.max_items").value, "256");
}

TEST_F(ConfigurationTest, EverySettingIsTakenFromTheFile) {
  Settings defaults;
  for (const SettingRow& row : SettingTable(&defaults)) {
    SCOPED_TRACE(row.name);
    if (!row.in_file || !row.file_of.empty()) continue;
    std::string text = ValueText(row);
    if (row.name == "durability") text = "local";
    if (row.name == "database.url") text = "host=db";
    if (text.empty()) continue;
    const bool is_quoted = row.size == nullptr && row.number == nullptr && row.toggle == nullptr;
    const std::string quote = is_quoted ? "\"" : "";
    const Configuration all = FromFile(absl::StrCat(row.name, " = ", quote, text, quote, "\n"));
    EXPECT_EQ(Mistakes(all), "");
    EXPECT_EQ(Shown(all, row.name).value, text);
    EXPECT_THAT(Shown(all, row.name).source, HasSubstr("c.toml:1"));
  }
}

TEST_F(ConfigurationTest, TheFileIsNamedByFlagOrEnvironment) {
  const std::string path = Write("c.toml", "lanes = 3\n");
  EXPECT_EQ(Configure({}, {}, {{"IDEMPOTENCY_CONFIG", path}}).settings.engine.lanes, 3);
  EXPECT_THAT(Mistakes(FromFile("config = \"other.toml\"\n")),
              AllOf(HasSubstr("config"), HasSubstr("c.toml:1")));
}

TEST_F(ConfigurationTest, AnEmptyVariableCountsAsNotSet) {
  const Configuration all = FromFile("lanes = 3\n", {{"IDEMPOTENCY_LANES", ""}});
  EXPECT_EQ(Mistakes(all), "");
  EXPECT_EQ(all.settings.engine.lanes, 3);
}

TEST_F(ConfigurationTest, AnEmptyTextInTheFileIsRefused) {
  EXPECT_THAT(Mistakes(FromFile("listen = \"\"\n")),
              AllOf(HasSubstr("listen"), HasSubstr("c.toml:1"), HasSubstr("empty")));
}

TEST_F(ConfigurationTest, AnUnknownVariableIsRefusedByName) {
  EXPECT_THAT(Configure({}, {}, {{"IDEMPOTENCY_LANE", "3"}, {"OTHER", "x"}}).mistakes,
              ElementsAre(HasSubstr("IDEMPOTENCY_LANE ")));
  EXPECT_THAT(Configure({}, {}, {{"IDEMPOTENCY_UNSAFE_TEST_BOUNDS", "true"}}).mistakes,
              ElementsAre(HasSubstr("IDEMPOTENCY_UNSAFE_TEST_BOUNDS")));
}

TEST_F(ConfigurationTest, VariablesOfOthersThatBeginAlikeAreLetThrough) {
  EXPECT_THAT(Configure({}, {},
                        {{"IDEMPOTENCY_GRPCURL", "/x"},
                         {"IDEMPOTENCY_SERVICE_HOST", "10.0.0.1"},
                         {"IDEMPOTENCY_SERVICE_PORT", "50051"},
                         {"IDEMPOTENCY_SERVICE_PORT_GRPC", "50051"},
                         {"IDEMPOTENCY_PORT", "tcp://10.0.0.1:50051"},
                         {"IDEMPOTENCY_PORT_50051_TCP", "tcp://10.0.0.1:50051"},
                         {"IDEMPOTENCY_PORT_50051_TCP_ADDR", "10.0.0.1"},
                         {"IDEMPOTENCY_CANARY_SERVICE_HOST", "10.0.0.2"}})
                  .mistakes,
              IsEmpty());
}

TEST_F(ConfigurationTest, AnUnknownNameInTheFileIsRefusedWithItsLine) {
  EXPECT_THAT(Mistakes(FromFile("lanes = 3\n\n[queue]\nmax_item = 3\n")),
              AllOf(HasSubstr("queue.max_item "), HasSubstr("c.toml:4")));
  EXPECT_THAT(Mistakes(FromFile("[quue]\n")), HasSubstr("quue"));
  EXPECT_EQ(Mistakes(FromFile("[queue]\n")), "");
}

TEST_F(ConfigurationTest, AWrongTypeInTheFileIsRefusedWithTheRightOne) {
  EXPECT_THAT(Mistakes(FromFile("lanes = \"3\"\n")),
              AllOf(HasSubstr("lanes"), HasSubstr("c.toml:1"), HasSubstr("without quotes")));
  EXPECT_THAT(Mistakes(FromFile("lanes = 3.0\n")), HasSubstr("whole number"));
  EXPECT_THAT(Mistakes(FromFile("lanes = [3]\n")), HasSubstr("whole number"));
  EXPECT_THAT(Mistakes(FromFile("insecure = 1\n")), HasSubstr("true or false"));
  EXPECT_THAT(Mistakes(FromFile("skew_margin = 2\n")), HasSubstr("in quotes"));
  EXPECT_THAT(Mistakes(FromFile("[listen]\nx = 1\n")), HasSubstr("listen.x"));
  EXPECT_THAT(Mistakes(FromFile("[listen]\n")), HasSubstr("in quotes"));
}

TEST_F(ConfigurationTest, AnOutOfBoundsValueInTheFileIsRefusedWithLineAndBound) {
  EXPECT_THAT(Mistakes(FromFile("lanes = 65\n")),
              AllOf(HasSubstr("lanes"), HasSubstr("c.toml:1"), HasSubstr("1 to 64")));
}

TEST_F(ConfigurationTest, ADatabaseUrlIsShownWithoutItsPasswords) {
  for (const std::string url :
       {"postgresql://u:hunter2@h/db?sslpassword=hunter2",
        "postgres://h/db?user=u&password=hunter2", "host=h user=u dbname=db password=hunter2",
        "host=h user=u dbname=db password='hunter2 x'", "postgresql://u:hunter%32@h/db"}) {
    const Configuration all = Configure({}, {{"database.url", url}}, {});
    EXPECT_EQ(Mistakes(all), "");
    EXPECT_EQ(all.settings.database_url, url);
    EXPECT_THAT(Shown(all, "database.url").value,
                AllOf(HasSubstr("host=h"), HasSubstr("user=u"), HasSubstr("password=****")));
    EXPECT_THAT(Everything(all), AllOf(Not(HasSubstr("hunter")), Not(HasSubstr(" x "))));
  }
}

TEST_F(ConfigurationTest, ADatabaseUrlThatCannotBeParsedIsRefusedAndNotRepeated) {
  for (const std::string url : {"hunter2", "postgres://u:hunter2@[h/db", "host=h hunter2"}) {
    const Configuration all = Configure({}, {{"database.url", url}}, {});
    EXPECT_THAT(Mistakes(all), HasSubstr("database.url (flag --database-url)"));
    EXPECT_THAT(Everything(all), Not(HasSubstr("hunter2")));
  }
}

TEST_F(ConfigurationTest, ASecretIsTakenFromAFileWithoutItsLastNewline) {
  for (const std::string end : {"", "\n", "\r\n"}) {
    const std::string path = Write("url", "host=db password=hunter2" + end);
    const Configuration all = Configure({}, {{"database.url_file", path}}, {});
    EXPECT_EQ(Mistakes(all), "");
    EXPECT_EQ(all.settings.database_url, "host=db password=hunter2");
    EXPECT_EQ(Shown(all, "database.url").value, "****");
    EXPECT_THAT(Shown(all, "database.url").source,
                AllOf(HasSubstr(path), HasSubstr("--database-url-file")));
    EXPECT_EQ(Shown(all, "database.url_file").value, path);
    EXPECT_THAT(Everything(all), AllOf(Not(HasSubstr("hunter2")), Not(HasSubstr("host=db"))));
    EXPECT_THAT(CheckFor(kMigrateCommand, all), IsEmpty());
  }
}

TEST_F(ConfigurationTest, ASecretsFileMayBeNamedByVariableAndByFile) {
  const std::string path = Write("url", "host=db\n");
  EXPECT_EQ(Configure({}, {}, {{"IDEMPOTENCY_DATABASE_URL_FILE", path}}).settings.database_url,
            "host=db");
  EXPECT_EQ(FromFile(absl::StrCat("[database]\nurl_file = \"", path, "\"\n")).settings.database_url,
            "host=db");
}

TEST_F(ConfigurationTest, ASecretAndItsFileTogetherAreRefused) {
  const std::string path = Write("url", "host=db\n");
  const Configuration all =
      Configure({}, {{"database.url", "host=h"}}, {{"IDEMPOTENCY_DATABASE_URL_FILE", path}});
  EXPECT_THAT(Mistakes(all),
              AllOf(HasSubstr("IDEMPOTENCY_DATABASE_URL_FILE"), HasSubstr("--database-url")));
}

TEST_F(ConfigurationTest, ASecretsFileThatHoldsNoneIsRefusedAndNotRepeated) {
  EXPECT_THAT(Mistakes(Configure({}, {{"database.url_file", directory_ + "/none"}}, {})),
              AllOf(HasSubstr("database.url_file"), HasSubstr("No such file")));
  EXPECT_THAT(Mistakes(Configure({}, {{"database.url_file", directory_}}, {})),
              HasSubstr("cannot be read"));
  for (const std::string content : {"", "\n"}) {
    EXPECT_THAT(Mistakes(Configure({}, {{"database.url_file", Write("url", content)}}, {})),
                HasSubstr("empty"));
  }
  for (const std::string& content :
       {std::string("hunter2"), std::string("host=h password=hunter2\0x", 25)}) {
    const Configuration all = Configure({}, {{"database.url_file", Write("url", content)}}, {});
    EXPECT_THAT(Mistakes(all), HasSubstr("database.url"));
    EXPECT_THAT(Everything(all), Not(HasSubstr("hunter2")));
  }
}

TEST_F(ConfigurationTest, ASecretsFileHasABound) {
  const std::string start = "host=db dbname=";
  const std::string longest = start + std::string(16 * 1024 - start.size(), 'x');
  EXPECT_EQ(Mistakes(Configure({}, {{"database.url_file", Write("url", longest)}}, {})), "");
  EXPECT_THAT(Mistakes(Configure({}, {{"database.url_file", Write("url", longest + "x")}}, {})),
              HasSubstr("16384"));
}

TEST_F(ConfigurationTest, LibpqsVariablesNameADatabase) {
  for (const std::string variable :
       {"PGSERVICE", "PGHOST", "PGHOSTADDR", "PGPORT", "PGDATABASE", "PGUSER"}) {
    const Configuration all = Configure({}, {}, {{variable, "x"}, {"PGPASSWORD", "hunter2"}});
    EXPECT_THAT(CheckFor(kMigrateCommand, all), IsEmpty());
    EXPECT_EQ(all.settings.database_url, "");
    EXPECT_EQ(Shown(all, "database.url").source, "environment " + variable);
    EXPECT_THAT(Everything(all), Not(HasSubstr("hunter2")));
  }
}

TEST_F(ConfigurationTest, OtherVariablesOfLibpqsNameNoDatabase) {
  const Configuration all = Configure(
      {}, {}, {{"PGPASSFILE", "x"}, {"PGSSLMODE", "require"}, {"PGPASSWORD", "x"}, {"PGHOST", ""}});
  EXPECT_THAT(CheckFor(kMigrateCommand, all),
              ElementsAre(AllOf(HasSubstr("database.url"), HasSubstr("PGHOST"))));
}

TEST_F(ConfigurationTest, TheViewHasEveryRowOnceInItsOrder) {
  const Configuration all = Configure({}, {}, {});
  Settings settings;
  const std::vector<SettingRow> table = SettingTable(&settings);
  ASSERT_EQ(all.effective.size(), table.size());
  for (size_t i = 0; i < table.size(); ++i) EXPECT_EQ(all.effective[i].name, table[i].name);
}

TEST_F(ConfigurationTest, TheJsonViewHoldsNamesValuesAndSources) {
  const auto json = nlohmann::json::parse(
      EffectiveJson(Configure({}, {{"lanes", "3"}, {"config", ""}}, {}).effective));
  ASSERT_TRUE(json["settings"].is_array());
  bool is_found = false;
  for (const auto& setting : json["settings"]) {
    if (setting["name"] != "lanes") continue;
    is_found = true;
    EXPECT_EQ(setting["value"], "3");
    EXPECT_EQ(setting["source"], "flag --lanes");
  }
  EXPECT_TRUE(is_found);
}

TEST_F(ConfigurationTest, TestBoundsAreByFlagOnly) {
  EXPECT_EQ(Mistakes(Configure({}, {{"unsafe_test_bounds", "true"}, {"ttl.min", "1s"}}, {})), "");
  EXPECT_THAT(Mistakes(FromFile("unsafe_test_bounds = true\n")), HasSubstr("cannot be set"));
}

}  // namespace
}  // namespace idempotency
