// Begins that wait for another attempt's outcome: parked without a thread, woken to be decided
// again.
//
// Owned by one lane's thread, as its keys are: a key's answers and its waits meet in one place and
// no wake-up can be lost. Waiting writes nothing. The bounds are the replica's wait slots
// (Admission) and a number per key; a call keeps its slot from its first parking until it is
// answered.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "server/base/metrics.h"
#include "server/engine/admission.h"
#include "server/engine/call.h"
#include "server/record/decide.h"
#include "server/record/record.h"
#include "server/store/store.h"

namespace idempotency {

class Waiters {
 public:
  // `admission` and `metrics` must outlive this.
  Waiters(const Policy& policy, size_t per_key_max, Admission* admission, Metrics* metrics);

  // Parks the call, which the store has just told `in_progress`, until its record changes, the
  // lease is over, or its wait ends. False, and the call stays where it is, when its wait is over,
  // its caller left, or a bound is reached: then it is to be answered. `now` is on
  // Clock::BootTime's scale, taken after the store returned: a lease is counted from no earlier
  // than its reading.
  bool Park(std::unique_ptr<BeginCall>& call, const BeginResult& told, absl::Duration now);

  // Something was learnt of a record: wakes its waiters when its id, last attempt, state or lease
  // is another than they were told.
  void Observe(const Record& record);
  // The key's record may have changed, nobody knows how.
  void Wake(const RecordKey& key);
  // Wakes those whose lease is over or whose wait ends.
  void WakeDue(absl::Duration now);
  // The woken ones, to be decided again. In the order of their parking within a key.
  std::vector<std::unique_ptr<BeginCall>> TakeWoken() { return std::exchange(woken_, {}); }

  // When WakeDue has something to do; InfiniteDuration when nobody waits.
  absl::Duration NextDue() const;
  bool empty() const { return groups_.empty() && woken_.empty(); }

  // All that are parked, with the answer to give: `in_progress` with the last known record. Those
  // that were woken are decided again.
  using Dismissed = std::vector<std::pair<std::unique_ptr<BeginCall>, BeginResult>>;
  Dismissed DismissAll(absl::Duration now);

 private:
  // The waiters of one key, and what they were told.
  struct KeyGroup {
    BeginResult told;
    absl::Duration told_at;
    absl::Duration lease_over_at;
    std::vector<std::unique_ptr<BeginCall>> calls;
  };
  using Groups = absl::flat_hash_map<RecordKey, std::unique_ptr<KeyGroup>>;

  bool HasRoom(BeginCall& call, absl::Duration now);
  void SetLeaseEnd(KeyGroup& group, const BeginResult& told, absl::Duration now);
  void WakeGroup(Groups::iterator group);
  void WakeCall(BeginCall* call);
  void WakeDeparted(absl::Duration now);

  const Policy policy_;
  const size_t per_key_max_;
  Admission* const admission_;
  Metrics* const metrics_;

  Groups groups_;
  absl::btree_set<std::pair<absl::Duration, BeginCall*>> wait_ends_;
  absl::btree_set<std::pair<absl::Duration, KeyGroup*>> lease_ends_;
  std::vector<std::unique_ptr<BeginCall>> woken_;
  absl::Duration departed_sought_at_ = -absl::InfiniteDuration();
};

}  // namespace idempotency
