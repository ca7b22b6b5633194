// What a test reads from a refused call's status details.
#pragma once

#include <optional>
#include <string>

#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "grpcpp/support/status.h"
#include "gtest/gtest.h"

namespace idempotency {

// The first detail of that type, if there is one.
template <typename Detail>
std::optional<Detail> DetailOf(const grpc::Status& status) {
  google::rpc::Status details;
  if (!details.ParseFromString(status.error_details())) return std::nullopt;
  for (const auto& any : details.details()) {
    Detail detail;
    if (any.UnpackTo(&detail)) return detail;
  }
  return std::nullopt;
}

// ErrorInfo's reason; empty without one.
inline std::string ReasonOf(const grpc::Status& status) {
  const auto info = DetailOf<google::rpc::ErrorInfo>(status);
  return info.has_value() ? info->reason() : "";
}

// The fields that BadRequest names, joined by commas.
inline std::string WrongFieldsOf(const grpc::Status& status) {
  std::string fields;
  const auto bad_request = DetailOf<google::rpc::BadRequest>(status);
  if (!bad_request.has_value()) return fields;
  for (const auto& violation : bad_request->field_violations()) {
    if (!fields.empty()) fields += ",";
    fields += violation.field();
  }
  return fields;
}

}  // namespace idempotency
