// A place beside a record that is replayed again and again, for what an answer of it looks like.
//
// The replay cache makes one for every record that it keeps; whoever answers calls keeps there what
// it would otherwise make anew each time, such as the encoded message. Nothing here knows what that
// is.
#pragma once

#include <atomic>
#include <memory>

namespace idempotency {

// Thread-safe.
class ReplayMemo {
 public:
  class Content {
   public:
    virtual ~Content() = default;
  };

  ReplayMemo() = default;
  ~ReplayMemo() { delete content_.load(std::memory_order_acquire); }
  ReplayMemo(const ReplayMemo&) = delete;
  ReplayMemo& operator=(const ReplayMemo&) = delete;

  // Null until something was kept. Lives as long as the memo.
  const Content* Get() const { return content_.load(std::memory_order_acquire); }
  // Keeps the content, unless another thread was first; returns the one that is kept.
  const Content& Keep(std::unique_ptr<const Content> content) const {
    const Content* kept = nullptr;
    if (content_.compare_exchange_strong(kept, content.get(), std::memory_order_acq_rel)) {
      return *content.release();
    }
    return *kept;
  }

 private:
  mutable std::atomic<const Content*> content_{nullptr};
};

}  // namespace idempotency
