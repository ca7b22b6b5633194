#include "tests/simulation/describe_history.h"

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "server/record/decide.h"
#include "server/record/fault.h"

namespace idempotency {
namespace {

// The first digits tell attempts apart.
std::string Short(const AttemptHash& attempt) {
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(attempt.bytes.data()), 3));
}

std::string NameOf(const RecordKey& key) {
  return absl::StrCat(key.merchant_id, "/", key.idempotency_key);
}

std::string TextOf(const Answer& answer) {
  if (const auto* outcome = std::get_if<Outcome>(&answer)) {
    return absl::StrCat("outcome \"", outcome->body.value_or(""), "\"");
  }
  const Failure& failure = std::get<Failure>(answer);
  return absl::StrCat("failure ", static_cast<int>(failure.disposition), " \"", failure.message,
                      "\"");
}

std::string TextOf(const Record& row) {
  static constexpr const char* kStates[] = {
      "?", "in progress", "completed", "failed FINAL", "released", "swept", "failed UNKNOWN"};
  return absl::StrCat(kStates[static_cast<size_t>(row.state)], ", attempt ", row.attempt_number,
                      " by ", Short(row.attempt), ", token ", row.fencing_token, ", made ",
                      absl::ToUnixMicros(row.created_at), ", lease until ",
                      absl::ToUnixMicros(row.lease_expires_at), row.hold ? ", HOLD" : "",
                      row.answer == nullptr ? "" : absl::StrCat(", ", TextOf(*row.answer)));
}

std::string AskedText(const HeardCall& call) {
  const std::string on = absl::StrCat(" ", NameOf(call.key()), " on replica ", call.replica);
  if (const auto* begin = std::get_if<BeginItem>(&call.asked)) {
    return absl::StrCat("Begin", on, " by ", Short(begin->attempt), ", body ",
                        begin->fingerprint[0], begin->hold ? ", HOLD" : "");
  }
  const auto* owner = std::get_if<OwnerItem>(&call.asked);
  if (owner == nullptr) return absl::StrCat("Lookup", on);
  if (owner->IsRenew()) return absl::StrCat("Renew", on, " by ", Short(owner->attempt));
  return absl::StrCat("Finish", on, " by ", Short(owner->attempt), ", ", TextOf(*owner->answer));
}

std::string ToldText(const HeardCall& call) {
  static constexpr const char* kBegin[] = {"started",    "replay",     "in progress",
                                           "key reused", "lease lost", "needs resolution"};
  static constexpr const char* kOwner[] = {"recorded",         "already recorded", "renewed",
                                           "already finished", "outcome conflict", "lease lost",
                                           "no record",        "needs resolution"};
  if (const auto* status = std::get_if<absl::Status>(&call.told)) {
    return std::string(status->message());
  }
  if (const auto* begin = std::get_if<BeginResult>(&call.told)) {
    return absl::StrCat(kBegin[static_cast<size_t>(begin->verdict)],
                        begin->repeated ? " (repeated)" : "", ": ", TextOf(*begin->record));
  }
  if (const auto* owner = std::get_if<OwnerResult>(&call.told)) {
    return kOwner[static_cast<size_t>(owner->verdict)];
  }
  const auto* lookup = std::get_if<LookupResult>(&call.told);
  if (lookup == nullptr) return "nothing";
  return lookup->record == nullptr ? "no record" : TextOf(*lookup->record);
}

class Digest {
 public:
  void Add(uint64_t value) {
    // FNV-1a, by eight bytes.
    sum_ = (sum_ ^ value) * 0x100000001b3;
  }
  void Add(const std::string& text) {
    for (const char letter : text) Add(static_cast<unsigned char>(letter));
  }
  uint64_t sum() const { return sum_; }

 private:
  uint64_t sum_ = 0xcbf29ce484222325;
};

}  // namespace

std::vector<std::string> TraceOf(const History& history, const std::vector<WorldEvent>& world) {
  std::vector<std::pair<Tick, std::string>> events;
  for (const WorldEvent& event : world) events.emplace_back(event.at, event.what);
  for (const HeardCall& call : history.calls()) {
    events.emplace_back(call.sent_at, absl::StrCat("call ", call.number, ": ", AskedText(call)));
    if (call.answered_at.has_value()) {
      events.emplace_back(*call.answered_at,
                          absl::StrCat("call ", call.number, " is told: ", ToldText(call)));
    }
  }
  for (const auto& [key, versions] : history.versions()) {
    for (size_t i = 1; i < versions.size(); ++i) {
      events.emplace_back(
          versions[i].since,
          absl::StrCat("row ", NameOf(key), ": ",
                       versions[i].row.has_value() ? TextOf(*versions[i].row) : "is gone"));
    }
  }
  std::sort(events.begin(), events.end());
  std::vector<std::string> lines;
  for (const auto& [at, what] : events) lines.push_back(absl::StrCat(at, "  ", what));
  return lines;
}

uint64_t DigestOf(const History& history) {
  Digest digest;
  for (const HeardCall& call : history.calls()) {
    digest.Add(static_cast<uint64_t>(call.sent_at));
    digest.Add(static_cast<uint64_t>(call.answered_at.value_or(0)));
    digest.Add(ToldText(call));
  }
  for (const auto& [key, versions] : history.versions()) {
    for (const Version& version : versions) {
      digest.Add(static_cast<uint64_t>(version.since));
      if (version.row.has_value()) digest.Add(TextOf(*version.row));
    }
  }
  return digest.sum();
}

}  // namespace idempotency
