package idempotency.client;

import java.time.Duration;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/**
 * How one call is to be run. Immutable. What is out of bounds is found when the call is made:
 * {@link InvalidFieldException} with the option's name as in {@code max_duration}.
 */
public final class RunOptions {
  private static final RunOptions DEFAULTS = builder().build();

  private final @Nullable Duration ttl;
  private final @Nullable Duration leaseDuration;
  private final Duration waitTimeout;
  private final Map<String, String> labels;
  private final Duration maxDuration;
  private final Duration startTimeout;
  private final OnUnavailable onUnavailable;
  private final @Nullable Function<? super Exception, FailureDisposition> classify;
  private final @Nullable Duration deadline;

  private RunOptions(Builder from) {
    ttl = from.ttl;
    leaseDuration = from.leaseDuration;
    waitTimeout = from.waitTimeout;
    labels = Collections.unmodifiableMap(new LinkedHashMap<>(from.labels));
    maxDuration = from.maxDuration;
    startTimeout = from.startTimeout;
    onUnavailable = from.onUnavailable;
    classify = from.classify;
    deadline = from.deadline;
  }

  /** The defaults of every option. */
  public static RunOptions defaults() {
    return DEFAULTS;
  }

  /** Options that differ from the defaults. */
  public static Builder builder() {
    return new Builder();
  }

  /** See {@link Builder#ttl}. */
  public @Nullable Duration ttl() {
    return ttl;
  }

  /** See {@link Builder#leaseDuration}. */
  public @Nullable Duration leaseDuration() {
    return leaseDuration;
  }

  /** See {@link Builder#waitTimeout}. */
  public Duration waitTimeout() {
    return waitTimeout;
  }

  /** See {@link Builder#label}. */
  public Map<String, String> labels() {
    return labels;
  }

  /** See {@link Builder#maxDuration}. */
  public Duration maxDuration() {
    return maxDuration;
  }

  /** See {@link Builder#startTimeout}. */
  public Duration startTimeout() {
    return startTimeout;
  }

  /** See {@link Builder#onUnavailable}. */
  public OnUnavailable onUnavailable() {
    return onUnavailable;
  }

  /** See {@link Builder#classify}. */
  public @Nullable Function<? super Exception, FailureDisposition> classify() {
    return classify;
  }

  /** See {@link Builder#deadline}. */
  public @Nullable Duration deadline() {
    return deadline;
  }

  /** Makes {@link RunOptions}. Not thread-safe. */
  public static final class Builder {
    private @Nullable Duration ttl;
    private @Nullable Duration leaseDuration;
    private Duration waitTimeout = Duration.ZERO;
    private final Map<String, String> labels = new LinkedHashMap<>();
    private Duration maxDuration = Duration.ofMinutes(15);
    private Duration startTimeout = Duration.ofSeconds(30);
    private OnUnavailable onUnavailable = OnUnavailable.FAIL;
    private @Nullable Function<? super Exception, FailureDisposition> classify;
    private @Nullable Duration deadline;

    private Builder() {}

    /**
     * How long the record answers, from its first call: 1 min to 30 days. By default the key's,
     * else 24 h. The first call's counts.
     */
    public Builder ttl(Duration ttl) {
      this.ttl = ttl;
      return this;
    }

    /**
     * How long a crashed attempt keeps others out: 1 s to 1 h, 60 s by default. Renewed at a third
     * of it while the work runs, so it need not be as long as the work.
     */
    public Builder leaseDuration(Duration leaseDuration) {
      this.leaseDuration = leaseDuration;
      return this;
    }

    /**
     * If somebody else is at it: how long to wait for their outcome before answering {@link
     * RunResult.InProgress}. By default not at all.
     */
    public Builder waitTimeout(Duration waitTimeout) {
      this.waitTimeout = waitTimeout;
      return this;
    }

    /**
     * Adds a word for people, such as the order's number: at most 16, names 1 to 32 and values up
     * to 128 bytes of UTF-8. Shown by lookup, never compared.
     */
    public Builder label(String name, String value) {
      labels.put(name, value);
      return this;
    }

    /**
     * How long the work may run, above 0, 15 min by default. Then it is asked to stop, and the
     * lease is no longer renewed.
     */
    public Builder maxDuration(Duration maxDuration) {
      this.maxDuration = maxDuration;
      return this;
    }

    /**
     * How long the service is asked, over all tries, before this gives up without running the work:
     * above 0, 30 s by default. {@link #waitTimeout} comes on top.
     */
    public Builder startTimeout(Duration startTimeout) {
      this.startTimeout = startTimeout;
      return this;
    }

    /** What happens when the service cannot be reached: {@link OnUnavailable#FAIL} by default. */
    public Builder onUnavailable(OnUnavailable onUnavailable) {
      this.onUnavailable = onUnavailable;
      return this;
    }

    /**
     * What an exception of the work says about it. By default, and if this throws or answers null:
     * {@link FailureDisposition#UNKNOWN}. {@link FailureDisposition#NOT_APPLIED} only for what
     * proves that nothing happened. Not asked about an {@link Error}, which is always unknown.
     */
    public Builder classify(Function<? super Exception, FailureDisposition> classify) {
      this.classify = classify;
      return this;
    }

    /**
     * The caller's own end of patience, counted from the call; none by default, over at once if not
     * above 0. Before the work: it will not run. In it: it is asked to stop. After it: what it came
     * to is recorded all the same; when that takes longer than a second the call ends with {@link
     * OutcomeNotRecordedException} and {@code stillRecording}.
     *
     * <p>The thread's interruption, the cancellation of the future of {@link Runner#runOnceAsync},
     * and the end of the current {@link io.grpc.Context} act in the same way.
     */
    public Builder deadline(Duration deadline) {
      this.deadline = deadline;
      return this;
    }

    /** What was said so far. */
    public RunOptions build() {
      return new RunOptions(this);
    }
  }
}
