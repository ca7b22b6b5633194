package idempotency.client.internal;

import java.util.HashSet;
import java.util.List;
import java.util.Set;

/** What is under way, until it is closed. Thread-safe. */
final class OpenSet<T> {
  private final Set<T> members = new HashSet<>();
  private boolean isClosed;

  /** Whether it was added; false once this is closed. */
  synchronized boolean add(T member) {
    return !isClosed && members.add(member);
  }

  synchronized void remove(T member) {
    members.remove(member);
    if (members.isEmpty()) notifyAll();
  }

  synchronized int size() {
    return members.size();
  }

  synchronized List<T> members() {
    return List.copyOf(members);
  }

  synchronized void close() {
    isClosed = true;
  }

  /** Waits until there is none, or the time is over. */
  synchronized void awaitEmpty(Moment end) throws InterruptedException {
    while (!members.isEmpty() && !end.isOver()) {
      wait(Math.max(1, end.left() / 1_000_000));
    }
  }
}
