#include "server/store/postgres/sqlstate.h"

#include <gtest/gtest.h>

namespace idempotency {
namespace {

struct Case {
  const char* sqlstate;
  ErrorKind kind;
};

void PrintTo(const Case& test, std::ostream* out) { *out << test.sqlstate; }

class SqlStateTest : public ::testing::TestWithParam<Case> {};

TEST_P(SqlStateTest, MeansToTheBatch) {
  EXPECT_EQ(KindOfSqlState(GetParam().sqlstate), GetParam().kind);
}

INSTANTIATE_TEST_SUITE_P(RunAgain, SqlStateTest,
                         ::testing::Values(Case{"40001", ErrorKind::kRunAgain},
                                           Case{"40P01", ErrorKind::kRunAgain},
                                           Case{"40000", ErrorKind::kRunAgain},
                                           Case{"40002", ErrorKind::kRunAgain},
                                           Case{"57014", ErrorKind::kRunAgain}));

INSTANTIATE_TEST_SUITE_P(LockTimeout, SqlStateTest,
                         ::testing::Values(Case{"55P03", ErrorKind::kLockTimeout}));

INSTANTIATE_TEST_SUITE_P(
    Item, SqlStateTest,
    ::testing::Values(Case{"22021", ErrorKind::kItem},    // invalid UTF-8
                      Case{"22P03", ErrorKind::kItem},    // bad binary value
                      Case{"22001", ErrorKind::kItem},    // too long
                      Case{"22008", ErrorKind::kItem},    // timestamp out of range
                      Case{"23502", ErrorKind::kItem},    // NOT NULL
                      Case{"23505", ErrorKind::kItem},    // unique
                      Case{"23514", ErrorKind::kItem},    // CHECK
                      Case{"44000", ErrorKind::kItem},    // WITH CHECK OPTION
                      Case{"54000", ErrorKind::kItem},    // index row too large
                      Case{"P0001", ErrorKind::kItem},    // raised by a trigger
                      Case{"XX001", ErrorKind::kItem}));  // one row is corrupted

INSTANTIATE_TEST_SUITE_P(PrepareAgain, SqlStateTest,
                         ::testing::Values(Case{"26000", ErrorKind::kPrepareAgain},
                                           Case{"0A000", ErrorKind::kPrepareAgain}));

INSTANTIATE_TEST_SUITE_P(SharedSession, SqlStateTest,
                         ::testing::Values(Case{"42P05", ErrorKind::kSharedSession}));

INSTANTIATE_TEST_SUITE_P(
    Schema, SqlStateTest,
    ::testing::Values(Case{"42P01", ErrorKind::kSchema}, Case{"42703", ErrorKind::kSchema},
                      Case{"42883", ErrorKind::kSchema}, Case{"42704", ErrorKind::kSchema},
                      Case{"42804", ErrorKind::kSchema}, Case{"3F000", ErrorKind::kSchema}));

INSTANTIATE_TEST_SUITE_P(
    Unavailable, SqlStateTest,
    ::testing::Values(Case{"25006", ErrorKind::kUnavailable},    // read-only
                      Case{"25P02", ErrorKind::kUnavailable},    // failed transaction
                      Case{"25P03", ErrorKind::kUnavailable},    // idle in transaction
                      Case{"42501", ErrorKind::kUnavailable},    // no privilege
                      Case{"53000", ErrorKind::kUnavailable},    // insufficient resources
                      Case{"53100", ErrorKind::kUnavailable},    // disk full
                      Case{"53200", ErrorKind::kUnavailable},    // out of memory
                      Case{"53300", ErrorKind::kUnavailable},    // too many connections
                      Case{"57P01", ErrorKind::kUnavailable},    // shutdown
                      Case{"57P02", ErrorKind::kUnavailable},    // another backend crashed
                      Case{"57P03", ErrorKind::kUnavailable},    // starting up
                      Case{"57P05", ErrorKind::kUnavailable},    // idle session
                      Case{"58030", ErrorKind::kUnavailable},    // I/O error
                      Case{"F0000", ErrorKind::kUnavailable}));  // configuration file

INSTANTIATE_TEST_SUITE_P(Lost, SqlStateTest,
                         ::testing::Values(Case{"08000", ErrorKind::kLost},
                                           Case{"08006", ErrorKind::kLost},
                                           Case{"08007", ErrorKind::kLost},
                                           Case{"08P01", ErrorKind::kLost},
                                           Case{"40003", ErrorKind::kLost}));

INSTANTIATE_TEST_SUITE_P(Unknown, SqlStateTest,
                         ::testing::Values(Case{"", ErrorKind::kItem}, Case{"08", ErrorKind::kItem},
                                           Case{"400011", ErrorKind::kItem},
                                           Case{"ZZ999", ErrorKind::kItem},
                                           Case{"42601", ErrorKind::kItem},
                                           Case{"00000", ErrorKind::kItem}));

TEST(SqlStateWarning, CastsDoubtWhenACommitWasNotWaitedFor) {
  EXPECT_TRUE(IsWarningOfDoubt("01000", "syncrep.c"));  // the wait was cancelled
  EXPECT_TRUE(IsWarningOfDoubt("57P01", "syncrep.c"));  // the session was terminated in the wait
  EXPECT_TRUE(IsWarningOfDoubt("57014", "postgres.c"));
}

TEST(SqlStateWarning, IsHarmlessOtherwise) {
  EXPECT_FALSE(IsWarningOfDoubt("01000", "pl_exec.c"));  // a trigger's RAISE WARNING
  EXPECT_FALSE(IsWarningOfDoubt("25P01", "xact.c"));
  EXPECT_FALSE(IsWarningOfDoubt("", ""));
  EXPECT_FALSE(IsWarningOfDoubt("57", ""));
}

}  // namespace
}  // namespace idempotency
