// IDEM_CHECK: ends the process when something only a bug can break is broken.
//
// Never for what a client, a network or a disk can cause: that is a value or a status.
#pragma once

#include <cstdlib>
#include <iostream>
#include <sstream>

namespace idempotency {

// Collects the message and aborts in its destructor. Used through IDEM_CHECK only.
class CheckFailure {
 public:
  CheckFailure(const char* file, int line, const char* condition) {
    stream_ << "CHECK failed: " << condition << " at " << file << ":" << line << " ";
  }
  [[noreturn]] ~CheckFailure() {
    std::cerr << stream_.str() << std::endl;
    std::abort();
  }
  std::ostream& stream() { return stream_; }

 private:
  std::ostringstream stream_;
};

}  // namespace idempotency

// IDEM_CHECK(condition) << "what is known about it";
#define IDEM_CHECK(condition)   \
  switch (0)                    \
  case 0:                       \
  default:                      \
    if (condition) [[likely]] { \
    } else /* NOLINT */         \
      ::idempotency::CheckFailure(__FILE__, __LINE__, #condition).stream()
