#include "server/rpc/traceparent.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace idempotency {
namespace {

// version "-" trace-id "-" parent-id "-" flags
constexpr size_t kVersionEnd = 2;
constexpr size_t kTraceIdBegin = kVersionEnd + 1;
constexpr size_t kTraceIdEnd = kTraceIdBegin + 32;
constexpr size_t kParentIdBegin = kTraceIdEnd + 1;
constexpr size_t kParentIdEnd = kParentIdBegin + 16;
constexpr size_t kFlagsBegin = kParentIdEnd + 1;
constexpr size_t kBytes = kFlagsBegin + 2;

// The specification allows lower case alone.
bool IsHex(absl::string_view text) {
  return text.find_first_not_of("0123456789abcdef") == absl::string_view::npos;
}

bool IsId(absl::string_view text) {
  return IsHex(text) && text.find_first_not_of('0') != absl::string_view::npos;
}

template <size_t kSize>
void Copy(absl::string_view from, std::array<char, kSize>* to) {
  std::copy_n(from.begin(), kSize, to->begin());
}

}  // namespace

TraceContext ParseTraceparent(absl::string_view header) {
  if (header.size() < kBytes || header[kVersionEnd] != '-' || header[kTraceIdEnd] != '-' ||
      header[kParentIdEnd] != '-') {
    return {};
  }
  const absl::string_view version = header.substr(0, kVersionEnd);
  const absl::string_view trace_id = header.substr(kTraceIdBegin, kTraceIdEnd - kTraceIdBegin);
  const absl::string_view parent_id = header.substr(kParentIdBegin, kParentIdEnd - kParentIdBegin);
  const absl::string_view flags = header.substr(kFlagsBegin, 2);
  if (!IsHex(version) || version == "ff" || !IsId(trace_id) || !IsId(parent_id) || !IsHex(flags)) {
    return {};
  }
  if (header.size() > kBytes && (version == "00" || header[kBytes] != '-')) return {};
  TraceContext context;
  Copy(trace_id, &context.trace.hex);
  Copy(parent_id, &context.parent_id);
  Copy(flags, &context.flags);
  return context;
}

TraceContext TraceOf(const grpc::ServerContextBase& context) {
  const auto [first, last] = context.client_metadata().equal_range(kTraceparent);
  if (first == last || std::next(first) != last) return {};
  return ParseTraceparent(absl::string_view(first->second.data(), first->second.size()));
}

std::string TraceparentText(const TraceContext& context) {
  const auto view = [](const auto& digits) {
    return absl::string_view(digits.data(), digits.size());
  };
  return absl::StrCat("00-", view(context.trace.hex), "-", view(context.parent_id), "-",
                      view(context.flags));
}

}  // namespace idempotency
