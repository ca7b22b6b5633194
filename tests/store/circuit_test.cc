#include "server/store/postgres/circuit.h"

#include <gtest/gtest.h>

namespace idempotency {
namespace {

TEST(Circuit, IsClosedAtFirst) {
  Metrics metrics;
  const Circuit circuit(&metrics);
  EXPECT_FALSE(circuit.IsOpen());
  EXPECT_EQ(circuit.Reason(), "");
  EXPECT_EQ(metrics.Value(Metric::kCircuitOpen), 0);
}

TEST(Circuit, CountsAnOpeningOnceHoweverManyReasonsCome) {
  Metrics metrics;
  Circuit circuit(&metrics);
  circuit.Open("one");
  circuit.Open("two");
  EXPECT_TRUE(circuit.IsOpen());
  EXPECT_EQ(circuit.Reason(), "two");
  EXPECT_EQ(metrics.Value(Metric::kCircuitOpen), 1);
  EXPECT_EQ(metrics.Value(Metric::kCircuitOpened), 1);
}

TEST(Circuit, StaysOpenWhenAReasonCameAfterTheProbeWasSent) {
  Metrics metrics;
  Circuit circuit(&metrics);
  circuit.Open("one");
  const uint64_t openings = circuit.Openings();
  circuit.Open("two");
  circuit.CloseUnlessOpenedSince(openings);
  EXPECT_TRUE(circuit.IsOpen());
  circuit.CloseUnlessOpenedSince(circuit.Openings());
  EXPECT_FALSE(circuit.IsOpen());
  EXPECT_EQ(circuit.Reason(), "");
  EXPECT_EQ(metrics.Value(Metric::kCircuitOpen), 0);
}

TEST(Circuit, ClosingAClosedOneChangesNothing) {
  Metrics metrics;
  Circuit circuit(&metrics);
  circuit.CloseUnlessOpenedSince(circuit.Openings());
  EXPECT_EQ(metrics.Value(Metric::kCircuitOpen), 0);
  circuit.Open("one");
  EXPECT_EQ(metrics.Value(Metric::kCircuitOpen), 1);
}

}  // namespace
}  // namespace idempotency
