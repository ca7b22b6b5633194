#include "server/app/health_loop.h"

#include <utility>

#include "server/base/check.h"
#include "server/record/fault.h"

namespace idempotency {
namespace {

constexpr absl::Duration kInterval = absl::Seconds(1);

}  // namespace

CheckedParts PartsOf(const absl::Status& checked, absl::string_view profile) {
  const ReadinessPart durable = {true, std::string(profile)};
  const ReadinessPart well = {true, ""};
  const ReadinessPart unknown = {false, "not checked"};
  if (checked.ok()) return {well, well, durable};
  const ReadinessPart failed = {false, std::string(checked.message())};
  switch (FaultOf(checked)) {
    case Fault::kSchemaIncompatible:
      return {well, failed, unknown};
    case Fault::kNotDurable:
      return {well, well, failed};
    default:
      // The message may name hosts and tables: it is in the log.
      return {{false, "does not answer, or takes no writes; see the log"}, unknown, unknown};
  }
}

HealthLoop::HealthLoop(std::unique_ptr<Store> store, std::function<void(const absl::Status&)> tell,
                       Log* log)
    : tell_(std::move(tell)), log_(log), store_(std::move(store)) {}

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
  tell_(status);
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
