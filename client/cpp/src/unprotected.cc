#include "client/cpp/src/unprotected.h"

#include <algorithm>
#include <iostream>
#include <string>

#include "client/cpp/src/core.h"

namespace idempotency::client {
namespace {

// No service has looked at the key: it may hold line breaks, say, that would forge a log line.
std::string Printable(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c < 0x20 || c > 0x7E; }, '?');
  return text;
}

}  // namespace

Attempt UnprotectedAttempt() {
  Attempt attempt;
  attempt.unprotected = true;
  attempt.attempt_number = 0;
  return attempt;
}

void TellUnprotected(Core* core, const Key& key, const Error& error) {
  const uint64_t count = ++core->unprotected_runs;
  std::string line = "idempotency: warning: the service is away (";
  line += error.reason.empty() ? "no connection" : error.reason;
  line += "), so the work of merchant \"" + Printable(key.merchant_id) + "\", key \"" +
          Printable(key.idempotency_key) +
          "\" runs unprotected; unprotected runs so far: " + std::to_string(count);
  const Hooks& hooks = core->options.hooks;
  if (hooks.log_warning) {
    CallHook(hooks.log_warning, line);
  } else {
    // In one piece, so that lines of several threads do not mix.
    std::clog << line + '\n';
  }
  CallHook(hooks.on_unprotected, key, error);
}

}  // namespace idempotency::client
