// The header `traceparent` of W3C Trace Context, level 1, with level 2's rules for later versions:
// read from a call's metadata, returned in its answer's.
//
//   00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01
//
// A caller's trace id stands in every log line of its call, and the answer carries a traceparent
// with the same ids and flags. This service makes no spans of its own, so it makes up no ids
// either: a call that came without a valid header is logged and answered without one.
//
// Functions of their arguments: thread-safe.
#pragma once

#include <array>
#include <string>

#include "absl/strings/string_view.h"
#include "grpcpp/server_context.h"
#include "server/base/trace_id.h"

namespace idempotency {

inline constexpr char kTraceparent[] = "traceparent";

struct TraceContext {
  TraceId trace;                     // not set: nothing valid came
  std::array<char, 16> parent_id{};  // the caller's span
  std::array<char, 2> flags{};       // hexadecimal digits, as they came
};

// What the header says; not set when it is not valid:
//  - version 00 has exactly 55 bytes, a later one at least those and then nothing or a further "-";
//    ff is no version
//  - only lower-case hexadecimal digits; neither id is all zeros
TraceContext ParseTraceparent(absl::string_view header);

// Of a call: the header's value, if it came exactly once. Twice counts as not valid, because the
// two may disagree.
TraceContext TraceOf(const grpc::ServerContextBase& context);

// As a header of version 00, which is what the specification has a service of that version send.
// REQUIRES: context.trace is set.
std::string TraceparentText(const TraceContext& context);

}  // namespace idempotency
