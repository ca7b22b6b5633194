#include "tests/planted/planted.h"

#include <string>

namespace idempotency::planted {
namespace {

// Set once, before any thread is started.
std::string& Name() {
  static auto* const name = new std::string;
  return *name;
}

}  // namespace

const std::vector<Fault>& Faults() {
  static const auto* const faults = new std::vector<Fault>{
      {"answer-before-ready", "a batch is answered before ReadyForQuery, so before its commit"},
      {"skip-barrier", "answers from rows that were found do not wait for the standby"},
      {"no-attempt-check", "Complete, Fail and Renew are taken from any attempt of the record"},
      {"delete-on-fail", "Fail NOT_APPLIED and UNKNOWN delete the record"},
      {"swap-results", "the first two results of a batch change places"},
      {"expire-live-leases", "a Begin of another attempt takes over while the lease runs"},
      {"purge-unsettled", "purge deletes by age alone, whatever the record's state"},
      {"cache-ignores-fingerprint", "a replay from memory does not compare operation and body"},
      {"reuse-tokens", "a key that is begun anew gets the tokens of its earlier record"},
      {"trust-warning", "a commit that succeeded with a WARNING counts as replicated"},
      {"rerun-new-attempts", "a batch that is run again has other attempts"},
      {"cache-ignores-merchant", "replays from memory are found by the key alone"},
      {"drop-departed-completes", "a queued Complete or Fail whose caller has left is dropped"},
      {"restart-late-duplicate", "a late duplicate Begin of an earlier attempt starts the work"},
      {"complete-overwrites", "a second Complete with other content replaces the first"},
      {"cut-long-bodies", "a body of more than 64 bytes is replayed without its last byte"},
      {"reorder-headers", "headers are replayed in another order"},
      {"forget-unknown", "a takeover does not count the attempt that ended unknown"},
      {"new-record-on-takeover", "a takeover changes the record's id and downstream key"},
      {"renew-not-kept", "Renew answers a lease that is not stored"},
      {"never-take-over", "a record whose lease is over is answered as in progress for ever"},
  };
  return *faults;
}

bool Choose(absl::string_view name) {
  for (const Fault& fault : Faults()) {
    if (name != fault.name) continue;
    Name() = fault.name;
    return true;
  }
  return false;
}

bool Is(absl::string_view name) { return Name() == name; }

}  // namespace idempotency::planted
