#include "server/store/postgres/conninfo.h"

#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace idempotency {
namespace {

using testing::AnyOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Key;
using testing::Not;
using testing::Pair;

// An environment variable for the length of a test.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    setenv(name, value.c_str(), 1);
  }
  ~Variable() { unsetenv(name_); }

 private:
  const char* const name_;
};

TEST(Conninfo, BothFormsOfLibpqAreTaken) {
  EXPECT_TRUE(CheckConninfo("postgresql://u:p@h1:1,h2:2/db?target_session_attrs=any").ok());
  EXPECT_TRUE(CheckConninfo("host=h1,h2 dbname='a b'").ok());
}

TEST(Conninfo, OtherTextsAreRefusedAndNotRepeated) {
  for (const std::string text : {"hunter2", "postgres://[hunter2", "nonsense=hunter2"}) {
    const absl::Status status = CheckConninfo(text);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(status.message()), Not(HasSubstr("hunter2")));
    EXPECT_EQ(MaskedConninfo(text), "****");
  }
}

TEST(Conninfo, MaskedShowsAllButThePasswords) {
  EXPECT_EQ(MaskedConninfo("host=h password=hunter2 dbname='it''s'"), "****");
  const std::string masked =
      MaskedConninfo("host=h password=hunter2 sslpassword=hunter3 dbname='it\\'s \\\\'");
  EXPECT_THAT(masked, HasSubstr("password=****"));
  EXPECT_THAT(masked, HasSubstr("sslpassword=****"));
  EXPECT_THAT(masked, HasSubstr("host=h"));
  EXPECT_THAT(masked, HasSubstr("dbname='it\\'s \\\\'"));
  EXPECT_THAT(masked, Not(HasSubstr("hunter")));
  // It can be read again.
  EXPECT_TRUE(CheckConninfo(masked).ok());
}

TEST(Conninfo, NothingIsSetOutsideByDefault) {
  EXPECT_THAT(ValuesSetOutside("host=h user=u dbname=d"),
              Not(Contains(Key(AnyOf("connect_timeout", "target_session_attrs", "keepalives",
                                     "tcp_user_timeout")))));
}

TEST(Conninfo, VariablesSetKeywordsOutsideUnlessTheStringSaysThem) {
  const Variable timeout("PGCONNECT_TIMEOUT", "9");
  const Variable attributes("PGTARGETSESSIONATTRS", "primary");
  EXPECT_THAT(ValuesSetOutside("host=h"), Contains(Pair("connect_timeout", "9")));
  EXPECT_THAT(ValuesSetOutside("host=h"), Contains(Pair("target_session_attrs", "primary")));
  EXPECT_THAT(ValuesSetOutside("host=h connect_timeout=3"), Not(Contains(Key("connect_timeout"))));
}

TEST(Conninfo, AServiceFileSetsKeywordsOutside) {
  const std::string path =
      (std::filesystem::temp_directory_path() / absl::StrCat("idempotencyd-service-", getpid()))
          .string();
  std::ofstream(path) << "[mine]\nhost=h\nkeepalives_idle=77\nconnect_timeout=8\n";
  const Variable file("PGSERVICEFILE", path);
  EXPECT_THAT(ValuesSetOutside("service=mine"), Contains(Pair("keepalives_idle", "77")));
  EXPECT_THAT(ValuesSetOutside("service=mine"), Contains(Pair("connect_timeout", "8")));
  {
    const Variable service("PGSERVICE", "mine");
    EXPECT_THAT(ValuesSetOutside(""), Contains(Pair("connect_timeout", "8")));
  }
  EXPECT_THAT(ValuesSetOutside(""), Not(Contains(Key("connect_timeout"))));
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace idempotency
