#include "server/app/dev_lines.h"

#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "server/record/record_id.h"

namespace idempotency {
namespace {

constexpr char kBody[] = R"({"amount":"100.00","currency":"USD"})";
constexpr char kOtherBody[] = R"({"amount":"999.00","currency":"USD"})";
constexpr char kAnswer[] = R"({"payment":"pay-1","status":"captured"})";

std::string Base64(absl::string_view bytes) { return absl::Base64Escape(bytes); }

std::string Command(absl::string_view address, absl::string_view method, absl::string_view json) {
  return absl::StrCat("grpcurl -plaintext -d '", json, "' ", address,
                      " idempotency.v1.IdempotencyService/", method);
}

// `more` is further members, each after a comma.
std::string BeginJson(absl::string_view key, absl::string_view attempt, absl::string_view body,
                      absl::string_view more = "") {
  return absl::StrCat(R"({"merchant_id":"shop-1","idempotency_key":")", key,
                      R"(","operation":"POST /orders","attempt_id":")", attempt,
                      R"(","payload":{"data":")", Base64(body),
                      R"(","content_type":"application/json"})", more, "}");
}

}  // namespace

std::vector<DevLine> DevLines(absl::string_view address, absl::string_view order) {
  const std::string key = absl::StrCat("order-", order);
  const std::string slow_key = absl::StrCat("order-", order, "-slow");
  const std::string first = RandomUuidText();
  const std::string second = RandomUuidText();
  std::vector<DevLine> lines;
  const auto add = [&](std::string explanation, absl::string_view method, std::string json) {
    lines.push_back({std::move(explanation), Command(address, method, json)});
  };
  add("Reserve the key. The answer is `started`: the work is yours until the lease ends.", "Begin",
      BeginJson(key, first, kBody));
  add("The same request again, from another try: `in_progress`, not a second payment.", "Begin",
      BeginJson(key, second, kBody));
  add("The work is done: record its outcome.", "Complete",
      absl::StrCat(R"({"merchant_id":"shop-1","idempotency_key":")", key, R"(","attempt_id":")",
                   first,
                   R"(","outcome":{"status_code":201,"headers":[{"name":"Location","value":")",
                   Base64("/payments/pay-1"), R"("}],"content_type":"application/json","body":")",
                   Base64(kAnswer), R"(","response_id":"pay-1"}})"));
  add("Every later try gets that very outcome: `replay`.", "Begin",
      BeginJson(key, RandomUuidText(), kBody));
  add("The same key with another body is a mistake: the error KEY_REUSED, and the record stays.",
      "Begin", BeginJson(key, RandomUuidText(), kOtherBody));
  add("What is known about the key.", "Lookup",
      absl::StrCat(R"({"merchant_id":"shop-1","idempotency_key":")", key,
                   R"(","include_outcome":true})"));
  add("A second order, whose worker dies: it takes a lease of one second and never comes back.",
      "Begin", BeginJson(slow_key, RandomUuidText(), kBody, R"(,"lease_duration":"1s")"));
  add("The next try waits until the lease is over (here about three seconds) and takes the work "
      "over. `unknown_attempts` tells it to ask the partner first: money may have moved.",
      "Begin", BeginJson(slow_key, RandomUuidText(), kBody, R"(,"wait_timeout":"20s")"));
  add("The record tells that story, too: attempt 2, and how attempt 1 ended.", "Lookup",
      absl::StrCat(R"({"merchant_id":"shop-1","idempotency_key":")", slow_key, R"("})"));
  return lines;
}

}  // namespace idempotency
