#include "server/engine/batch_meter.h"

namespace idempotency {

BatchMeter::Series BatchMeter::SeriesOf(CallKind kind) {
  switch (kind) {
    case CallKind::kBegin:
      return {HistogramMetric::kBatchSizeBegin, HistogramMetric::kFlushBegin,
              HistogramMetric::kQueueWaitBegin};
    case CallKind::kOwner:
      return {HistogramMetric::kBatchSizeOwner, HistogramMetric::kFlushOwner,
              HistogramMetric::kQueueWaitOwner};
    case CallKind::kLookup:
      break;
  }
  return {HistogramMetric::kBatchSizeLookup, HistogramMetric::kFlushLookup,
          HistogramMetric::kQueueWaitLookup};
}

absl::Duration BatchMeter::Sent(size_t items) {
  metrics_->Add(Metric::kBatches);
  metrics_->Add(Metric::kBatchItems, static_cast<int64_t>(items));
  metrics_->Add(LaneMetric::kBatchItems, lane_, static_cast<int64_t>(items));
  return clock_->BootTime();
}

void BatchMeter::Returned(CallKind kind, size_t items, absl::Duration took) {
  metrics_->Add(LaneMetric::kBatchItems, lane_, -static_cast<int64_t>(items));
  metrics_->Add(LaneMetric::kBusyMicros, lane_, absl::ToInt64Microseconds(took));
  metrics_->Observe(SeriesOf(kind).size, static_cast<int64_t>(items));
  metrics_->Observe(SeriesOf(kind).flush, took);
}

}  // namespace idempotency
