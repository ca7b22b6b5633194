// Begins that wait for another attempt's outcome: parked without a thread, woken to be decided
// again.
//
// Owned by one lane's thread, as its keys are: a key's answers and its waits meet in one place and
// no wake-up can be lost. What this replica does or reads wakes at once; what others do is seen by
// probes, one light statement for all keys that are due. Waiting writes nothing. The bounds are the
// replica's wait slots, of which a merchant has its share (Admission), and a number per key; a call
// keeps its slot from its first parking until it is answered.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "server/base/metrics.h"
#include "server/engine/admission.h"
#include "server/engine/call.h"
#include "server/record/decide.h"
#include "server/record/record.h"
#include "server/store/store.h"

namespace idempotency {

class Waiters {
 public:
  // A key is probed this often while one of its waits is in its first kYoung, later less often.
  static constexpr absl::Duration kYoung = absl::Seconds(2);
  static constexpr absl::Duration kProbeInterval = absl::Milliseconds(25);
  static constexpr absl::Duration kLateProbeInterval = absl::Milliseconds(250);
  // After a probe that failed none is made for the first of these, then twice as long each time.
  static constexpr absl::Duration kFirstProbePause = absl::Milliseconds(250);
  static constexpr absl::Duration kLongestProbePause = absl::Seconds(2);

  // `admission` and `metrics` must outlive this.
  Waiters(const Policy& policy, size_t per_key_max, Admission* admission, Metrics* metrics);

  // Parks the call, which the store has just told `in_progress`, until its record changes, the
  // lease is over, or its wait ends. False, and the call stays where it is, when its wait is over,
  // its caller left, or a bound is reached: then it is to be answered. `now` is on
  // Clock::BootTime's scale, taken after the store returned: a lease is counted from no earlier
  // than its reading.
  bool Park(std::unique_ptr<BeginCall>& call, const BeginResult& told, absl::Duration now);
  // The same for a call that waited, was to be decided again, and could not be: the database is
  // away. It waits on by what it was told before. Also false when it has never been parked.
  bool ParkAgain(std::unique_ptr<BeginCall>& call, absl::Duration now);

  // Something was learnt of a record: wakes its waiters when its id, last attempt, state or lease
  // is another than they were told.
  void Observe(const Record& record);
  // The key's record may have changed, nobody knows how.
  void Wake(const RecordKey& key);
  // Wakes those whose lease is over or whose wait ends.
  void WakeDue(absl::Duration now);
  // The woken ones, to be decided again. In the order of their parking within a key.
  std::vector<std::unique_ptr<BeginCall>> TakeWoken() { return std::exchange(woken_, {}); }

  // The keys that are due to be probed, at most `max`, sorted; those due longest if there are more.
  // Valid until the next call of a function that is not const.
  std::vector<const LookupItem*> DueProbes(absl::Duration now, size_t max);
  // What the probe of those said: wakes the waiters of records that have changed. A probe that
  // failed changes nothing. Given between the two: when the probe was sent, and its end.
  void Probed(absl::Span<const absl::StatusOr<ProbeResult>> results, absl::Duration sent,
              absl::Duration now);

  // When WakeDue or DueProbes have something to do; InfiniteDuration when nobody waits.
  absl::Duration NextDue() const;
  bool empty() const { return groups_.empty() && woken_.empty(); }

  // All that are parked, with the answer to give: `in_progress` with the last known record. Those
  // that were woken are decided again.
  using Dismissed = std::vector<std::pair<std::unique_ptr<BeginCall>, BeginResult>>;
  Dismissed DismissAll(absl::Duration now);

 private:
  // The waiters of one key, and what they were told.
  struct KeyGroup {
    LookupItem item;
    uint64_t number = 0;  // in the order of their making
    BeginResult told;
    absl::Duration told_at;
    absl::Duration lease_over_at = absl::InfiniteDuration();
    absl::Duration young_until = -absl::InfiniteDuration();
    absl::Duration probe_at = absl::InfiniteDuration();
    std::vector<std::unique_ptr<BeginCall>> calls;
  };
  using Groups = absl::flat_hash_map<RecordKey, std::unique_ptr<KeyGroup>>;
  // What is due at the same instant comes in the order of its parking, and not in that of memory:
  // a run of the engine can then be repeated step by step (tests/simulation).
  template <typename Waiting>
  using Times = absl::btree_set<std::tuple<absl::Duration, uint64_t, Waiting*>>;

  bool MayWait(BeginCall& call, absl::Duration now);
  bool HasRoom(BeginCall& call, absl::Duration now);
  // REQUIRES: MayWait. `told` and its time are the call's.
  void Join(std::unique_ptr<BeginCall>& call, absl::Duration lease_over_at, absl::Duration now);
  void SetLeaseEnd(KeyGroup& group, absl::Duration at);
  void SetProbe(KeyGroup& group, absl::Duration at);
  // The end of the lease by what the call was told.
  absl::Duration LeaseOverAt(const BeginCall& call) const;
  void RemoveGroup(Groups::iterator group);
  void WakeGroup(Groups::iterator group, Metric why);
  void WakeCall(BeginCall* call);
  void WakeDeparted(absl::Duration now);

  const Policy policy_;
  const size_t per_key_max_;
  Admission* const admission_;
  Metrics* const metrics_;

  Groups groups_;
  uint64_t last_number_ = 0;
  Times<BeginCall> wait_ends_;
  Times<KeyGroup> lease_ends_;
  Times<KeyGroup> probes_;
  std::vector<std::unique_ptr<BeginCall>> woken_;
  absl::Duration departed_sought_at_ = -absl::InfiniteDuration();

  std::vector<KeyGroup*> probed_;  // between DueProbes and Probed
  absl::Duration no_probe_before_ = -absl::InfiniteDuration();
  absl::Duration probe_pause_;  // zero: the last probe worked
};

}  // namespace idempotency
