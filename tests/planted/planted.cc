#include "tests/planted/planted.h"

#include <cstdio>
#include <cstdlib>

namespace idempotency::planted {
namespace {

std::string Read() {
  const char* const value = std::getenv("IDEMPOTENCY_PLANTED");
  const std::string chosen = value == nullptr ? "" : value;
  if (chosen.empty()) return chosen;
  for (const Fault& fault : Faults()) {
    if (chosen == "list") std::printf("%s\t%s\n", fault.name, fault.what);
    if (chosen == fault.name) {
      std::fprintf(stderr, "PLANTED FAULT: %s: %s\n", fault.name, fault.what);
      return chosen;
    }
  }
  if (chosen == "list") std::exit(0);
  std::fprintf(stderr, "IDEMPOTENCY_PLANTED: there is no fault '%s'; 'list' lists them\n",
               chosen.c_str());
  std::exit(2);
}

// Before main, so that a wrong name is told whatever the program is asked to do.
[[maybe_unused]] const bool is_read = !Chosen().empty();

}  // namespace

const std::vector<Fault>& Faults() {
  static const auto* const faults = new std::vector<Fault>{
      {"answer_before_ready", "a batch is answered before ReadyForQuery, so before its commit"},
      {"skip_barrier", "answers from rows that were found do not wait for the standby"},
      {"no_attempt_check", "Complete, Fail and Renew are taken from any attempt of the record"},
      {"delete_on_fail", "Fail NOT_APPLIED and UNKNOWN delete the record"},
      {"swap_results", "the first two results of a batch change places"},
      {"expire_live_leases", "a Begin of another attempt takes over while the lease runs"},
      {"purge_unsettled", "purge deletes by age alone, whatever the record's state"},
      {"cache_ignores_fingerprint", "a replay from memory does not compare operation and body"},
      {"reuse_tokens", "a key that is begun anew gets the tokens of its earlier record"},
      {"trust_warning", "a commit that succeeded with a WARNING counts as replicated"},
      {"rerun_with_new_attempts", "a batch that is run again has other attempts"},
      {"cache_without_merchant", "replays from memory are found by the key alone"},
      {"drop_departed_completes", "a queued Complete or Fail whose caller has left is dropped"},
      {"restart_on_late_begin", "a late duplicate Begin of an earlier attempt starts the work"},
      {"complete_overwrites", "a second Complete with other content replaces the first"},
      {"cut_long_bodies", "a body of more than 64 bytes is replayed without its last byte"},
      {"sort_headers", "headers are replayed in another order"},
      {"forget_unknown", "a takeover does not count the attempt that ended unknown"},
      {"new_record_on_takeover", "a takeover changes the record's id and downstream key"},
      {"renew_is_not_kept", "Renew answers a lease that is not stored"},
      {"replay_in_progress", "a record whose lease is over is answered as in progress for ever"},
  };
  return *faults;
}

const std::string& Chosen() {
  static const auto* const chosen = new std::string(Read());
  return *chosen;
}

bool Is(absl::string_view name) { return Chosen() == name; }

}  // namespace idempotency::planted
