// The client's values as the JSON of client/scenarios and client/vectors, and back.
//
// Bytes stand as text, or as {"base64": …} where they are not UTF-8. What has no value is left out.
#pragma once

#include <string>

#include "idempotency/client/client.h"
#include "nlohmann/json.hpp"

namespace idempotency::client {

nlohmann::json JsonOfBytes(const std::string& bytes);
std::string BytesOfJson(const nlohmann::json& value);

// Each throws nlohmann::json::exception where the JSON is none of its kind.
Outcome OutcomeOfJson(const nlohmann::json& value);
WorkResult WorkOfJson(const nlohmann::json& value);
FailureDisposition DispositionOfJson(const nlohmann::json& value);

nlohmann::json JsonOf(const RunResult& result);
nlohmann::json JsonOf(const LookupResult& result);
// What `fn` saw of it; `reason`: when `fn` ended.
nlohmann::json JsonOf(const Attempt& attempt, StopReason reason);

}  // namespace idempotency::client
