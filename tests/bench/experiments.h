// What is more than one load on one server: storms, bytes per record, growth, churn. Each returns
// its rows of the table.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tests/bench/report.h"
#include "tests/bench/rig.h"

namespace idempotency::bench {

// Storms of 1,000 Begins at once for one key over three replicas, one every ten seconds, while
// other keys are begun at 1,000 a second: who started, how long the last answer took, and the
// others' p99 beside what it is without storms.
absl::StatusOr<std::vector<Row>> MeasureStorms(Rig* rig, int storms);

// Bytes on disk of so many records after Begin, Complete and VACUUM, ours and those of
// sql/obvious.sql, made through their servers: heap and indexes.
absl::StatusOr<std::vector<Row>> MeasureBytes(Rig* rig, uint64_t records);

// Latency on an empty table, and again with so many records in it.
absl::StatusOr<std::vector<Row>> MeasureGrowth(Rig* rig, uint64_t records, double seconds);

// Begins and completes 4,000 records a second that expire after a minute, and prints the sizes of
// table and index. REQUIRES: the rig's server has ChurnFlags().
absl::StatusOr<std::vector<Row>> MeasureChurn(Rig* rig, double seconds);
std::vector<std::string> ChurnFlags();

}  // namespace idempotency::bench
