#include "tests/simulation/turns.h"

#include <utility>

#include "server/base/check.h"

namespace idempotency {

thread_local Turns::Actor* Turns::current_ = nullptr;

Turns::~Turns() {
  for (const auto& actor : actors_) {
    IDEM_CHECK(actor->ended) << "an actor is in the middle of something";
    actor->thread.join();
  }
}

size_t Turns::Add(std::function<void()> body) {
  actors_.push_back(std::make_unique<Actor>());
  Actor* const actor = actors_.back().get();
  actor->thread = std::thread([actor, body = std::move(body)] {
    current_ = actor;
    actor->may_run.acquire();
    body();
    actor->ended = true;
    actor->gave_back.release();
  });
  return actors_.size() - 1;
}

void Turns::Run(size_t actor) {
  IDEM_CHECK(!actors_[actor]->ended) << "an actor that has ended has no turn";
  actors_[actor]->may_run.release();
  actors_[actor]->gave_back.acquire();
}

void Turns::Yield() {
  Actor* const actor = current_;
  if (actor == nullptr) return;
  actor->gave_back.release();
  actor->may_run.acquire();
}

}  // namespace idempotency
