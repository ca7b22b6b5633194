// The reader that the other tests rely on finds what it is there to find.
#include "tests/ops/strict_exposition.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace idempotency {
namespace {

using testing::IsEmpty;
using testing::Not;

TEST(StrictExposition, TakesWhatIsRight) {
  const ParsedExposition parsed = ParseStrictly(
      "# HELP a_total about a\n# TYPE a_total counter\na_total{x=\"1\"} 2\na_total{x=\"2\"} 3e+06\n"
      "# HELP b about b\n# TYPE b gauge\nb -4.5\n"
      "# HELP c_seconds about c\n# TYPE c_seconds histogram\n"
      "c_seconds_count{k=\"v\"} 3\nc_seconds_sum{k=\"v\"} 1.5\n"
      "c_seconds_bucket{k=\"v\",le=\"1\"} 2\nc_seconds_bucket{k=\"v\",le=\"+Inf\"} 3\n");
  EXPECT_THAT(parsed.mistakes, IsEmpty());
  EXPECT_EQ(parsed.Value("a_total{x=\"2\"}"), 3e6);
  EXPECT_EQ(parsed.Value("b"), -4.5);
  EXPECT_EQ(parsed.Value("a_total"), -1) << "no such series";
}

TEST(StrictExposition, FindsEachMistake) {
  const char* const kWrong[] = {
      "# HELP a_total x\n# TYPE a_total counter\na_total 1",
      "# HELP a_total x\n# TYPE a_total counter\na_total one\n",
      "# HELP a_total x\n# TYPE a_total counter\na_total{x=1} 1\n",
      "# HELP a_total x\n# TYPE a_total counter\na_total -1\n",
      "# HELP a_total x\n# TYPE a_total counter\na_total 1\na_total 2\n",
      "# HELP a_total x\n# TYPE a_total counter\nb_total 1\n",
      "# HELP a_total x\n# TYPE a_total counter\n",
      "# HELP a_total x\n# TYPE a_total counter\na_total{x=\"1\",x=\"2\"} 1\n",
      "# HELP a_total x\n# TYPE a_total counter\na_total{__x=\"1\"} 1\n",
      "# HELP a_total x\n# TYPE a_total counter\na_total{x=\"\"} 1\n",
      "# HELP a_total \n# TYPE a_total counter\na_total 1\n",
      "# TYPE a_total counter\na_total 1\n",
      "# HELP a_total x\na_total 1\n",
      "# HELP a x\n# TYPE a counter\na 1\n",
      "# HELP a_total x\n# TYPE a_total gauge\na_total 1\n",
      "# HELP a x\n# TYPE a untyped\na 1\n",
      "# HELP a_ms x\n# TYPE a_ms gauge\na_ms 1\n",
      "# HELP 1a x\n# TYPE 1a gauge\n1a 1\n",
      // NOLINTNEXTLINE(bugprone-suspicious-missing-comma): one text in two lines.
      "# HELP a x\n# TYPE a gauge\na 1\n# HELP b x\n# TYPE b gauge\nb 1\n"
      "# HELP a x\n# TYPE a gauge\na{x=\"1\"} 1\n",
      "# HELP a x\n# TYPE a gauge\n\na 1\n",
      "# HELP a x\n# TYPE a histogram\na_sum 1\na_count 1\na_bucket{le=\"1\"} 1\n",
      "# HELP a x\n# TYPE a histogram\na_sum 1\na_count 2\na_bucket{le=\"+Inf\"} 1\n",
      "# HELP a x\n# TYPE a histogram\na_count 1\na_bucket{le=\"+Inf\"} 1\n",
      "# HELP a x\n# TYPE a histogram\na_sum 1\na_count 1\na_bucket{le=\"1\"} 2\n"
      "a_bucket{le=\"+Inf\"} 1\n",
      "# HELP a x\n# TYPE a histogram\na_sum 1\na_count 1\na_bucket{le=\"2\"} 0\n"
      "a_bucket{le=\"1\"} 0\na_bucket{le=\"+Inf\"} 1\n",
      "# HELP a x\n# TYPE a histogram\na_sum 1\na_count 1\na_bucket 1\n",
  };
  for (const char* const wrong : kWrong) {
    EXPECT_THAT(ParseStrictly(wrong).mistakes, Not(IsEmpty())) << wrong;
  }
}

}  // namespace
}  // namespace idempotency
