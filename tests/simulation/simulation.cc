#include "tests/simulation/simulation.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/metrics.h"
#include "server/engine/batching_engine.h"
#include "server/record/fault.h"
#include "tests/simulation/checker.h"
#include "tests/simulation/describe_history.h"
#include "tests/simulation/faulty_store.h"
#include "tests/simulation/random.h"
#include "tests/simulation/turns.h"
#include "tests/util/fake_clock.h"

namespace idempotency {
namespace {

constexpr size_t kReplicas = 2;
constexpr size_t kMostCalls = 80;
constexpr absl::Duration kWatchInterval = absl::Milliseconds(250);

Policy ShortPolicy() {
  Policy policy;
  policy.replay_window = absl::Seconds(20);
  policy.takeover_window = absl::Minutes(2);
  return policy;
}

class NoEvents : public EngineEvents {
 public:
  void OnTakeover(const Record&, const TraceId&) override { ++takeovers; }
  void OnResume(const Record&, const TraceId&) override {}
  void OnRefusedOutcome(const OwnerItem&, const OwnerResult&, const TraceId&) override {}
  void OnGivenUp(const OwnerItem&, const absl::Status&, const TraceId&) override {}
  void OnSwept(const SweptRecord&) override {}
  void OnPurgedUnsettled(const SweptRecord&) override {}
  void OnMaintenanceFailed(const absl::Status&) override {}

  size_t takeovers = 0;
};

// An attempt that some caller is at, whatever became of it.
struct Work {
  BeginItem begin;
  std::string name;
};

class Simulation {
 public:
  explicit Simulation(const SimulationOptions& options);
  ~Simulation() { StopActors(); }

  SimulationResult Run();

 private:
  struct Replica {
    Metrics metrics;
    NoEvents events;
    std::unique_ptr<BatchingEngine> engine;
  };

  void AddActors(BatchingEngine* engine);
  void StopActors();
  void RunActor(size_t actor) {
    if (!turns_.HasEnded(actor)) turns_.Run(actor);
  }
  // All of them, so often.
  void RunActors(size_t rounds);
  void Note(const std::string& what);

  void Act();
  void ChangeTheWorld();
  void JumpTheClock();
  // True time passes, and the database's clock with it; replicas look at it as they do.
  void Pass(absl::Duration by);

  void CallSomething();
  void BeginNew();
  void Finish(const Work& work);
  OwnerItem FinishOf(const Work& work);
  void Send(std::variant<BeginItem, OwnerItem, LookupItem> asked, absl::Duration wait);
  bool IsAllAnswered() const;

  // The faults are over: everything is answered, and every key can be driven to its end.
  void End();
  void DriveOn(const RecordKey& key);
  void ExpectIdle();
  void Fail(const char* invariant, const std::string& what, const RecordKey& key);
  SimulationResult Conclude();

  const SimulationOptions options_;
  Random random_;
  FakeClock clock_;
  ModelDatabase database_{ShortPolicy()};
  ModelStore watch_{&database_};
  History history_{&database_};
  Weather weather_;
  std::vector<RecordKey> keys_;
  std::vector<Work> works_;
  // Of calls that are under way, and of others.
  std::vector<std::shared_ptr<std::atomic<bool>>> callers_left_;
  absl::Duration set_back_;
  bool clock_jumped_ = false;
  uint32_t timeline_ = 1;
  std::optional<Violation> violation_;
  std::vector<WorldEvent> world_;

  std::array<Replica, kReplicas> replicas_;
  bool stopping_ = false;
  Turns turns_;
  size_t actors_ = 0;
};

Simulation::Simulation(const SimulationOptions& options)
    : options_(options), random_(options.seed) {
  for (const char* merchant : {"acme", "globex"}) {
    for (const char* key : {"a", "b"}) keys_.push_back({merchant, key});
  }
  EngineOptions engine;
  engine.policy = ShortPolicy();
  engine.lanes = 1;
  engine.batch_max_items = random_.Of<size_t>({1, 2, 8, 256});
  engine.queue_max_items = random_.Of<size_t>({4, 16, 8192, 8192});
  engine.waits_per_key_max = random_.Of<size_t>({1, 256});
  engine.cache_max_bytes = random_.Of<size_t>({0, kMiB});
  engine.cache_max_age = absl::Seconds(5);
  engine.sweep_interval = absl::Seconds(2);
  engine.sweep_grace = absl::Seconds(1);
  engine.purge_interval = absl::Seconds(2);
  weather_.fault_one_in = random_.Of<size_t>({0, 3, 10});
  const StoreFactory stores = [this] {
    return std::make_unique<FaultyStore>(FaultyStore::Shared{.database = &database_,
                                                             .history = &history_,
                                                             .random = &random_,
                                                             .weather = &weather_,
                                                             .clock = &clock_,
                                                             .defect = options_.defect});
  };
  for (Replica& replica : replicas_) {
    replica.engine = std::make_unique<BatchingEngine>(engine, stores, &clock_, &replica.metrics,
                                                      &replica.events);
    AddActors(replica.engine.get());
  }
}

void Simulation::AddActors(BatchingEngine* engine) {
  const auto add = [this](auto step) {
    turns_.Add([this, step] {
      while (!stopping_) {
        step();
        Turns::Yield();
      }
    });
    ++actors_;
  };
  add([engine] { engine->StepLane(0); });
  add([engine] { engine->StepSlowLane(); });
  add([engine] { engine->StepSweeper(); });
}

void Simulation::StopActors() {
  stopping_ = true;
  for (size_t actor = 0; actor < actors_; ++actor) {
    while (!turns_.HasEnded(actor)) turns_.Run(actor);
  }
}

void Simulation::RunActors(size_t rounds) {
  for (size_t round = 0; round < rounds; ++round) {
    for (size_t actor = 0; actor < actors_; ++actor) RunActor(actor);
  }
}

void Simulation::Note(const std::string& what) {
  // A tick in any case: whether somebody reads it must change nothing.
  const Tick now = history_.Now();
  if (options_.is_traced) world_.push_back({now, what});
}

void Simulation::Pass(absl::Duration by) {
  Note(absl::StrCat(absl::FormatDuration(by), " pass"));
  if (weather_.is_away) {
    clock_.Advance(by);
    return database_.JumpClock(by);
  }
  // A jump is noted with the next look; then nothing is to be seen for as long as may be.
  for (int looks = 0; looks < 40 && by > absl::ZeroDuration(); ++looks) {
    const absl::Duration piece = std::min(by, kWatchInterval);
    clock_.Advance(piece);
    database_.JumpClock(piece);
    (void)watch_.RefreshClock(/*saw_drift=*/false);
    by -= piece;
  }
  clock_.Advance(by);
  database_.AdvanceClock(by);
}

void Simulation::JumpTheClock() {
  // Ahead by less than the gap is what the margin is for, but not again and again: a replica's own
  // clock sees that (app/clock_drift.h), and there is none here.
  const absl::Duration by =
      random_.Of<absl::Duration>({absl::Milliseconds(1500), absl::Hours(2), -absl::Milliseconds(50),
                                  -absl::Seconds(7), -absl::Hours(1)});
  Note(absl::StrCat("the database's clock jumps by ", absl::FormatDuration(by)));
  if (by < absl::ZeroDuration()) set_back_ -= by;
  clock_jumped_ = true;
  database_.JumpClock(by);
}

void Simulation::ChangeTheWorld() {
  switch (random_.Below(8)) {
    case 0:
      weather_.is_away = !weather_.is_away;
      Note(weather_.is_away ? "the database is away" : "the database is back");
      return;
    case 1:
      weather_.fault_one_in = random_.Of<size_t>({0, 2, 5, 20});
      return;
    case 2:
      return JumpTheClock();
    case 3:
      database_.SetIdentity({.system_identifier = 1, .timeline = ++timeline_});
      return Note("a standby is promoted");
    default:
      if (callers_left_.empty()) return;
      random_.Of(callers_left_)->store(true);
      return Note("a caller leaves");
  }
}

void Simulation::Act() {
  const size_t choice = random_.Below(100);
  if (choice < 65) return RunActor(random_.Below(actors_));
  if (choice < 83) return CallSomething();
  if (choice < 91) return Pass(absl::Milliseconds(1 + random_.Below(60)));
  if (choice < 95) return Pass(absl::Milliseconds(100 + random_.Below(3000)));
  if (choice < 96) return Pass(absl::Seconds(5 + random_.Below(40)));
  ChangeTheWorld();
}

void Simulation::CallSomething() {
  if (history_.calls().size() >= kMostCalls) return;
  const size_t choice = random_.Below(20);
  if (works_.empty() || choice < 7) return BeginNew();
  const Work& work = random_.Of(works_);
  if (choice < 10) return Send(work.begin, absl::ZeroDuration());
  if (choice < 12) return Send(LookupItem{work.begin.key}, absl::ZeroDuration());
  if (choice < 14) {
    OwnerItem renew{.key = work.begin.key, .attempt = work.begin.attempt};
    renew.lease_duration = random_.Of<absl::Duration>({absl::Seconds(1), absl::Seconds(4)});
    return Send(std::move(renew), absl::ZeroDuration());
  }
  Send(FinishOf(work), absl::ZeroDuration());
}

void Simulation::BeginNew() {
  Work work;
  work.name = absl::StrCat("attempt-", works_.size() + 1);
  BeginItem& item = work.begin;
  item.key = random_.Of(keys_);
  item.operation = "POST /orders";
  item.fingerprint.fill(random_.OneIn(10) ? 2 : 1);
  item.attempt = HashAttemptId(work.name);
  item.ttl = absl::Seconds(10 + static_cast<int64_t>(random_.Below(30)));
  item.lease_duration = random_.Of<absl::Duration>({absl::Seconds(1), absl::Seconds(3)});
  item.hold = random_.OneIn(12);
  const absl::Duration wait =
      random_.OneIn(2) ? absl::Milliseconds(random_.Below(6000)) : absl::ZeroDuration();
  works_.push_back(work);
  Send(item, wait);
}

OwnerItem Simulation::FinishOf(const Work& work) {
  OwnerItem item{.key = work.begin.key, .attempt = work.begin.attempt};
  // What names whose it is.
  const std::string text = absl::StrCat(item.key.merchant_id, "/", item.key.idempotency_key, "/",
                                        work.name, random_.OneIn(8) ? "/other" : "");
  const size_t choice = random_.Below(8);
  if (choice < 5) {
    item.answer = std::make_shared<const Answer>(Outcome{.status_code = 201, .body = text});
  } else {
    Failure failure;
    failure.disposition = choice == 5   ? Disposition::kNotApplied
                          : choice == 6 ? Disposition::kFinal
                                        : Disposition::kUnknown;
    failure.message = text;
    item.answer = std::make_shared<const Answer>(std::move(failure));
  }
  return item;
}

void Simulation::Send(std::variant<BeginItem, OwnerItem, LookupItem> asked, absl::Duration wait) {
  const size_t replica = random_.Below(kReplicas);
  CallTerms terms;
  terms.received = clock_.BootTime();
  terms.deadline =
      terms.received + random_.Of<absl::Duration>({absl::Milliseconds(30), absl::Seconds(3),
                                                   absl::Minutes(1), absl::Minutes(1)});
  terms.wait = wait;
  auto left = std::make_shared<std::atomic<bool>>(false);
  callers_left_.push_back(left);
  terms.caller_left = std::move(left);
  HeardCall& call = history_.Send(replica, asked, terms.received);
  BatchingEngine& engine = *replicas_[replica].engine;
  const auto hear = [this, &call](auto result) { history_.Hear(call, std::move(result)); };
  if (auto* begin = std::get_if<BeginItem>(&asked)) {
    engine.Begin(std::move(*begin), std::move(terms),
                 [hear](absl::StatusOr<BeginResult> result) { hear(std::move(result)); });
  } else if (auto* owner = std::get_if<OwnerItem>(&asked)) {
    engine.Owner(std::move(*owner), std::move(terms),
                 [hear](absl::StatusOr<OwnerResult> result) { hear(std::move(result)); });
  } else {
    engine.Lookup(std::move(std::get<LookupItem>(asked)), std::move(terms),
                  [hear](absl::StatusOr<LookupResult> result) { hear(std::move(result)); });
  }
}

bool Simulation::IsAllAnswered() const {
  return std::all_of(history_.calls().begin(), history_.calls().end(),
                     [](const HeardCall& call) { return call.answered_at.has_value(); });
}

void Simulation::Fail(const char* invariant, const std::string& what, const RecordKey& key) {
  if (!violation_.has_value()) violation_ = Violation{invariant, what, key};
}

void Simulation::End() {
  Note("the faults are over");
  weather_ = {};
  // The longest that anything waits for is a wait's or a locked row's 30 s.
  for (int i = 0; i < 400 && !IsAllAnswered(); ++i) {
    RunActors(4);
    Pass(absl::Milliseconds(200));
  }
  // The checker says which.
  if (!IsAllAnswered()) return;
  for (const RecordKey& key : keys_) DriveOn(key);
}

void Simulation::DriveOn(const RecordKey& key) {
  // The lease and the margin, and the pause after a jump, by a clock that may have been set back.
  Pass(absl::Seconds(30));
  if (set_back_ > absl::ZeroDuration()) Pass(std::exchange(set_back_, absl::ZeroDuration()));
  const auto call = [this](std::variant<BeginItem, OwnerItem, LookupItem> asked) {
    Send(std::move(asked), absl::ZeroDuration());
    callers_left_.clear();
    for (int i = 0; i < 20 && !history_.calls().back().answered_at.has_value(); ++i) RunActors(4);
    return history_.calls().back().told;
  };
  Work work;
  work.name = absl::StrCat("last of ", key.merchant_id, "/", key.idempotency_key);
  work.begin = BeginItem{.key = key, .operation = "POST /orders"};
  work.begin.attempt = HashAttemptId(work.name);
  work.begin.fingerprint.fill(1);
  work.begin.ttl = absl::Minutes(10);
  work.begin.lease_duration = absl::Seconds(10);
  const auto begun = call(work.begin);
  const auto* result = std::get_if<BeginResult>(&begun);
  if (result == nullptr) return Fail("I12", "a Begin is not decided without faults", key);
  if (result->verdict == BeginVerdict::kInProgress) {
    return Fail("I12", "a key cannot be driven on after its lease is over", key);
  }
  if (result->verdict != BeginVerdict::kStarted) return;
  OwnerItem complete{.key = key, .attempt = work.begin.attempt};
  complete.answer = std::make_shared<const Answer>(Outcome{.status_code = 201, .body = work.name});
  const auto completed = call(complete);
  const auto* recorded = std::get_if<OwnerResult>(&completed);
  if (recorded == nullptr || recorded->verdict != OwnerVerdict::kRecorded) {
    return Fail("I15", "an outcome is not recorded without faults", key);
  }
  // By either replica, from memory or not.
  for (size_t i = 0; i < 2 * kReplicas; ++i) {
    const auto again = call(work.begin);
    const auto* replay = std::get_if<BeginResult>(&again);
    if (replay == nullptr || replay->verdict != BeginVerdict::kReplay) {
      return Fail("I6", "what was recorded is not replayed", key);
    }
  }
}

void Simulation::ExpectIdle() {
  for (Replica& replica : replicas_) {
    const auto is_zero = [&](auto metric) { return replica.metrics.Value(metric) == 0; };
    if (is_zero(Metric::kCallsInFlight) && is_zero(Metric::kWaiting) &&
        is_zero(Metric::kSlowLaneCalls) && is_zero(Metric::kSlowLaneBytes) &&
        is_zero(LaneMetric::kQueuedItems) && is_zero(LaneMetric::kQueuedBytes)) {
      continue;
    }
    Fail("I13", "room is held by calls that are answered", keys_.front());
  }
}

SimulationResult Simulation::Run() {
  for (size_t i = 0; i < options_.actions; ++i) Act();
  End();
  StopActors();
  for (Replica& replica : replicas_) replica.engine.reset();
  ExpectIdle();
  return Conclude();
}

SimulationResult Simulation::Conclude() {
  SimulationResult result;
  result.violation = CheckHistory(
      history_, {.replay_window = ShortPolicy().replay_window, .clock_jumped = clock_jumped_});
  if (!result.violation.has_value()) result.violation = violation_;
  result.digest = DigestOf(history_);
  result.calls = history_.calls().size();
  for (const Replica& replica : replicas_) {
    const auto count = [&](Metric metric) {
      return static_cast<size_t>(replica.metrics.Value(metric));
    };
    result.starts += count(Metric::kBeginStarted);
    result.takeovers += replica.events.takeovers;
    result.replays += count(Metric::kBeginReplay);
    result.waits += count(Metric::kWaitWokenHere) + count(Metric::kWaitWokenByProbe) +
                    count(Metric::kWaitWokenByTime);
    result.unknown += count(Metric::kCommitUnknown);
    result.refused += count(Metric::kFencingRefused) + count(Metric::kOverloaded);
  }
  if (options_.is_traced) result.trace = TraceOf(history_, world_);
  return result;
}

}  // namespace

SimulationResult Simulate(const SimulationOptions& options) { return Simulation(options).Run(); }

std::string Explain(const SimulationOptions& options, const Violation& violation) {
  SimulationOptions shortest = options;
  shortest.is_traced = true;
  // The first actions are the same however many follow. Coarsely, then one by one.
  const auto goes_wrong = [&shortest](size_t actions) {
    shortest.actions = actions;
    return Simulate(shortest).violation.has_value();
  };
  constexpr size_t kCoarse = 20;
  size_t enough = kCoarse;
  while (enough < options.actions && !goes_wrong(enough)) enough += kCoarse;
  enough = std::min(enough, options.actions);
  size_t fewest = enough - std::min(enough, kCoarse);
  while (fewest < enough && !goes_wrong(fewest)) ++fewest;
  shortest.actions = fewest;
  const SimulationResult again = Simulate(shortest);
  const Violation& found = again.violation.value_or(violation);
  std::string text =
      absl::StrCat(found.invariant, " is violated for ", found.key.merchant_id, "/",
                   found.key.idempotency_key, ": ", found.what, "\n  seed ", options.seed,
                   ", actions ", shortest.actions, "; to see it again: ./dev simulate --seed ",
                   options.seed, " --actions ", shortest.actions, "\n");
  for (const std::string& line : again.trace) absl::StrAppend(&text, "  ", line, "\n");
  return text;
}

}  // namespace idempotency
