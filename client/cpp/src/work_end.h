// What `fn` came to, and what its caller gets of it. Internal: the one place for Client and
// FakeRunner, so that the fake cannot differ.
#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <string>

#include "idempotency/client/runner.h"
#include "idempotency/client/types.h"

namespace idempotency::client {

struct WorkEnd {
  WorkResult result;
  // What `fn` threw, if it did.
  std::exception_ptr exception;
};

// Runs `fn`. What it throws comes to what `options.classify` says: kUnknown without one, and when
// it throws, too.
WorkEnd CallWork(const Work& fn, const Attempt& attempt, const RunOptions& options);

// What the record says of it.
struct RecordFacts {
  std::string record_id;
  int32_t attempt_number = 0;
  std::chrono::system_clock::time_point finish_time;
  bool without_body = false;
};

// Completed or Failed.
RunResult RecordedResult(WorkEnd end, RecordFacts facts);
// `error` with what `fn` came to.
Error UnrecordedError(Error error, WorkEnd end);
// `error`: why the service was not there.
RunResult UnprotectedResult(WorkEnd end, Error error);

}  // namespace idempotency::client
