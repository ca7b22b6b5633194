// The implementations of Store that the conformance suite runs on.

#include <gtest/gtest.h>

#include "tests/store/postgres_subject.h"
#include "tests/store/store_conformance.h"
#include "tests/util/model_store.h"

namespace idempotency {
namespace {

// The reference model, so that the oracle of the other suites is held to the same contract.
class ModelSubject : public StoreSubject {
 public:
  explicit ModelSubject(const Policy& policy) : database_(policy) {}

  std::unique_ptr<Store> Connect() override { return std::make_unique<ModelStore>(&database_); }
  absl::Time Now() override { return database_.Now(); }
  void AdvanceClock(absl::Duration by) override { database_.AdvanceClock(by); }
  void JumpClock(absl::Duration by) override { database_.JumpClock(by); }

 private:
  ModelDatabase database_;
};

template <typename Subject>
std::unique_ptr<StoreSubject> Make(const Policy& policy) {
  return std::make_unique<Subject>(policy);
}

}  // namespace

std::vector<StoreImplementation> StoreImplementations() {
  return {{"Model", Make<ModelSubject>}, {"Postgres", Make<PostgresSubject>}};
}

INSTANTIATE_TEST_SUITE_P(All, StoreConformance, ::testing::ValuesIn(StoreImplementations()),
                         ImplementationName);

}  // namespace idempotency
