// Between the API's messages and the values of types.h. Pure functions.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "idempotency/client/runner.h"
#include "idempotency/client/types.h"
#include "idempotency/v1/idempotency_service.pb.h"

namespace idempotency::client {

// Towards the server: as they are, for the server to judge.
// How long the record answers: what the call says, else what the key says.
std::optional<std::chrono::seconds> TtlOf(const Key& key, const RunOptions& options);
v1::BeginRequest BeginRequestOf(const Key& key, const Request& request,
                                OnLeaseExpiry on_lease_expiry, const RunOptions& options,
                                const std::string& attempt_id);
void ToProto(const Outcome& outcome, v1::Outcome* message);
void ToProto(const Failure& failure, v1::Failure* message);
void ToProto(std::chrono::milliseconds span, google::protobuf::Duration* message);

// Replaces the body by its size and digest. False, and nothing changes, if there is none.
bool OmitBody(v1::Outcome* outcome);

// From the server.
std::chrono::milliseconds FromProto(const google::protobuf::Duration& message);
std::chrono::system_clock::time_point FromProto(const google::protobuf::Timestamp& message);
Outcome FromProto(const v1::Outcome& message);
Failure FromProto(const v1::Failure& message);
// One that is not known is kHold.
OnLeaseExpiry FromProto(v1::LeaseExpiryAction action);
// Without what only the client knows: stop, stop_reason, lease_remaining.
Attempt AttemptOf(const v1::BeginResponse& response);
// nullopt: it holds no answer.
std::optional<Replayed> ReplayedOf(const v1::BeginResponse& response);
InProgress InProgressOf(const v1::BeginResponse& response);
Record RecordOf(const v1::LookupResponse& response);

}  // namespace idempotency::client
