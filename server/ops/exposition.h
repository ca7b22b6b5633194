// The text of /metrics: every metric of server/base/metrics.h, this process's own, and the build,
// in Prometheus's text format.
//
// Thread-safe. Reads atomics and /proc only: no lock, no database.
#pragma once

#include <string>
#include <vector>

#include "prometheus/collectable.h"
#include "prometheus/metric_family.h"
#include "server/base/metrics.h"

namespace idempotency {

// What idempotency_build_info says.
struct BuildInfo {
  std::string version;
  std::string commit;  // "unknown" when the build was not told
};

// The content type that goes with the text.
inline constexpr char kExpositionContentType[] = "text/plain; version=0.0.4; charset=utf-8";

class Exposition final : public prometheus::Collectable {
 public:
  // `metrics` must outlive this.
  Exposition(const Metrics* metrics, BuildInfo build);

  // Every family once, with all its series.
  std::vector<prometheus::MetricFamily> Collect() const override;
  // The same as text.
  std::string Text() const;

 private:
  const Metrics* const metrics_;
  const BuildInfo build_;
};

}  // namespace idempotency
