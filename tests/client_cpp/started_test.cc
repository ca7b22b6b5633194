// What has to be in a `started` for the work to run.
#include <string>

#include "gtest/gtest.h"
#include "tests/client_cpp/client_fixture.h"
#include "tests/util/eventually.h"

namespace idempotency::client {
namespace {

struct PartOfAStart {
  const char* name;
  void (*spoil)(v1::BeginResponse*);
};

class StartThatIsNotWhole : public ClientTest, public testing::WithParamInterface<PartOfAStart> {};

TEST_P(StartThatIsNotWhole, RunsNothingAndFreesTheKey) {
  proxy_.Next("Begin", Changing<v1::BeginResponse>(GetParam().spoil));
  const auto client = NewClient();
  const auto error =
      ResultAs<Error>(client->RunOnce(key_, PaymentOf(), OnLeaseExpiry::kTakeOver, MustNotRun));
  EXPECT_EQ(error.kind, ErrorKind::kInternal);
  EXPECT_FALSE(error.work.has_value());
  EXPECT_TRUE(Eventually([&] { return IsState(v1::RECORD_STATE_RELEASED); }));
}

INSTANTIATE_TEST_SUITE_P(
    Parts, StartThatIsNotWhole,
    testing::Values(
        PartOfAStart{"Lease",
                     [](auto* begun) { begun->mutable_started()->clear_lease_remaining(); }},
        PartOfAStart{"RecordId", [](auto* begun) { begun->clear_record_id(); }},
        PartOfAStart{"AttemptNumber",
                     [](auto* begun) { begun->mutable_started()->clear_attempt_number(); }},
        PartOfAStart{"NegativeAttemptNumber",
                     [](auto* begun) { begun->mutable_started()->set_attempt_number(-1); }},
        PartOfAStart{"DownstreamKey",
                     [](auto* begun) { begun->mutable_started()->clear_downstream_key(); }},
        PartOfAStart{
            "ShortDownstreamKey",
            [](auto* begun) { begun->mutable_started()->mutable_downstream_key()->pop_back(); }}),
    [](const auto& each) { return std::string(each.param.name); });

}  // namespace
}  // namespace idempotency::client
