// What may be broken on purpose in a simulation's database, to see that the checker sees it.
#pragma once

namespace idempotency {

enum class Defect {
  kNone,
  kForgetsCommits,   // now and then a batch is answered and not kept
  kEndsLeasesEarly,  // an attempt at work is taken over
  kSwapsAnswers,     // of a batch's Lookups two are told each other's answer
  kRepeatsTokens,    // a later attempt is granted the token of the first
  kDeniesCommits,    // a batch is kept, and told that nothing was done
  kChangesOutcomes,  // a final outcome is written over
};

}  // namespace idempotency
