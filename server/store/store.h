// The seam to the database: read this first.
//
// A Store is one connection and belongs to one thread at a time: a lane, the sweeper, or the health
// check. It keeps no records; everything it answers was read from, or committed to, the database in
// the call. Nothing is answered before the commit is known.
//
// Batches. Items are sorted by key and no key stands twice (IDEM_CHECK): that is the lock order.
// The answer has one entry for each item, in the items' order. An item that the database refuses (a
// data error) fails alone; its mates succeed. Each entry is a result or a fault of record/fault.h:
//   kStoreUnavailable    nothing was done
//   kSchemaIncompatible  nothing was done
//   kLockTimeout         nothing was done: another transaction holds the row, try again later
//   kNotRead             nothing was done: the rows before it filled the room for the batch's
//                        answers, ask again in the next batch
//   kCommitUnknown       a commit was sent and its answer lost, and so it stayed for the store's
//                        whole budget
//   kInternal            the database refused the item
// Memory: results hold their records' whole outcomes until they are returned, up to a bound for a
// batch and one row more; the items behind them are kNotRead. At least one item of a batch is not.
//
// After a lost commit the store runs the items whose answer is not known again on a new connection:
// rows carry their attempt, so a Begin finds itself (`repeated`) and an answer is already recorded.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "server/record/clock_guard.h"
#include "server/record/decide.h"
#include "server/record/reading.h"
#include "server/record/record.h"
#include "server/record/replay_memo.h"

namespace idempotency {

struct BeginResult {
  BeginVerdict verdict = BeginVerdict::kInProgress;
  bool repeated = false;
  // With kStarted: this call wrote the attempt, in this run or possibly in an earlier one whose
  // commit's answer was lost; then `repeated` may be set, too. A takeover or resume is reported
  // when this is set: once too often is better than never.
  bool wrote_attempt = false;
  std::shared_ptr<const Record> record;  // as it stands now; never null
  Reading reading;                       // of the database's clock, that belongs to it
  // With a replay from the engine's cache: its record's own. Lives as long as `record`. Else null.
  const ReplayMemo* memo = nullptr;
};

struct OwnerResult {
  OwnerVerdict verdict = OwnerVerdict::kRecordNotFound;
  // Null with kRecordNotFound, else the record as it stands now. After kRecorded and kRenewed only
  // key, created_at, attempt, attempt_number, state, finished_at, answer, lease_expires_at and
  // lease_duration are set.
  std::shared_ptr<const Record> record;
  Reading reading;
};

struct LookupResult {
  std::shared_ptr<const Record> record;  // null: none
  Reading reading;
};

// What tells whether a record has changed since it was seen before; nothing of what it holds.
struct RecordSign {
  absl::Time created_at;  // which record of its key it is: the record id is derived from it
  RecordState state = RecordState::kInProgress;
  int32_t attempt_number = 0;
  absl::Time lease_expires_at;
  friend bool operator==(const RecordSign&, const RecordSign&) = default;
};

struct ProbeResult {
  std::optional<RecordSign> sign;  // absent: the key has no record
  absl::Time now;
};

// Heap blocks [first, last) of the record table.
struct BlockRange {
  int64_t first = 0;
  int64_t last = 0;
};

// What lies before sweep and purge, in the blocks that were looked at.
struct Survey {
  int64_t in_progress = 0;
  int64_t lease_over = 0;             // of those in progress: the sweep will mark them
  int64_t abandoned = 0;              // swept, or failed UNKNOWN
  int64_t expired = 0;                // the purge will delete them
  absl::Duration oldest_in_progress;  // since its record was created; zero: none
};

// A record that the sweeper marked, or that the purge of unsettled records deleted: for the log
// line.
struct SweptRecord {
  RecordKey key;
  absl::Time created_at;
  int32_t attempt_number = 0;
  RecordState state = RecordState::kSwept;
};

// Which history of commits a database continues. On another one, what was committed before may be
// gone: another system identifier is another cluster, another timeline follows a promotion or a
// restore.
struct DatabaseIdentity {
  uint64_t system_identifier = 0;
  uint32_t timeline = 0;
  friend bool operator==(const DatabaseIdentity&, const DatabaseIdentity&) = default;
};

// Why the clock guard's row says that the clock jumped. The numbers are in the database.
enum class ClockJump : int16_t {
  kOtherHistory = 1,  // a promotion, a restore, the first start
  kRanBack = 2,
  kGap = 3,    // ahead, or nobody looked for longer than the gap
  kDrift = 4,  // a replica saw it run away from its own clock
};

// The database's clock and the guard's row, read together.
struct ClockState {
  absl::Time now;
  ClockGuard guard;
  ClockJump last_jump = ClockJump::kOtherHistory;
  // Whether the row was written in the history of commits that this database continues.
  bool is_same_history = false;
};

template <typename Result>
using BatchResults = std::vector<absl::StatusOr<Result>>;

class Store {
 public:
  virtual ~Store() = default;

  virtual BatchResults<BeginResult> BeginBatch(absl::Span<const BeginItem* const> items) = 0;
  // Complete, Fail and Renew.
  virtual BatchResults<OwnerResult> OwnerBatch(absl::Span<const OwnerItem* const> items) = 0;
  // Reads the primary; writes nothing.
  virtual BatchResults<LookupResult> LookupBatch(absl::Span<const LookupItem* const> items) = 0;
  // Whether records have changed, for Begins that wait. As LookupBatch, but light: no outcome is
  // read, and it is run once only, because the next probe is soon. Says of no record that its
  // commit is on a standby: nobody is answered from it.
  virtual BatchResults<ProbeResult> ProbeBatch(absl::Span<const LookupItem* const> items) = 0;
  // Keeps refused answers on their records (decide.h, KeepRefused). Best effort: true = kept, false
  // = not to be kept. Hardly waits for a row that another transaction holds: kLockTimeout.
  virtual BatchResults<bool> KeepRefusedBatch(absl::Span<const OwnerItem* const> items) = 0;

  // Maintenance, one bounded step over a range of blocks. Rows that others hold are skipped.
  virtual absl::StatusOr<int64_t> CountBlocks() = 0;
  // Marks attempts whose lease was over more than `grace` ago. Here and in PurgeUnsettledStep the
  // records are returned also when the commit's answer was lost: each is told of at least once if
  // it was marked, perhaps once too often.
  virtual absl::StatusOr<std::vector<SweptRecord>> SweepStep(BlockRange range,
                                                             absl::Duration grace) = 0;
  // Counts, and changes nothing: rows that others hold are counted, too.
  virtual absl::StatusOr<Survey> SurveyStep(BlockRange range) = 0;
  // Deletes expired records; returns how many.
  virtual absl::StatusOr<int64_t> PurgeStep(BlockRange range) = 0;
  // Deletes unsettled records, never those with HOLD, created more than `max_age` ago.
  virtual absl::StatusOr<std::vector<SweptRecord>> PurgeUnsettledStep(BlockRange range,
                                                                      absl::Duration max_age) = 0;

  // Ok when the database answers, takes writes, has them where the profile promises before it says
  // so, and its schema fits this server. Otherwise kSchemaIncompatible, whose message names both
  // versions, or kNotDurable, whose message names the setting: operators are shown these two
  // messages, and nothing internal stands in them. Anything else: it cannot be asked.
  virtual absl::Status Check() = 0;

  // The clock, as every decision reads it.
  virtual absl::StatusOr<ClockState> ReadClock() = 0;
  // Writes the clock's reading into the guard's row, and a jump if there was one: by what the row
  // shows, or because this replica `saw_drift`. Returns the row as it then stands, `now` being its
  // reading: it jumped just now if that is also `last_jump_at`. Repeating it does no harm.
  virtual absl::StatusOr<ClockState> RefreshClock(bool saw_drift) = 0;

  // Of the database that the last call was connected to, read when that connection was set up (a
  // writable connection does not outlive its timeline); nullopt before the first connection. A call
  // that lost its connection may answer from two: when the identity after a call is not the one
  // before it, nothing says which of the two an answer is from. Does not block.
  virtual std::optional<DatabaseIdentity> Identity() const = 0;
};

// Makes a Store for one more thread. Thread-safe. Does not connect: the first call does.
using StoreFactory = std::function<std::unique_ptr<Store>()>;

}  // namespace idempotency
