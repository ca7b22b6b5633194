// What the tests of locked rows share.
#pragma once

#include "absl/strings/string_view.h"
#include "server/engine/slow_lane.h"
#include "tests/engine/engine_fixture.h"

namespace idempotency {

// An engine whose store can be told which rows another transaction holds.
class SlowLaneTest : public EngineTest {
 protected:
  void Lock(absl::string_view key) {
    database_.FailKey(Key(key), MakeFault(Fault::kLockTimeout, "row locked"));
  }
  // The next `tries` of Completes, Fails and Renews meet a lock; Begins only read and do not.
  void LockForOwners(int tries) {
    for (int i = 0; i < tries; ++i) {
      database_.FailNext(BatchKind::kOwner, MakeFault(Fault::kLockTimeout, "row locked"));
    }
  }
  void Unlock(absl::string_view key) { database_.ClearKeyFault(Key(key)); }
  // Past the longest pause between two tries.
  void AdvanceAndStep() {
    Advance(SlowLane::kLongestPause);
    Step();
  }
};

}  // namespace idempotency
