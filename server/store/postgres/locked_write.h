// The slow path of every operation: rows are read, decided upon, and where that asks for a write,
// locked, decided upon again and written, in one transaction.
#pragma once

#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "server/record/record.h"
#include "server/store/postgres/batch_run.h"

namespace idempotency {

// The key of each place of the batch.
using Keys = std::vector<const RecordKey*>;

// A row as it was found. `record` is null when the key has none.
struct FoundRow {
  size_t place = 0;
  std::shared_ptr<const Record> record;
  Reading reading;   // of the clock, that belongs to it
  size_t bytes = 0;  // of its outcome and history
};

// What becomes of the found rows' outcomes.
enum class Outcomes {
  kAreAnswers,  // held until the batch is answered, so they take its room (BatchRun::answer_room)
  kAreDropped,  // as soon as a row is worked through
};

// What a found row leads to: nothing to write, or the row to write. Called once for each row that
// was found and could be decoded; a row that could not be has got its fault.
using DecideOnRow = std::function<std::optional<Record>(const FoundRow& row)>;
// A row whose transaction ended well. `row.record` is the row as it now stands.
using RowDone = std::function<void(const FoundRow& row)>;

// Reads the rows (read.sql), in one transaction of its own; in several one after the other, when
// they are many and large, so that no result of libpq grows beyond a bound. `found` is called for
// each place, in order, after the last of them; also before a failure for what was read by then.
// Outcomes take the batch's room for answers; what is left when it is used up is kNotRead. Who does
// not answer from a row that was found gives its room back.
std::optional<PipelineFailure> ReadRows(BatchRun& run, const Keys& keys, PlacesView places,
                                        const std::function<void(const FoundRow&)>& found);

// Locks the rows (lock.sql), lets `decide` decide on what was locked, writes what is to be written
// (write.sql) and commits. `done` is then called for each row; a key that has no row any more comes
// without a record. As with ReadRows, many large rows are worked on in several transactions, and
// outcomes that are answers take the batch's room.
std::optional<PipelineFailure> LockAndWrite(BatchRun& run, const Keys& keys, PlacesView places,
                                            const DecideOnRow& decide, const RowDone& done,
                                            Outcomes outcomes = Outcomes::kAreAnswers,
                                            LockWait lock_wait = LockWait::kNormal);

}  // namespace idempotency
