package idempotency.client;

/**
 * What is wrong with one field.
 *
 * @param field a path such as {@code outcome.headers[3].name}
 * @param description words for people
 */
public record FieldViolation(String field, String description) {}
