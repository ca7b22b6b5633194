// What a service that speaks HTTP answers for the result of a RunOnce.
//
// Outcomes go out as they were recorded, replays with `Idempotent-Replayed: true`. Everything else
// is a small JSON body, {"status":409,"code":"IN_PROGRESS","message":"…"}, with words of this
// library only: nothing internal goes out. The table is in client/README.md.
#pragma once

#include <string>
#include <vector>

#include "idempotency/client/types.h"

namespace idempotency::client {

struct HttpAnswer {
  int status = 0;
  // In the order in which they are to be sent.
  std::vector<Header> headers;
  std::string body;
};

// An Error is a RunResult, too.
HttpAnswer HttpAnswerOf(const RunResult& result);

}  // namespace idempotency::client
