#include "server/engine/held_bytes.h"

#include <variant>

namespace idempotency {
namespace {

size_t HeldBytes(const Outcome& outcome) {
  size_t bytes = sizeof(Outcome) + outcome.content_type.size() + outcome.response_id.size() +
                 outcome.body_sha256.size() + (outcome.body.has_value() ? outcome.body->size() : 0);
  for (const Header& header : outcome.headers) {
    bytes += sizeof(Header) + header.name.size() + header.value.size();
  }
  return bytes;
}

}  // namespace

size_t HeldBytes(const RecordKey& key) {
  return key.merchant_id.size() + key.idempotency_key.size();
}

size_t HeldBytes(const Labels& labels) {
  // 64: about what a node of std::map costs beside its strings' bytes.
  size_t bytes = 0;
  for (const auto& [name, value] : labels) bytes += 64 + name.size() + value.size();
  return bytes;
}

size_t HeldBytes(const Failure& failure) {
  return sizeof(Failure) + failure.code.size() + failure.message.size() +
         (failure.outcome.has_value() ? HeldBytes(*failure.outcome) : 0);
}

size_t HeldBytes(const Answer& answer) {
  if (const auto* outcome = std::get_if<Outcome>(&answer)) return HeldBytes(*outcome);
  return HeldBytes(std::get<Failure>(answer));
}

}  // namespace idempotency
