#include "server/app/health_loop.h"

#include <utility>

#include "server/base/check.h"
#include "server/record/fault.h"

namespace idempotency {
namespace {

constexpr absl::Duration kInterval = absl::Seconds(1);

}  // namespace

HealthLoop::HealthLoop(std::unique_ptr<Store> store, std::function<void(bool)> set_serving,
                       Log* log)
    : set_serving_(std::move(set_serving)), log_(log), store_(std::move(store)) {}

HealthLoop::~HealthLoop() {
  {
    MutexLock lock(&mu_);
    ending_ = true;
  }
  ending_changed_.NotifyAll();
  if (thread_.joinable()) thread_.join();
}

void HealthLoop::Start() {
  IDEM_CHECK(!thread_.joinable()) << "started twice";
  thread_ = std::thread([this] { Run(); });
}

void HealthLoop::Step() {
  const absl::Status status = store_->Check();
  set_serving_(status.ok());
  if (was_serving_ == status.ok()) return;
  was_serving_ = status.ok();
  if (status.ok()) {
    log_->Info("serving");
  } else {
    log_->Warn("not_serving",
               {{"schema_incompatible", FaultOf(status) == Fault::kSchemaIncompatible},
                {"detail", status.message()}});
  }
}

void HealthLoop::Run() {
  while (true) {
    Step();
    MutexLock lock(&mu_);
    if (!ending_) ending_changed_.WaitFor(&mu_, kInterval);
    if (ending_) return;
  }
}

}  // namespace idempotency
