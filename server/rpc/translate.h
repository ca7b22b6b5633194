// What the engine answers, as the messages that go over the wire.
//
// Thread-safe: functions of their arguments only. Everything that depends on time is judged at the
// answer's own reading of the database's clock.
#pragma once

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "google/protobuf/duration.pb.h"
#include "google/protobuf/timestamp.pb.h"
#include "idempotency/v1/idempotency_service.pb.h"
#include "server/record/decide.h"
#include "server/record/record.h"
#include "server/store/store.h"

namespace idempotency {

// To the microsecond, as stored. REQUIRES: time is finite.
google::protobuf::Timestamp ToTimestamp(absl::Time time);
// To the nanosecond. REQUIRES: duration is finite.
google::protobuf::Duration ToProtoDuration(absl::Duration duration);

// What Lookup shows: ABANDONED from the instant the lease is over, whatever is stored.
v1::RecordState VisibleState(const Record& record, const Reading& reading, const Policy& policy);

// REQUIRES: the verdict is kStarted, kReplay or kInProgress. `attempt_id` is the caller's own, and
// goes into `started` alone.
void ToBeginResponse(const BeginResult& result, absl::string_view attempt_id, const Policy& policy,
                     v1::BeginResponse* response);
// REQUIRES: the verdict is kRecorded or kAlreadyRecorded.
void ToCompleteResponse(const OwnerResult& result, v1::CompleteResponse* response);
void ToFailResponse(const OwnerResult& result, v1::FailResponse* response);
// REQUIRES: the verdict is kRenewed.
void ToRenewResponse(const OwnerResult& result, v1::RenewResponse* response);
// REQUIRES: result.record is not null. Without `include_outcome` the outcome's body is left out,
// and its size and digest stand for it.
void ToLookupResponse(const LookupResult& result, bool include_outcome, const Policy& policy,
                      v1::LookupResponse* response);

}  // namespace idempotency
