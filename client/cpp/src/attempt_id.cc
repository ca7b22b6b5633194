#include "client/cpp/src/attempt_id.h"

#include <unistd.h>
#if defined(__APPLE__)
#include <sys/random.h>
#endif

#include "client/cpp/src/encoding.h"

namespace idempotency::client {

std::optional<std::string> NewAttemptId() {
  std::string bytes(16, '\0');
  if (getentropy(bytes.data(), bytes.size()) != 0) return std::nullopt;
  return Uuid(std::move(bytes), 4);
}

}  // namespace idempotency::client
