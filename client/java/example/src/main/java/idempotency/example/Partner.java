package idempotency.example;

import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.TimeoutException;

/** The bank at the other end. It remembers transfers by the key that comes with them. */
final class Partner {
  private final Map<String, String> transfers = new LinkedHashMap<>();
  private int moved;

  /**
   * Takes the money, once for each downstream key.
   *
   * @throws TimeoutException when no answer comes back: for the first transfer of a key, after the
   *     money was taken
   */
  synchronized String transfer(String downstreamKey, int amount) throws TimeoutException {
    String known = transfers.get(downstreamKey);
    if (known != null) return known;
    moved += amount;
    transfers.put(downstreamKey, "tr-" + (transfers.size() + 1));
    throw new TimeoutException("the partner did not answer in time");
  }

  /** The transfer with that key, if there is one. */
  synchronized Optional<String> find(String downstreamKey) {
    return Optional.ofNullable(transfers.get(downstreamKey));
  }

  synchronized int moved() {
    return moved;
  }
}
