// Requests that are valid as they stand, for tests to spoil in one place.
#pragma once

#include <string>

#include "idempotency/v1/idempotency_service.pb.h"

namespace idempotency {

inline constexpr char kSampleAttempt[] = "7b1f0d52-7c35-4f0f-9a62-5a7f3f6f6b11";

inline v1::BeginRequest SampleBegin() {
  v1::BeginRequest request;
  request.set_merchant_id("acme");
  request.set_idempotency_key("order-1");
  request.set_operation("POST /orders");
  request.set_attempt_id(kSampleAttempt);
  request.set_fingerprint(std::string(32, 'f'));
  return request;
}

inline v1::CompleteRequest SampleComplete() {
  v1::CompleteRequest request;
  request.set_merchant_id("acme");
  request.set_idempotency_key("order-1");
  request.set_attempt_id(kSampleAttempt);
  request.mutable_outcome()->set_status_code(201);
  return request;
}

inline v1::FailRequest SampleFail() {
  v1::FailRequest request;
  request.set_merchant_id("acme");
  request.set_idempotency_key("order-1");
  request.set_attempt_id(kSampleAttempt);
  request.mutable_failure()->set_disposition(v1::FAILURE_DISPOSITION_FINAL);
  return request;
}

inline v1::RenewRequest SampleRenew() {
  v1::RenewRequest request;
  request.set_merchant_id("acme");
  request.set_idempotency_key("order-1");
  request.set_attempt_id(kSampleAttempt);
  return request;
}

inline v1::LookupRequest SampleLookup() {
  v1::LookupRequest request;
  request.set_merchant_id("acme");
  request.set_idempotency_key("order-1");
  return request;
}

}  // namespace idempotency
